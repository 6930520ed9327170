//! How requests end, by kind.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use teamwire_proto::v1::{Request, RequestKind, RequestState};

const KINDS: [RequestKind; 4] =
    [RequestKind::Shutdown, RequestKind::PlanApproval, RequestKind::Permission, RequestKind::Spawn];

const OUTCOMES: [RequestState; 4] =
    [RequestState::Approved, RequestState::Rejected, RequestState::Expired, RequestState::Cancelled];

/// The kind and the outcome.
type Labels = [(&'static str, &'static str); 2];

/// Counters of decided requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decisions(Family<Labels, Counter>);

impl Decisions {
    /// Creates the counters, all of them at zero, and adds them to a registry, which adds the full stop to the help
    /// text.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let decisions = Self::default();
        let help = "Requests decided, by kind and outcome: approved, rejected, expired or cancelled";
        registry.register("decisions", help, decisions.0.clone());
        for kind in KINDS {
            for outcome in OUTCOMES {
                drop(decisions.0.get_or_create(&labels(kind, outcome)));
            }
        }
        decisions
    }

    /// Counts a request that was decided.
    pub(crate) fn count(&self, request: &Request) {
        self.0.get_or_create(&labels(request.kind(), request.state())).inc();
    }
}

fn labels(kind: RequestKind, outcome: RequestState) -> Labels {
    let kind = match kind {
        RequestKind::Shutdown => "shutdown",
        RequestKind::PlanApproval => "plan",
        RequestKind::Permission => "permission",
        RequestKind::Review => "review",
        RequestKind::Spawn => "spawn",
        RequestKind::Unspecified => "unknown",
    };
    let outcome = match outcome {
        RequestState::Approved => "approved",
        RequestState::Rejected => "rejected",
        RequestState::Expired => "expired",
        RequestState::Cancelled => "cancelled",
        RequestState::Pending | RequestState::Unspecified => "unknown",
    };
    [("kind", kind), ("outcome", outcome)]
}
