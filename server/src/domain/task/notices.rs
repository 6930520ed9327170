//! The notices that owners of tasks get, and those who wait for a task.

use teamwire_proto::v1::{self, NoticeKind};

use super::{
    board::{BoardRecord, Status, TaskRecord, listed, record_id},
    change::{not_found, read_board},
};
use crate::domain::{
    actor::Actor,
    notices,
    records::TeamRecord,
    subscriptions,
    tx::{RuleError, Tx},
};

/// How many bytes a description may have to be included in a notice.
const NOTICE_DESCRIPTION_BYTES_MAX: usize = 4 * 1024;

fn summary(task: &TaskRecord, actor: &Actor) -> v1::TaskSummary {
    let fits = task.description.len() <= NOTICE_DESCRIPTION_BYTES_MAX;
    v1::TaskSummary {
        id: task.id,
        subject: task.subject.clone(),
        description: if fits { task.description.clone() } else { String::new() },
        assigned_by: Some(actor.into()),
        waiting_for: Vec::new(),
    }
}

/// Returns a task as a notice of the coordinator includes it.
pub(super) fn summary_of_record(task: &TaskRecord) -> v1::TaskSummary {
    summary(task, &Actor::Coordinator)
}

/// Returns a task as a notice includes it. `None` if there is no such task.
pub(in crate::domain) fn summary_of(tx: &mut Tx<'_>, id: u64) -> Result<Option<v1::TaskSummary>, RuleError> {
    let task = tx.read::<TaskRecord>(&record_id(id))?;
    Ok(task.map(|task| summary(&task, &Actor::Coordinator)))
}

/// Returns a task as a notice includes it, and which it is, if it is completed or deleted.
pub(in crate::domain) fn closed(
    tx: &mut Tx<'_>,
    id: u64,
) -> Result<Option<(v1::TaskSummary, &'static str)>, RuleError> {
    let Some(task) = tx.read::<TaskRecord>(&record_id(id))? else {
        return Err(not_found(&*read_board(tx)?, id).into());
    };
    Ok(match task.status {
        Status::Completed => Some((summary_of_record(&task), "is completed")),
        Status::Deleted => Some((summary_of_record(&task), "is deleted")),
        _ => None,
    })
}

/// Notifies those who wait for a task that `actor` has completed or deleted.
pub(super) fn tell_subscribers(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    actor: &Actor,
    task: &TaskRecord,
) -> Result<(), RuleError> {
    let how = if task.status == Status::Deleted { "was deleted" } else { "was completed" };
    let how = format!("{how} by {}", v1::Sender::from(actor).name);
    subscriptions::task_done(tx, team, summary_of_record(task), &how)
}

/// Notifies a task's owner that it is assigned to it, unless the owner assigned it itself.
pub(super) fn tell_assigned(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    actor: &Actor,
    board: &BoardRecord,
    task: &TaskRecord,
) -> Result<(), RuleError> {
    let Some(owner) = task.owner.clone().map(Actor::Member).filter(|owner| owner != actor) else {
        return Ok(());
    };
    let waiting_for: Vec<u64> = board.open_of(&task.blocked_by).collect();
    let mut text = format!("Task {} is assigned to you: {}.", task.id, task.subject);
    if !waiting_for.is_empty() {
        text += &format!(" It is blocked by {}.", listed(&waiting_for));
    }
    let notice = v1::Notice {
        kind: NoticeKind::TaskAssignment.into(),
        task: Some(v1::TaskSummary { waiting_for, ..summary(task, actor) }),
        text,
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&owner], notice)
}

/// Notifies a task's former owner and the lead that its claim has expired. `task`: back on the board, but with its
/// owner.
pub(super) fn tell_lapsed(tx: &mut Tx<'_>, team: &TeamRecord, task: &TaskRecord) -> Result<(), RuleError> {
    let (Some(owner), Some(released)) = (&task.owner, task.released_text()) else { return Ok(()) };
    let notice = v1::Notice {
        kind: NoticeKind::TaskLapsed.into(),
        member: owner.to_string(),
        task: Some(summary(task, &Actor::Coordinator)),
        text: format!("{released}. {owner} had claimed it and must stop working on it, or claim it again."),
        ..v1::Notice::default()
    };
    let (owner, lead) = (Actor::Member(owner.clone()), Actor::Member(team.lead.clone()));
    notices::notify(tx, team, &[&owner, &lead], notice)
}

/// Notifies a task's owner that another caller ended its claim.
pub(super) fn tell_revoked(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    actor: &Actor,
    task: &TaskRecord,
) -> Result<(), RuleError> {
    let Some(owner) = task.owner.clone().map(Actor::Member).filter(|owner| owner != actor) else {
        return Ok(());
    };
    let notice = v1::Notice {
        kind: NoticeKind::TaskRevoked.into(),
        task: Some(summary(task, actor)),
        text: format!("Task {} is no longer yours: {}. Stop working on it.", task.id, task.subject),
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&owner], notice)
}
