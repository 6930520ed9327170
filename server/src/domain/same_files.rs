//! Two members that change the same file of the same repository, in two worktrees or on two machines: both learn it, and so does the
//! lead, once an hour for each file.
//!
//! A file is known by its repository and its path in it. What a member has changed counts for half an hour, or until its runner
//! reports that its branch no longer differs there: it is merged, or was taken back.

use std::collections::{BTreeMap, BTreeSet};

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind},
};

use super::{
    actor::Actor,
    notices,
    records::{ChangedFilesRecord, FileChange, OwnChangesRecord, TeamRecord, ToldFilesRecord},
    subscriptions, task, text,
    tx::{RuleError, Tx},
};

/// How long a change counts.
const COUNTS_MS: u64 = 30 * 60 * 1_000;

/// How long two members get no other notice about a file.
const TOLD_MS: u64 = 60 * 60 * 1_000;

/// How many paths of a report count, and how many characters of each.
const PATHS_MAX: usize = 500;
const PATH_CHARS_MAX: usize = 1_000;

/// How many files of a member are remembered: the latest.
const OWN_FILES_MAX: usize = 1_000;

/// How many members are remembered for a file.
const CHANGES_MAX: usize = 16;

/// About how many files two members get notices in that time.
const TOLD_MAX: usize = 500;

/// How many paths a notice names, and how many characters of each. It counts further ones.
const NAMED_MAX: usize = 10;
const NAMED_CHARS_MAX: usize = 200;

/// Takes in what a member has changed. `work`: its work at the end of a turn.
pub fn report(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    name: &Name,
    changed: Option<&v1::ChangedFiles>,
    work: Option<&v1::Work>,
) -> Result<(), RuleError> {
    if changed.is_none() && work.is_none() {
        return Ok(());
    }
    let own = tx.read::<OwnChangesRecord>(name.folded())?.as_deref().cloned().unwrap_or_default();
    let merged = merged(&own, work);
    let mut paths: BTreeMap<String, String> = BTreeMap::new();
    for changed in changed.into_iter().filter(|changed| !changed.repository.is_empty()) {
        for path in changed.paths.iter().take(PATHS_MAX).filter(|path| !path.is_empty()) {
            let path = text::cut(path, PATH_CHARS_MAX);
            paths.insert(key(&changed.repository, &path), path);
        }
    }
    if merged.is_empty() && paths.is_empty() {
        return Ok(());
    }
    let is_left = |file: &&String| !merged.contains(*file) && !paths.contains_key(*file);
    let mut files: Vec<String> = own.files.iter().filter(is_left).cloned().collect();
    files.extend(paths.keys().cloned());
    let oldest: Vec<String> = files.drain(..files.len().saturating_sub(OWN_FILES_MAX)).collect();
    let mut parts = Parts::load(tx, merged.iter().chain(&oldest).chain(paths.keys()))?;
    for file in merged.iter().chain(&oldest) {
        parts.remove(file, name);
    }
    let mut shared: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for (file, path) in &paths {
        for other in parts.add(file, name, tx.ctx.now_ms) {
            shared.entry(other).or_default().push(path.clone());
        }
    }
    parts.save(tx);
    let edited: Vec<&str> = paths.values().map(String::as_str).collect();
    subscriptions::files_edited(tx, team, name, &edited)?;
    if files != own.files {
        tx.put(name.folded(), &OwnChangesRecord { files });
    }
    for (other, paths) in shared {
        tell(tx, team, name, &other, paths)?;
    }
    Ok(())
}

/// Forgets what a member has changed, which is removed, and which notices it shared with others.
pub fn forget(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name) {
    tx.delete::<OwnChangesRecord>(name.folded());
    for other in team.members.iter().filter(|other| other.name != *name) {
        tx.delete::<ToldFilesRecord>(&pair(name, &other.name));
    }
}

/// Returns the id of the notices that two members share.
fn pair(one: &Name, other: &Name) -> String {
    match one.folded() < other.folded() {
        true => format!("{}/{}", one.folded(), other.folded()),
        false => format!("{}/{}", other.folded(), one.folded()),
    }
}

/// Returns the files that a member changed and that its work no longer has.
fn merged(own: &OwnChangesRecord, work: Option<&v1::Work>) -> BTreeSet<String> {
    let is_whole = |work: &&v1::Work| usize::try_from(work.files).is_ok_and(|files| files <= work.paths.len());
    let Some(work) = work.filter(is_whole) else { return BTreeSet::new() };
    let differ: BTreeSet<String> = work.paths.iter().map(|path| key(&work.repository, path)).collect();
    own.files.iter().filter(|file| !differ.contains(*file)).cloned().collect()
}

/// Returns what a file is known by.
fn key(repository: &str, path: &str) -> String {
    let path = text::cut(path, PATH_CHARS_MAX);
    let hash = blake3::hash(format!("{repository}\0{path}").as_bytes());
    hex::encode(&hash.as_bytes()[..16])
}

/// The parts of the record that some files are in.
struct Parts {
    parts: BTreeMap<String, (ChangedFilesRecord, bool)>,
}

