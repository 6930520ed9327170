//! Shutdown requests, plans and permission requests.

use teamwire_proto::v1::{self, RequestKind, RequestState};

use super::plain;

/// Describes the state of a request: who decided it, and why.
pub fn request_text(request: &v1::Request) -> String {
    let by = request.decided_by.as_ref().map_or_else(String::new, |by| format!(" by {}", by.name));
    let mut text = format!("{}{by}", request_state(request.state()));
    if !request.reason.is_empty() {
        text.push_str(": ");
        text.push_str(&plain(&request.reason));
    }
    if request.state() == RequestState::Cancelled {
        let cause = format!("{:?}", request.cancel_cause());
        let words: String = cause
            .chars()
            .flat_map(|c| c.is_uppercase().then_some(' ').into_iter().chain([c.to_ascii_lowercase()]))
            .collect();
        text.push_str(&format!(" ({})", words.trim()));
    }
    text
}

pub fn request_kind(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Unspecified => "unknown",
        RequestKind::Shutdown => "shutdown",
        RequestKind::PlanApproval => "plan",
        RequestKind::Permission => "permission",
        RequestKind::Spawn => "spawn",
    }
}

fn request_state(state: RequestState) -> &'static str {
    match state {
        RequestState::Unspecified => "unknown",
        RequestState::Pending => "pending",
        RequestState::Approved => "approved",
        RequestState::Rejected => "rejected",
        RequestState::Expired => "expired",
        RequestState::Cancelled => "cancelled",
    }
}
