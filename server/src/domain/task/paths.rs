//! Which files tasks will change: patterns of paths, and whether two of them can mean the same file.

use teamwire_proto::{Reason, Refusal, name::Name};

use super::{
    board::{BoardRecord, each},
    terms::{PathsRecord, TaskPaths},
};
use crate::domain::tx::{RuleError, Tx};

/// How many patterns a task has, and how many characters one has.
const PATTERNS_MAX: usize = 32;
const PATTERN_CHARS_MAX: usize = 200;

/// How many segments a pattern has.
const SEGMENTS_MAX: usize = 32;

/// How many pairs of patterns a call compares.
const COMPARISONS_MAX: usize = 20_000;

/// How many tasks a claim of the next one looks at.
const CANDIDATES_MAX: usize = 256;

impl TaskPaths {
    /// Adds patterns, checked.
    pub(super) fn add(&mut self, patterns: &[String], field: &str) -> Result<(), Refusal> {
        for pattern in patterns {
            let pattern = checked(pattern).ok_or_else(|| {
                Refusal::new(
                    Reason::InvalidField,
                    format!(
                        "{pattern:?} is no pattern of paths: write it relative to the root of the repository, such as src/*.rs, \
                         without . and .., in up to {PATTERN_CHARS_MAX} characters."
                    ),
                )
                .field(field)
            })?;
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

/// Returns a pattern as it is stored. `None` if it is none.
fn checked(pattern: &str) -> Option<String> {
    let pattern = pattern.trim_end_matches('/');
    let is_sound = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
    let sound = pattern.chars().count() <= PATTERN_CHARS_MAX
        && !pattern.chars().any(char::is_control)
        && pattern.split('/').count() <= SEGMENTS_MAX
        && pattern.split('/').all(is_sound);
    sound.then(|| pattern.to_owned())
}

/// Returns whether two patterns can mean the same file. A pattern also stands for everything below what it means. May say yes
/// where two segments with wildcards have no text in common.
fn overlaps(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split('/').collect(), other.split('/').collect());
    // Whether the rests of both from these segments on can meet, filled from the end. Beyond its end, a pattern goes on with anything.
    let mut meets = vec![vec![true; other.len() + 1]; one.len() + 1];
    for i in (0..one.len()).rev() {
        for j in (0..other.len()).rev() {
            meets[i][j] = match (one[i] == "**", other[j] == "**") {
                (true, _) | (_, true) => meets[i + 1][j] || meets[i][j + 1] || meets[i + 1][j + 1],
                _ => segments_meet(one[i], other[j]) && meets[i + 1][j + 1],
            };
        }
    }
    meets[0][0]
}

fn segments_meet(one: &str, other: &str) -> bool {
    let has_wildcard = |segment: &str| segment.contains(['*', '?']);
    match (has_wildcard(one), has_wildcard(other)) {
        (false, false) => one == other,
        (true, false) => matches(one, other),
        (false, true) => matches(other, one),
        (true, true) => {
            let before = |segment: &str| segment.find(['*', '?']).unwrap_or(segment.len());
            let after = |segment: &str| segment.rfind(['*', '?']).map_or(0, |at| at + 1);
            let (a, b) = (&one[..before(one)], &other[..before(other)]);
            let (c, d) = (&one[after(one)..], &other[after(other)..]);
            (a.starts_with(b) || b.starts_with(a)) && (c.ends_with(d) || d.ends_with(c))
        }
    }
}

/// Returns whether a segment with wildcards matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where the last `*` was, and how much of the name it stands for so far.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_overlap_if_a_file_can_match_both() {
        for (one, other, is_expected) in [
            ("src/a.rs", "src/a.rs", true),
            ("src/a.rs", "src/b.rs", false),
            ("src", "src/a/b.rs", true),
            ("src/", "srv/a.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a.ts", false),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**/*.rs", "src/a/b/c.rs", true),
            ("src/**/*.rs", "src/c.rs", true),
            ("**/test_*.py", "a/b/test_c.py", true),
            ("**/x", "a/y", true), // as a/y/x
            ("b/**/x", "a/y", false),
            ("**", "anything/at/all", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*c", "*bc", true),
            ("a*", "b*", false),
            ("*.rs", "*.ts", false),
            ("docs/**", "src/**", false),
        ] {
            let (a, b) = (checked(one).unwrap(), checked(other).unwrap());
            assert_eq!(overlaps(&a, &b), is_expected, "{one} and {other}");
            assert_eq!(overlaps(&b, &a), is_expected, "{other} and {one}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "x".repeat(PATTERN_CHARS_MAX + 1);
        for pattern in ["", "/", "/etc", "a//b", "./a", "a/../b", "a\nb", &long] {
            assert_eq!(checked(pattern), None, "{pattern}");
        }
    }

    proptest! {
        /// A path overlaps with a pattern that is made from it by replacing parts with wildcards.
        #[test]
        fn a_path_overlaps_with_its_generalizations(
            segments in prop::collection::vec("[a-c]{1,4}", 1..5),
            how in prop::collection::vec(0..5_u8, 5),
        ) {
            let path = segments.join("/");
            let general: Vec<String> = segments
                .iter()
                .zip(how)
                .map(|(segment, how)| match how {
                    0 => "*".to_owned(),
                    1 => format!("{}*", &segment[..1]),
                    2 => "?".repeat(segment.len()),
                    3 => "**".to_owned(),
                    _ => segment.clone(),
                })
                .collect();
            prop_assert!(overlaps(&path, &general.join("/")));
        }
    }
}
