//! Findings about the team's quota.

use teamwire_client::v1;

use super::{finding::Finding, reader::Reader};

/// From how many percent on a note says how full the team is.
const NEAR_PERCENT: u64 = 80;

/// From how many percent on it is a problem: little more fits.
const FULL_PERCENT: u64 = 99;

/// Reports what is nearly full or full: the team, its tasks, or the history of its tasks.
pub(super) fn quota(reader: &Reader, team: &v1::Team) -> Vec<Finding> {
    let Some(storage) = &team.storage else { return Vec::new() };
    let parts = [
        ("The team", storage.bytes, storage.bytes_max),
        ("The team's tasks", storage.task_bytes, storage.task_bytes_max),
        ("The history of the team's tasks", storage.task_history_bytes, storage.task_history_bytes_max),
    ];
    let mut findings = Vec::new();
    for (what, bytes, max) in parts.into_iter().filter(|(.., max)| *max > 0) {
        let percent = bytes.saturating_mul(100) / max;
        let text = format!("{what} uses {percent}% of its quota: {} of {} MiB.", bytes >> 20, max >> 20);
        let wait = "Delete tasks that are no longer needed, or wait until old history is deleted";
        let next = match reader.can_lead() {
            true => format!("{wait}; the coordinator's operator can raise `limits.team_bytes_max`."),
            false => format!("{wait}. {}", reader.tell_lead()),
        };
        if percent >= FULL_PERCENT {
            let text = format!("{text} Teammates can add nothing more there.");
            findings.push(Finding::problem("quota_exceeded", "", text, next));
        } else if percent >= NEAR_PERCENT {
            findings.push(Finding::note("quota_nearly_used", text, next));
        }
    }
    findings
}
