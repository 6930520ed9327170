//! What is wrong in a team, and what to do about it. `doctor`, the console, the tools of agents and the clients show
//! what this says.
//!
//! Each function looks at one thing as it is shown to the caller, and returns what it finds, so that the whole team
//! never has to be in memory. Texts may quote what agents wrote: on one line, but with the characters that the agent
//! chose.

mod asker;
mod finding;
mod host;
mod inbox;
mod member;
mod request;
mod team;

use std::time::Duration;

use teamwire_proto::{
    Reason, Refusal, duration,
    v1::{self, Finding, Severity},
};

pub use self::{
    asker::Asker,
    host::of_host,
    inbox::{EXAMINED_MAX, WaitingMessage, Waits, of_inbox, reads_inbox},
    member::{Subject, of_member},
    request::{PendingRequest, is_overdue, of_request},
    team::{of_alerts, of_history, of_team, refused_writes, unknown},
};
use super::{
    page::{PAGE_BYTES_MAX, Page},
    time::{milliseconds, ms},
};

/// How long something can take before it counts as a problem, if the request does not say.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many findings a diagnosis returns at most, besides the one that says how many are left out.
const FINDINGS_MAX: usize = 500;

/// How many names a finding lists.
const NAMES_MAX: usize = 20;

/// The clock of a diagnosis, and its patience.
#[derive(Clone, Copy, Debug)]
pub struct Ages {
    now_ms: u64,
    patience_ms: u64,
}

impl Ages {
    /// Reads the patience that a request asks for.
    pub fn new(now_ms: u64, patience: Option<&prost_types::Duration>) -> Result<Self, Refusal> {
        let given = patience.map_or(Some(PATIENCE), |given| duration::from_proto(*given));
        let patience = given
            .ok_or_else(|| Refusal::new(Reason::InvalidField, "patience must not be negative.").field("patience"))?;
        Ok(Self { now_ms, patience_ms: ms(patience) })
    }

    /// Returns how long ago a timestamp was; zero if it is missing or in the future.
    fn since(self, at: Option<&prost_types::Timestamp>) -> Duration {
        at.map_or(Duration::ZERO, |at| self.since_ms(milliseconds(at)))
    }

    /// Returns how long ago an instant was; zero if it is in the future.
    fn since_ms(self, at_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms.saturating_sub(at_ms))
    }

    /// Returns whether something has lasted so long that it is a problem.
    fn is_too_long(self, lasted: Duration) -> bool {
        ms(lasted) >= self.patience_ms
    }
}

/// Returns the findings that a reply holds: problems first, and no more than fit.
pub fn reply(mut findings: Vec<Finding>) -> v1::DiagnoseResponse {
    findings.sort_by_key(|finding| finding.severity() != Severity::Problem);
    let (count, mut page) = (findings.len(), Page::within(FINDINGS_MAX, PAGE_BYTES_MAX));
    let _ = findings.into_iter().all(|finding| page.add(finding));
    let mut findings = page.into_items();
    if findings.len() < count {
        findings.push(finding::more(count - findings.len()));
    }
    v1::DiagnoseResponse { findings }
}