impl Parts {
    fn load<'f>(tx: &mut Tx<'_>, files: impl Iterator<Item = &'f String>) -> Result<Self, RuleError> {
        let ids: BTreeSet<String> = files.map(|file| part_of(file)).collect();
        tx.want::<ChangedFilesRecord>(ids.iter().cloned())?;
        let mut parts = BTreeMap::new();
        let since_ms = tx.ctx.now_ms.saturating_sub(COUNTS_MS);
        for id in ids {
            let mut record = tx.read::<ChangedFilesRecord>(&id)?.as_deref().cloned().unwrap_or_default();
            record.files.retain(|_, changes| {
                changes.retain(|change| change.at_ms > since_ms);
                !changes.is_empty()
            });
            parts.insert(id, (record, false));
        }
        Ok(Self { parts })
    }

    fn changes(&mut self, file: &str) -> &mut Vec<FileChange> {
        let (record, is_changed) = self.parts.entry(part_of(file)).or_default();
        *is_changed = true;
        record.files.entry(file.to_owned()).or_default()
    }

    fn remove(&mut self, file: &str, member: &Name) {
        self.changes(file).retain(|change| change.member != *member);
    }

    /// Adds a change. Returns the other members that have changed the file.
    fn add(&mut self, file: &str, member: &Name, at_ms: u64) -> Vec<Name> {
        let changes = self.changes(file);
        changes.retain(|change| change.member != *member);
        let others = changes.iter().map(|change| change.member.clone()).collect();
        changes.push(FileChange { member: member.clone(), at_ms });
        changes.drain(..changes.len().saturating_sub(CHANGES_MAX));
        others
    }

    fn save(self, tx: &mut Tx<'_>) {
        for (id, (mut record, is_changed)) in self.parts {
            record.files.retain(|_, changes| !changes.is_empty());
            match record.files.is_empty() {
                _ if !is_changed => {}
                true => tx.delete::<ChangedFilesRecord>(&id),
                false => tx.put(&id, &record),
            }
        }
    }
}

/// Returns the part that a file is in.
fn part_of(file: &str) -> String {
    let byte = u8::from_str_radix(file.get(..2).unwrap_or_default(), 16).unwrap_or_default();
    format!("{:02x}", byte & 0x3f)
}

/// Tells two members, and the lead, that both have changed these files, unless they got notices about all of them in the last hour.
fn tell(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name, other: &Name, paths: Vec<String>) -> Result<(), RuleError> {
    let (Some(mine), Some(theirs)) = (team.member(name), team.member(other)) else { return Ok(()) };
    let pair = pair(name, other);
    let now_ms = tx.ctx.now_ms;
    let mut told = tx.read::<ToldFilesRecord>(&pair)?.as_deref().cloned().unwrap_or_default();
    told.told_ms.retain(|_, at_ms| *at_ms + TOLD_MS > now_ms);
    if told.told_ms.len() >= TOLD_MAX || paths.iter().all(|path| told.told_ms.contains_key(path)) {
        return Ok(());
    }
    for path in paths {
        if told.told_ms.len() < TOLD_MAX {
            told.told_ms.entry(path).or_insert(now_ms);
        }
    }
    tx.put(&pair, &told);
    let paths: Vec<&str> = told.told_ms.keys().map(String::as_str).collect();
    let files = enumerate(&paths);
    let (their_task, my_task) = (task_of(tx, other)?, task_of(tx, name)?);
    let (mine, theirs) = (mine.name.clone(), theirs.name.clone());
    let lead = &team.lead;
    for (to, about, their_task) in [(&mine, &theirs, &their_task), (&theirs, &mine, &my_task)] {
        if to == lead {
            continue;
        }
        let text = format!(
            "You and {about}{their_task} have both changed {files}, and neither's changes are merged. Agree with {about} who \
             goes first, by a message. A merge made early has fewer conflicts than one made late."
        );
        notify(tx, team, to, about.as_str(), text)?;
    }
    let text = format!(
        "{mine}{my_task} and {theirs}{their_task} have both changed {files}, and neither's changes are merged. `teamwire work \
         {mine} --against {theirs}` says whether they conflict."
    );
    // The same order each time: a notice replaces one about the same pair that the lead has not read.
    let about = match mine.folded() < theirs.folded() {
        true => format!("{mine}, {theirs}"),
        false => format!("{theirs}, {mine}"),
    };
    notify(tx, team, lead, &about, text)
}

fn notify(tx: &mut Tx<'_>, team: &TeamRecord, to: &Name, about: &str, text: String) -> Result<(), RuleError> {
    let kind = NoticeKind::SameFiles.into();
    let notice = v1::Notice { kind, member: about.to_owned(), text, ..v1::Notice::default() };
    notices::notify(tx, team, &[&Actor::Member(to.clone())], notice)
}

/// Returns what a member works on, in brackets. Empty if it has claimed no task.
fn task_of(tx: &mut Tx<'_>, name: &Name) -> Result<String, RuleError> {
    let claimed = task::claimed_by(tx, name)?;
    Ok(match claimed.first() {
        Some((id, subject)) => format!(" (task {id}: {subject})"),
        None => String::new(),
    })
}

/// Lists paths, each on one line.
fn enumerate(paths: &[&str]) -> String {
    // In quotes, because a member chooses them.
    let quoted = |path: &&str| format!("{:?}", text::cut(path, NAMED_CHARS_MAX));
    let listed = text::enumerate(&paths.iter().map(quoted).collect::<Vec<_>>(), NAMED_MAX);
    if paths.len() > NAMED_MAX { listed + " files" } else { listed }
}
