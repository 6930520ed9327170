//! What tools answer.

use std::fmt::Write as _;

use teamwire_client::{Error, v1};
use teamwire_proto::{v1::TaskStatus, word};

use crate::{agent_text::escaped, visible::shown};

/// Returns the text of a call that failed, for the agent. It may quote what someone else has written.
pub(super) fn failure(error: impl Into<Error>) -> String {
    shown(&match error.into() {
        Error::Refused(refusal) => format!("{}: {}", refusal.reason, refusal.message),
        other => other.to_string(),
    })
}

/// Returns a task on one line.
pub(super) fn task_line(task: &v1::Task) -> String {
    let status = task.status().as_str_name().trim_start_matches("TASK_STATUS_").to_ascii_lowercase();
    let mut line = format!("#{} [{status}] {}", task.id, one_line(&task.subject));
    match (task.owner.as_str(), task.status()) {
        ("", _) => {}
        (owner, TaskStatus::Pending) => _ = write!(line, " (for {owner})"),
        (owner, _) => _ = write!(line, " (by {owner})"),
    }
    if !task.waiting_for.is_empty() {
        _ = write!(line, " (blocked by {})", ids(&task.waiting_for));
    }
    line
}

/// Returns tasks' numbers, such as "#1, #2".
pub(super) fn ids(ids: &[u64]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}

fn one_line(text: &str) -> String {
    escaped(&word::one_line(text))
}
