//! Which files tasks will change.

use teamwire_proto::{Reason, Refusal, name::Name};

use super::{
    board::{BoardRecord, each},
    terms::{PathsRecord, TaskPaths},
};
use crate::domain::{
    path_pattern::{self, overlaps},
    tx::{RuleError, Tx},
};

/// How many patterns a task has.
const PATTERNS_MAX: usize = 32;

/// How many pairs of patterns a call compares.
const COMPARISONS_MAX: usize = 20_000;

/// How many tasks a claim of the next one looks at.
const CANDIDATES_MAX: usize = 256;

impl TaskPaths {
    /// Adds patterns, checked.
    pub(super) fn add(&mut self, patterns: &[String], field: &str) -> Result<(), Refusal> {
        for pattern in patterns {
            let pattern = path_pattern::check(pattern, field)?;
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
        }
        if self.patterns.len() > PATTERNS_MAX {
            let text = format!("A task takes up to {PATTERNS_MAX} patterns of paths.");
            return Err(Refusal::new(Reason::InvalidField, text).field(field));
        }
        Ok(())
    }

    /// Returns two patterns that can mean the same file.
    fn overlap<'p>(&'p self, other: &'p Self) -> Option<(&'p str, &'p str)> {
        let pairs = self.patterns.iter().flat_map(|one| other.patterns.iter().map(move |other| (one, other)));
        pairs.map(|(one, other)| (one.as_str(), other.as_str())).find(|(one, other)| overlaps(one, other))
    }
}

/// Reads the paths of open tasks. Empty if no open task has any.
pub(super) fn read(tx: &mut Tx<'_>, board: &BoardRecord) -> Result<PathsRecord, RuleError> {
    if !board.has_paths {
        return Ok(PathsRecord::default());
    }
    Ok(tx.read::<PathsRecord>("")?.as_deref().cloned().unwrap_or_default())
}

/// Keeps the paths of a task that is open, and forgets those of one that is not.
pub(super) fn keep(tx: &mut Tx<'_>, board: &mut BoardRecord, id: u64, paths: &TaskPaths) -> Result<(), RuleError> {
    let before = read(tx, board)?;
    let mut record = before.clone();
    match board.is_open(id) && !paths.patterns.is_empty() {
        true => record.tasks.insert(id, paths.clone()),
        false => record.tasks.remove(&id),
    };
    if record != before {
        board.has_paths = !record.tasks.is_empty();
        tx.put("", &record);
    }
    Ok(())
}

/// A task in progress whose paths overlap with those of a task to claim.
pub(super) struct Overlap {
    pub(super) task: u64,
    pub(super) owner: Name,
    /// The two patterns that overlap: of the task to claim, and of the one in progress.
    pub(super) patterns: (String, String),
}

/// Returns how many patterns a call compares at most. What is left then counts as no overlap.
pub(super) fn patience() -> usize {
    COMPARISONS_MAX
}

/// Finds the tasks in progress whose paths overlap with those of a task. `patience`: how many patterns to compare.
pub(super) fn overlaps_of<'r>(
    record: &'r PathsRecord,
    board: &'r BoardRecord,
    id: u64,
    patience: &'r mut usize,
) -> impl Iterator<Item = Overlap> + 'r {
    let mine = record.tasks.get(&id);
    let claimed = board.claimed.iter().flat_map(|(owner, ids)| each(ids).into_iter().map(move |id| (owner, id)));
    claimed.filter_map(move |(owner, task)| {
        let (mine, theirs) = (mine?, record.tasks.get(&task).filter(|_| task != id)?);
        *patience = patience.checked_sub(mine.patterns.len() * theirs.patterns.len())?;
        let (one, other) = mine.overlap(theirs)?;
        Some(Overlap { task, owner: owner.clone(), patterns: (one.to_owned(), other.to_owned()) })
    })
}

/// Returns a claim of another member that excludes a task, if there is one.
pub(super) fn excluded_by(
    record: &PathsRecord,
    board: &BoardRecord,
    id: u64,
    name: &Name,
    patience: &mut usize,
) -> Option<Overlap> {
    let is_exclusive = |id: &u64| record.tasks.get(id).is_some_and(|paths| paths.exclusive);
    let mine = is_exclusive(&id);
    overlaps_of(record, board, id, patience)
        .find(|overlap| overlap.owner != *name && (mine || is_exclusive(&overlap.task)))
}

/// Returns the next task for a member that no claim of another member excludes.
pub(super) fn next_for(record: &PathsRecord, board: &BoardRecord, name: &Name) -> Option<u64> {
    let mut candidates = board.candidates_for(name);
    if !record.tasks.values().any(|paths| paths.exclusive) {
        return candidates.next();
    }
    let mut patience = patience();
    candidates.take(CANDIDATES_MAX).find(|id| excluded_by(record, board, *id, name, &mut patience).is_none())
}
