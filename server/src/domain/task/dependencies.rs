//! Dependencies: tasks that wait for others.

use std::collections::BTreeSet;

use teamwire_proto::{Reason, Refusal};

use super::{
    board::{Status, TaskRecord, record_id},
    change::{Change, find, not_found},
};
use crate::domain::tx::{RuleError, Tx};

/// Makes a task wait for others, whose records note it.
pub(super) fn block(
    tx: &mut Tx<'_>,
    change: &mut Change,
    task: &mut TaskRecord,
    blockers: &[u64],
    field: &str,
) -> Result<(), RuleError> {
    let new: BTreeSet<u64> = blockers.iter().copied().filter(|id| !task.blocked_by.contains(id)).collect();
    let quota = |what: String| RuleError::from(Refusal::new(Reason::QuotaExceeded, what).field(field));
    let max = tx.ctx.limits.task_dependencies_max;
    if task.blocked_by.len() + new.len() > max {
        return Err(quota(format!("A task waits for up to {max} others. Put a task between them.")));
    }
    if change.waiting.dependencies() + new.len() > tx.ctx.limits.board_dependencies_max {
        return Err(quota("The board has too many dependencies. Complete or delete some tasks.".to_owned()));
    }
    tx.want::<TaskRecord>(new.iter().map(|id| record_id(*id)))?;
    for id in new {
        if id == task.id {
            return Err(cycle(&[id], field).into());
        }
        let mut blocker = find(tx, &change.board, id).map_err(|stop| with_field(stop, field))?;
        if blocker.status == Status::Deleted {
            return Err(not_found(&change.board, id).field(field).into());
        }
        if let Some(mut path) = change.waiting.path(id, task.id) {
            path.insert(0, task.id);
            return Err(cycle(&path, field).into());
        }
        if blocker.blocks.insert(task.id) {
            change.write(tx, &mut blocker)?;
        }
        task.blocked_by.insert(id);
        // A dependency that is added next may close a cycle through this one.
        if change.board.is_open(id) {
            change.waiting.waiting.entry(task.id).or_default().on.insert(id);
            change.waiting_has_changed = true;
        }
    }
    Ok(())
}

/// Makes a task no longer wait for others, whose records note it.
pub(super) fn unblock(
    tx: &mut Tx<'_>,
    change: &mut Change,
    task: &mut TaskRecord,
    blockers: &[u64],
) -> Result<(), RuleError> {
    // Other tasks that were named need not be read, however many they are.
    let blockers: BTreeSet<u64> = blockers.iter().copied().filter(|id| task.blocked_by.contains(id)).collect();
    tx.want::<TaskRecord>(blockers.iter().map(|id| record_id(*id)))?;
    for id in &blockers {
        task.blocked_by.remove(id);
        if let Some(blocker) = tx.read::<TaskRecord>(&record_id(*id))? {
            let mut blocker = TaskRecord::clone(&blocker);
            blocker.blocks.remove(&task.id);
            change.write(tx, &mut blocker)?;
        }
    }
    Ok(())
}

fn with_field(stop: RuleError, field: &str) -> RuleError {
    match stop {
        RuleError::Refused(refusal) => RuleError::Refused(refusal.field(field)),
        other => other,
    }
}

/// How many tasks of a cycle a refusal names: its beginning and its end.
const ROUND_NAMED_MAX: usize = 32;

/// Returns the refusal of dependencies that would close a cycle, with the cycle.
fn cycle(path: &[u64], field: &str) -> Refusal {
    let mut round: Vec<String> = path.iter().map(u64::to_string).collect();
    if path.first() != path.last() || path.len() == 1 {
        round.extend(path.first().map(u64::to_string));
    }
    if round.len() > ROUND_NAMED_MAX {
        let left_out = format!("{} more", round.len() - ROUND_NAMED_MAX);
        round.splice(ROUND_NAMED_MAX / 2..round.len() - ROUND_NAMED_MAX / 2, [left_out]);
    }
    let round = round.join(" -> ");
    Refusal::new(
        Reason::TaskCycle,
        format!("These tasks would wait for each other: {round}. Leave out one of the dependencies."),
    )
    .field(field)
    .with("cycle", round)
}
