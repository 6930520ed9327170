//! Listing tasks.

use std::{collections::BTreeMap, sync::Arc};

use teamwire_proto::{
    name::Name,
    v1::{self, TaskStatus},
};

use super::board::{BoardRecord, Ids, TaskRecord, each};
use crate::domain::{
    fields::known,
    identity::{self, Admit, CallerCredentials},
    tx::{RuleError, Tx},
};

/// The tasks that a list may contain.
#[derive(Debug)]
pub struct Listing {
    /// The board.
    pub board: Arc<BoardRecord>,
    /// Their ids, in ascending order.
    pub ids: Vec<u64>,
    /// Which of them the list contains: they may have changed since the board was read.
    pub filter: Filter,
}

/// Which tasks a list contains.
#[derive(Debug)]
pub struct Filter {
    status: TaskStatus,
    owner: Option<Name>,
}

impl Filter {
    /// Returns whether a task passes.
    pub fn passes(&self, task: &TaskRecord) -> bool {
        self.owner.as_ref().is_none_or(|owner| task.is_owned_by(owner)) && has_status(task, self.status)
    }
}

/// Finds the tasks that a list may contain.
pub fn list(tx: &mut Tx<'_>, who: &CallerCredentials, request: &v1::ListTasksRequest) -> Result<Listing, RuleError> {
    let status = known::<TaskStatus>(request.status, "status")?;
    let (team, _) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    let owner = match request.owner.as_str() {
        "" => None,
        text => Some(team.resolve(text, "owner")?.name.clone()),
    };
    let board = tx.read::<BoardRecord>("")?.unwrap_or_default();
    let ids = candidates(&board, status, request.ready_only);
    Ok(Listing { board, ids, filter: Filter { status, owner } })
}

/// Returns the ids of the tasks that a list may contain, in their order.
fn candidates(board: &BoardRecord, status: TaskStatus, ready_only: bool) -> Vec<u64> {
    let of = |by: &BTreeMap<Name, Ids>| by.values().flat_map(each).collect::<Vec<_>>();
    let ready = || [each(&board.ready), of(&board.assigned)].concat();
    let mut ids = match status {
        TaskStatus::Unspecified | TaskStatus::Pending if ready_only => ready(),
        _ if ready_only => Vec::new(),
        TaskStatus::Unspecified => {
            [ready(), each(&board.blocked), of(&board.claimed), each(&board.in_review), each(&board.completed)].concat()
        }
        TaskStatus::Pending => [ready(), each(&board.blocked)].concat(),
        TaskStatus::InProgress => of(&board.claimed),
        TaskStatus::InReview => each(&board.in_review),
        TaskStatus::Completed => each(&board.completed),
        TaskStatus::Deleted => each(&board.deleted).into_iter().chain(board.deleted_before.keys().copied()).collect(),
    };
    ids.sort_unstable();
    ids
}

/// Returns the ids of all tasks that are not deleted, in their order.
pub fn undeleted(board: &BoardRecord) -> Vec<u64> {
    candidates(board, TaskStatus::Unspecified, false)
}

fn has_status(task: &TaskRecord, status: TaskStatus) -> bool {
    let is = TaskStatus::from(task.status);
    match status {
        TaskStatus::Unspecified => is != TaskStatus::Deleted,
        status => is == status,
    }
}
