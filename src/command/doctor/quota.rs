//! Findings about the team's quota.

use teamwire_client::v1;

use super::{finding::Finding, reader::Reader};
use crate::show;

/// Reports what is nearly full or full: the team, its tasks, or the history of its tasks.
pub(super) fn quota(reader: &Reader, team: &v1::Team) -> Vec<Finding> {
    let wait = "Delete tasks that are no longer needed, or wait until old history is deleted";
    let next = match reader.can_lead() {
        true => format!("{wait}; the coordinator's operator can raise `limits.team_bytes_max`."),
        false => format!("{wait}. {}", reader.tell_lead()),
    };
    let found = show::nearly_full(team).into_iter().map(|part| match part.is_full {
        true => {
            let text = format!("{} Teammates can add nothing more there.", part.text);
            Finding::problem("quota_exceeded", "", text, next.clone())
        }
        false => Finding::note("quota_nearly_used", part.text, next.clone()),
    });
    found.collect()
}
