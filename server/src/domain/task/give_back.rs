//! What happens to a member's tasks when its life or their claims end.

use std::time::Duration;

use teamwire_proto::{name::Name, v1::TaskEventKind};

use super::{
    board::{Place, TaskRecord, WaitingRecord, each, record_id},
    change::{Change, find, read_board, record},
    notices::tell_lapsed,
};
use crate::domain::{
    actor::Actor,
    records::TeamRecord,
    secret::ClaimToken,
    text::enumerate,
    tx::{RuleError, Tx},
};

/// How many tasks a notice names.
const IDS_NAMED_MAX: usize = 32;

/// Releases every task that a member has claimed, because its life has ended. `because`: a clause, such as "its owner
/// has exited". Returns the tasks.
pub fn give_back(tx: &mut Tx<'_>, name: &Name, because: &str) -> Result<Vec<u64>, RuleError> {
    let change = Change::begin(tx)?;
    let ids = change.board.claimed_by(name);
    lapse(tx, change, &ids, because)?;
    Ok(ids)
}

/// Returns the tasks that a member has claimed, with their subjects.
pub fn claimed_by(tx: &mut Tx<'_>, name: &Name) -> Result<Vec<(u64, String)>, RuleError> {
    let board = read_board(tx)?;
    let ids = board.claimed_by(name);
    tx.want::<TaskRecord>(ids.iter().map(|id| record_id(*id)))?;
    ids.into_iter().map(|id| Ok((id, find(tx, &board, id)?.subject))).collect()
}

/// Releases the tasks whose claims have expired, and notifies their owners and the lead. Returns when the next claim
/// expires. `None` if no claim does.
pub fn expire_claims(tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Option<u64>, RuleError> {
    let change = Change::begin(tx)?;
    let now_ms = tx.ctx.now_ms;
    let (due, later): (Vec<_>, Vec<_>) =
        change.board.expiring.iter().map(|(id, at_ms)| (*at_ms, *id)).partition(|(at_ms, _)| *at_ms <= now_ms);
    let ids: Vec<u64> = due.into_iter().map(|(_, id)| id).collect();
    let because = format!("its claim expired after {}", duration_text(tx.ctx.limits.claim_ttl));
    for lapsed in lapse(tx, change, &ids, &because)? {
        tell_lapsed(tx, team, &lapsed)?;
    }
    Ok(later.into_iter().map(|(at_ms, _)| at_ms).min())
}

/// Puts claimed tasks back on the board. Returns them, with the owners that they had.
fn lapse(tx: &mut Tx<'_>, mut change: Change, ids: &[u64], because: &str) -> Result<Vec<TaskRecord>, RuleError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    tx.want::<TaskRecord>(ids.iter().map(|id| record_id(*id)))?;
    let mut tasks = Vec::with_capacity(ids.len());
    for id in ids {
        let mut task = find(tx, &change.board, *id)?;
        let owner = task.owner.clone();
        back_to_the_board(tx, &mut change, &mut task, None, because)?;
        let lapsed = TaskRecord { owner, ..task };
        record(tx, TaskEventKind::Lapsed, &lapsed, &Actor::Coordinator, because);
        tasks.push(lapsed);
    }
    change.finish(tx);
    Ok(tasks)
}

/// Writes a duration as a reader would: in hours if it is whole hours.
fn duration_text(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds > 0 && seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
        seconds => format!("{seconds} s"),
    }
}

/// Returns the tasks that are assigned to a member and not claimed, including blocked ones.
pub fn still_assigned(tx: &mut Tx<'_>, name: &Name) -> Result<Vec<u64>, RuleError> {
    let mut ids = read_board(tx)?.assigned.get(name).map_or_else(Vec::new, each);
    let record = tx.read::<WaitingRecord>("")?.unwrap_or_default();
    let waiting = record.waiting.iter().filter(|(_, waiting)| waiting.owner.as_ref() == Some(name));
    ids.extend(waiting.map(|(id, _)| *id));
    ids.sort_unstable();
    Ok(ids)
}

/// Tells the lead about tasks that stay assigned to an exited member, if there are any.
pub fn still_assigned_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Task {id} is still assigned to it: reassign it."),
        _ => format!(" Tasks {} are still assigned to it: reassign them.", enumerate(ids, IDS_NAMED_MAX)),
    }
}

/// Tells the lead about tasks that were released, if there were any.
pub fn given_back_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Its task {id} is back on the board."),
        _ => format!(" Its tasks {} are back on the board.", enumerate(ids, IDS_NAMED_MAX)),
    }
}

pub(super) fn back_to_the_board(
    tx: &mut Tx<'_>,
    change: &mut Change,
    task: &mut TaskRecord,
    kept: Option<ClaimToken>,
    because: &str,
) -> Result<(), RuleError> {
    task.go_back(because, tx.ctx.now_ms);
    task.owner = None;
    task.claim = kept;
    // A task in progress waits for no other.
    change.board.place(task.id, Place::Ready);
    change.write(tx, task)
}
