//! A board that is about to be changed, and the tasks on it.

use std::{collections::BTreeSet, sync::Arc};

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, TaskEventKind},
};

use super::board::{BlockedTask, BoardRecord, Place, TaskRecord, WaitingRecord, record_id};
use super::paths;
use crate::domain::{
    actor::Actor,
    history,
    quota::{Spender, tasks_full},
    topics::Topic,
    tx::{RuleError, Tx},
};

pub(super) fn read_board(tx: &mut Tx<'_>) -> Result<Arc<BoardRecord>, RuleError> {
    Ok(tx.read::<BoardRecord>("")?.unwrap_or_default())
}

/// A board that is about to be changed.
pub(super) struct Change {
    pub(super) board: BoardRecord,
    pub(super) waiting: WaitingRecord,
    pub(super) waiting_has_changed: bool,
    /// How many bytes the tasks had.
    bytes_before: u64,
}

impl Change {
    pub(super) fn begin(tx: &mut Tx<'_>) -> Result<Self, RuleError> {
        let board = BoardRecord::clone(&*read_board(tx)?);
        let bytes_before = board.bytes;
        Ok(Self { board, waiting: WaitingRecord::default(), waiting_has_changed: false, bytes_before })
    }

    /// Also reads which task waits for which.
    pub(super) fn with_waiting(mut self, tx: &mut Tx<'_>) -> Result<Self, RuleError> {
        if let Some(waiting) = tx.read::<WaitingRecord>("")? {
            self.waiting = WaitingRecord::clone(&waiting);
        }
        Ok(self)
    }

    /// Puts a pending task in its place.
    pub(super) fn place_pending(&mut self, task: &TaskRecord) {
        let on: BTreeSet<u64> = self.board.open_of(&task.blocked_by).collect();
        let place = match (&task.owner, on.is_empty()) {
            (_, false) => Place::Blocked,
            (Some(owner), true) => Place::Assigned(owner.clone()),
            (None, true) => Place::Ready,
        };
        self.board.place(task.id, place);
        let before = self.waiting.waiting.remove(&task.id);
        self.waiting_has_changed |= before.is_some() || !on.is_empty();
        if !on.is_empty() {
            self.waiting.waiting.insert(task.id, BlockedTask { on, owner: task.owner.clone() });
        }
    }

    /// Closes a task that is completed or deleted. Returns the tasks that no longer wait.
    pub(super) fn close(&mut self, id: u64, place: Place) -> Vec<u64> {
        self.board.place(id, place);
        let before = self.waiting.dependencies();
        let free = self.waiting.finish(id);
        self.waiting_has_changed |= self.waiting.dependencies() != before;
        let mut ids = Vec::with_capacity(free.len());
        for (id, owner) in free {
            self.board.place(id, owner.map_or(Place::Ready, Place::Assigned));
            ids.push(id);
        }
        ids
    }

    /// Writes a task, counts its bytes, and keeps which files it will change. The board has it in its place already.
    pub(super) fn write(&mut self, tx: &mut Tx<'_>, task: &mut TaskRecord) -> Result<(), RuleError> {
        task.version += 1;
        task.updated_ms = tx.ctx.now_ms;
        let id = record_id(task.id);
        let before = tx.stored_bytes::<TaskRecord>(&id);
        tx.put(&id, task);
        self.board.count_bytes(before, tx.stored_bytes::<TaskRecord>(&id));
        paths::keep(tx, &mut self.board, task.id, &task.paths)
    }

    /// Refuses a change that makes the tasks larger than the share of the team's quota that they may use.
    pub(super) fn check_bytes(&self, tx: &Tx<'_>) -> Result<(), RuleError> {
        let max = tx.spender().task_bytes_max(&tx.ctx.limits);
        if self.board.bytes > self.bytes_before && max.is_some_and(|max| self.board.bytes > max) {
            return Err(tasks_full(self.bytes_before, tx.spender(), &tx.ctx.limits).into());
        }
        Ok(())
    }

    /// Writes the board, and wakes the calls that wait for a task.
    pub(super) fn finish(self, tx: &mut Tx<'_>) -> BoardRecord {
        tx.put("", &self.board);
        if self.waiting_has_changed {
            tx.put("", &self.waiting);
        }
        tx.notify(Topic::Tasks);
        self.board
    }
}

/// Returns a task of this team, for changing it.
pub(super) fn find(tx: &mut Tx<'_>, board: &BoardRecord, id: u64) -> Result<TaskRecord, RuleError> {
    if id == 0 || id > board.last_id {
        return Err(not_found(board, id).into());
    }
    let task = tx.read::<TaskRecord>(&record_id(id))?.ok_or_else(|| not_found(board, id))?;
    Ok(TaskRecord::clone(&task))
}

pub(super) fn record(tx: &mut Tx<'_>, kind: TaskEventKind, task: &TaskRecord, actor: &Actor, detail: &str) {
    let event = v1::TaskEvent {
        kind: kind.into(),
        task_id: task.id,
        subject: task.subject.clone(),
        actor: Some(actor.into()),
        owner: task.owner.as_ref().map_or_else(String::new, Name::to_string),
        attempts: task.attempts,
        detail: detail.to_owned(),
    };
    let spender = match kind {
        // Each of these ends what one of the others has begun.
        TaskEventKind::Completed
        | TaskEventKind::Deleted
        | TaskEventKind::Released
        | TaskEventKind::Lapsed
        | TaskEventKind::InReview
        | TaskEventKind::ReviewEnded => Spender::Coordinator,
        _ => tx.spender(),
    };
    history::append_task_change(tx, event, spender);
}

pub(super) fn not_found(board: &BoardRecord, id: u64) -> Refusal {
    let text = match board.last_id {
        0 => format!("There is no task {id}: the board is empty. Create a task with `teamwire task create SUBJECT`."),
        _ => format!("There is no task {id} in your team. See `teamwire task list`."),
    };
    Refusal::new(Reason::TaskNotFound, text).field("task_id")
}
