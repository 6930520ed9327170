//! What happens to a member's tasks when its life ends.

use teamwire_proto::{name::Name, v1::TaskEventKind};

use super::{
    board::{Place, Status, TaskRecord, WaitingRecord, each, record_id},
    change::{Change, find, read_board, record, write},
};
use crate::domain::{
    actor::Actor,
    tx::{RuleError, Tx},
};

/// How many tasks a notice names.
const IDS_NAMED_MAX: usize = 32;

/// Releases every task that a member has claimed, because its life has ended. Returns the tasks.
pub fn give_back(tx: &mut Tx<'_>, name: &Name, because: &str) -> Result<Vec<u64>, RuleError> {
    let mut change = Change::begin(tx)?;
    let ids = change.board.claimed_by(name);
    if ids.is_empty() {
        return Ok(ids);
    }
    tx.want::<TaskRecord>(ids.iter().map(|id| record_id(*id)))?;
    for id in &ids {
        let mut task = find(tx, &change.board, *id)?;
        let owner = task.owner.clone();
        back_to_the_board(tx, &mut change, &mut task, None, because);
        let lapsed = TaskRecord { owner, ..task };
        record(tx, TaskEventKind::Lapsed, &lapsed, &Actor::Coordinator, because);
    }
    change.finish(tx);
    Ok(ids)
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

/// Tells the lead about tasks that stay assigned to an exited member. Empty: there are none.
pub fn still_assigned_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Task {id} is still assigned to it: reassign it."),
        _ => format!(" Tasks {} are still assigned to it: reassign them.", enumerate(ids)),
    }
}

/// Tells the lead about tasks that were released. Empty: there were none.
pub fn given_back_text(ids: &[u64]) -> String {
    match ids {
        [] => String::new(),
        [id] => format!(" Its task {id} is back on the board."),
        _ => format!(" Its tasks {} are back on the board.", enumerate(ids)),
    }
}

/// Lists ids in a text; if there are many, only the first.
fn enumerate(ids: &[u64]) -> String {
    let list: Vec<String> = ids.iter().take(IDS_NAMED_MAX).map(u64::to_string).collect();
    match ids.len().saturating_sub(IDS_NAMED_MAX) {
        0 => list.join(", "),
        more => format!("{} and {more} more", list.join(", ")),
    }
}

pub(super) fn back_to_the_board(
    tx: &mut Tx<'_>,
    change: &mut Change,
    task: &mut TaskRecord,
    kept: Option<String>,
    because: &str,
) {
    task.status = Status::Pending;
    task.owner = None;
    task.claim = kept;
    because.clone_into(&mut task.released_because);
    // A task in progress waits for no other.
    change.board.place(task.id, Place::Ready);
    write(tx, task);
}
