//! Tasks in remembered replies. Long fields are left out, because the store keeps a reply for at least a day. When a
//! call is repeated, its reply is filled in with the task's current description and metadata.

use std::collections::HashMap;

use teamwire_proto::v1;

use super::{
    board::{TaskRecord, record_id, show},
    change::read_board,
};
use crate::domain::tx::{RuleError, Tx};

/// How many of the tasks that a task blocks are remembered. If there are more, a repeated call gets those that it
/// blocks then.
const BLOCKS_MAX: usize = 64;

/// Returns a task as it is remembered.
pub(super) fn shortened(task: &v1::Task) -> v1::Task {
    let blocks = task.blocks.iter().copied().take(BLOCKS_MAX).collect();
    v1::Task { description: String::new(), metadata: HashMap::new(), blocks, ..task.clone() }
}

/// Fills in what [`shortened`] has left out, unless the task is gone.
pub(super) fn fill_in(tx: &mut Tx<'_>, task: &mut v1::Task) -> Result<(), RuleError> {
    let board = read_board(tx)?;
    let Some(record) = tx.read::<TaskRecord>(&record_id(task.id))? else { return Ok(()) };
    let now = show(&record, &board);
    (task.description, task.metadata) = (now.description, now.metadata);
    if task.blocks.len() == BLOCKS_MAX {
        task.blocks = now.blocks;
    }
    Ok(())
}
