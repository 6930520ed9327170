//! Who may change a task.

use teamwire_proto::{Reason, Refusal, name::Name};

use super::board::{Status, TaskRecord};
use crate::domain::identity::Principal;

pub(super) fn refuse_closed(task: &TaskRecord) -> Result<(), Refusal> {
    let how = match task.status {
        Status::Pending | Status::InProgress | Status::InReview => return Ok(()),
        Status::Completed => "completed",
        Status::Deleted => "deleted",
    };
    Err(Refusal::new(
        Reason::TaskClosed,
        format!("Task {} is {how}, and that is final. Add a new task if there is more to do.", task.id),
    )
    .field("task_id")
    .with("status", how))
}

pub(super) fn owner_or_lead(caller: &Principal, task: &TaskRecord) -> Result<(), Refusal> {
    match caller {
        Principal::Member { name, .. } if task.is_owned_by(name) => Ok(()),
        _ => lead_or_operator(caller, task),
    }
}

pub(super) fn lead_or_operator(caller: &Principal, task: &TaskRecord) -> Result<(), Refusal> {
    if is_lead_or_operator(caller) { Ok(()) } else { Err(claimed(task)) }
}

/// Returns whether the caller may change every member's tasks.
pub(super) fn is_lead_or_operator(caller: &Principal) -> bool {
    matches!(caller, Principal::Operator | Principal::Member { lead: true, .. })
}

/// Returns the refusal of a caller that wants another member's task.
pub(super) fn claimed(task: &TaskRecord) -> Refusal {
    let owner = task.owner.as_ref().map_or("no member", Name::as_str);
    let how = match task.status {
        Status::InProgress => "in progress with",
        Status::InReview => "in review for",
        _ => "assigned to",
    };
    Refusal::new(
        Reason::TaskClaimed,
        format!("Task {} is {how} {owner}. Take another (`teamwire task next`), or ask {owner} or the lead.", task.id),
    )
    .field("task_id")
    .with("owner", owner)
}
