//! Keeps working states, so that no work is lost: each is a commit under `refs/teamwire/salvage/MEMBER/TIME`.
//!
//! The commit's tree is the working state, untracked files included. Its parents are HEAD, then a commit of what was
//! staged if that is nowhere else, then the commits that only logs held. Its message says what else there is to know;
//! [`list`] reads it. It may hold secrets that were in files; never push it.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::Path,
    time::{Duration, SystemTime},
};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::{
    commits::{Identity, commit_tree, update_refs},
    exact::{self, Exact},
    lost::lost_commits,
    names::{as_branch, is_id},
    place::Place,
    state::Picture,
    trees::{changes, empty_tree},
};

/// How large a file may be that HEAD does not have. Larger ones are left out and named.
pub const FILE_BYTES_MAX: u64 = 50 * 1024 * 1024;

/// How many things that were left out are named.
pub const LEFT_OUT_MAX: usize = 20;

/// How many of a member's salvages [`prune`] keeps, whatever their age.
pub const KEPT_MIN: usize = 50;

/// How many of a member's salvages [`prune`] keeps if they are younger than [`KEPT_FOR`].
pub const KEPT_MAX: usize = 500;

/// How long [`prune`] keeps a salvage at least, unless there are more than [`KEPT_MAX`].
pub const KEPT_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Where salvages are.
pub const SALVAGE_REFS: &str = "refs/teamwire/salvage";

/// Returns the name of a salvage: its ref without the beginning that all of them have. `None` if it is no ref of one.
pub fn name_of(reference: &str) -> Option<&str> {
    reference.strip_prefix(SALVAGE_REFS)?.strip_prefix('/')
}

/// The form of a time in a ref. It sorts as the times do.
const TIME: &str = "%Y%m%dT%H%M%S%.3fZ";

/// How often to look for a time that no other salvage has.
const TRIES: usize = 20;

/// A working state that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvage {
    /// The ref that holds it.
    pub reference: String,
    /// Its commit.
    pub commit: String,
    /// The files.
    pub tree: String,
    /// The commit that was checked out. `None` if there was none yet.
    pub parent: Option<String>,
    /// When it was kept.
    pub time: Timestamp,
    /// On which occasion, for people.
    pub note: String,
    /// What is not in it, in words. After [`LEFT_OUT_MAX`], the last entry says how many more there are.
    pub left_out: Vec<String>,
}

/// What the message of a salvage says.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) salvage: Option<Salvage>,
    /// The tree before the exact bytes of converted files were put into it.
    taken: String,
    /// The tree of what was staged, if that is nowhere else.
    pub(super) staged: Option<String>,
    /// The files whose exact bytes are in the tree, although git converts such files.
    pub(super) exact: Vec<OsString>,
}

/// Keeps the working state of a member. `note`: a line for people about the occasion. `index`: a private index file,
/// which saves work if it is the same every time.
///
/// Returns `None`, and keeps nothing, if the member's newest salvage is the same, or if there is nothing but commits of
/// the base branch. Changes neither the index, HEAD, branches, the stash nor the configuration.
pub async fn salvage(place: &Place, member: &str, note: &str, index: &Path) -> Result<Option<Salvage>, String> {
    salvage_up_to(place, member, note, index, FILE_BYTES_MAX).await
}

/// Keeps the working state as [`salvage`] does. `large`: how many bytes a file that HEAD does not have may have.
pub(super) async fn salvage_up_to(
    place: &Place,
    member: &str,
    note: &str,
    index: &Path,
    large: u64,
) -> Result<Option<Salvage>, String> {
    keep(&Picture::take(place, index, large).await?, member, note).await
}

/// Keeps the working state of a picture, as [`salvage`] does.
pub(crate) async fn keep(picture: &Picture<'_>, member: &str, note: &str) -> Result<Option<Salvage>, String> {
    let Picture { place, camera, head, state } = picture;
    let head_tree = match head {
        Some(head) => place.tree(head).await?,
        None => empty_tree(place).await?,
    };
    let staged = staged(place, &head_tree, &state.tree).await?;
    let lost = lost_commits(place, head.as_deref()).await?;
    let is_lost = !lost.commits.is_empty();
    let newest = records(place, Some(member), Some(1)).await?.pop();
    let is_kept = newest.is_some_and(|newest| {
        let parent = newest.salvage.and_then(|salvage| salvage.parent);
        newest.taken == state.tree && newest.staged == staged && parent == *head
    });
    let is_nothing = state.tree == head_tree && staged.is_none() && is_on_base(place, head.as_deref()).await?;
    if !is_lost && (is_kept || is_nothing) {
        return Ok(None);
    }
    let Exact { tree, files: exact } = exact::keep(place, camera, &head_tree, &state.tree).await?;
    let left_out = bounded(state.left_out.iter().cloned().chain(lost.more).collect());
    let mut parents: Vec<String> = head.iter().cloned().collect();
    if let Some(staged) = &staged {
        parents.push(commit_tree(place, staged, &parents, &format!("Staged by {member}\n"), &Identity::own()).await?);
    }
    parents.extend(lost.commits);
    let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut message = format!("Working state of {member}\n\n");
    if !note.is_empty() {
        message += &format!("{note}\n\n");
    }
    message += &format!("Head: {}\nTaken: {}\n", head.as_deref().unwrap_or("none"), state.tree);
    staged.iter().for_each(|staged| message += &format!("Staged: {staged}\n"));
    left_out.iter().for_each(|words| message += &format!("Left out: {}\n", words.replace('\n', " ")));
    exact.iter().for_each(|path| message += &format!("Exact: {}\n", hex::encode(path.as_bytes())));
    let id = commit_tree(place, &tree, &parents, &message, &Identity::own()).await?;
    let (reference, time) = create(place, member, &id).await?;
    Ok(Some(Salvage { reference, commit: id, tree, parent: head.clone(), time, note, left_out }))
}

/// Returns what a salvage of the working state does not hold, in words.
pub async fn left_out(place: &Place, index: &Path) -> Result<Vec<String>, String> {
    Ok(bounded(Picture::take(place, index, FILE_BYTES_MAX).await?.state.left_out))
}

/// Keeps a branch, whose working tree is gone, as a working state without changes. Returns the ref.
pub async fn keep_branch(place: &Place, member: &str, branch: &str, note: &str) -> Result<String, String> {
    let head =
        place.commit(&format!("refs/heads/{branch}")).await?.ok_or_else(|| format!("there is no branch {branch}"))?;
    let tree = place.tree(&head).await?;
    let message = format!("Working state of {member}\n\n{note}\n\nHead: {head}\nTaken: {tree}\n");
    let id = commit_tree(place, &tree, &[head], &message, &Identity::own()).await?;
    Ok(create(place, member, &id).await?.0)
}

/// Returns the tree of the index if it has content that is in neither HEAD nor the working state. `None` also if it has
/// conflicts, so that it has no tree.
async fn staged(place: &Place, head_tree: &str, tree: &str) -> Result<Option<String>, String> {
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    // Git would write the tree's id into the index.
    let copy = directory.path().join("index");
    if fs::copy(place.git_directory.join("index"), &copy).is_err() {
        return Ok(None);
    }
    let Ok(staged) = place.git().with_index(&copy).run(&["write-tree"]).await else { return Ok(None) };
    let staged = staged.trim().to_owned();
    if staged == head_tree || staged == tree {
        return Ok(None);
    }
    let here: BTreeSet<OsString> = changes(place, tree, &staged).await?.into_iter().map(|change| change.path).collect();
    let since = changes(place, head_tree, &staged).await?;
    let is_only_here = since.iter().any(|change| change.new_mode != "000000" && here.contains(&change.path));
    Ok(is_only_here.then_some(staged))
}

/// Returns whether the base branch holds the commit that is checked out.
async fn is_on_base(place: &Place, head: Option<&str>) -> Result<bool, String> {
    let (Some(head), Some(base)) = (head, place.base_branch().await?) else { return Ok(head.is_none()) };
    let Some(base) = place.commit(&base).await? else { return Ok(false) };
    place.is_ancestor(head, &base).await
}

fn bounded(mut words: Vec<String>) -> Vec<String> {
    if words.len() > LEFT_OUT_MAX {
        let more = words.len() - LEFT_OUT_MAX;
        words.truncate(LEFT_OUT_MAX);
        words.push(format!("{more} more"));
    }
    words
}

/// Creates the ref of a salvage. Returns its name and time.
async fn create(place: &Place, member: &str, commit: &str) -> Result<(String, Timestamp), String> {
    let mut time = now();
    let mut failed = String::new();
    for _ in 0..TRIES {
        let reference = format!("{SALVAGE_REFS}/{}/{}", as_branch(member), time.strftime(TIME));
        match update_refs(place, &format!("create {reference} {commit}\n")).await {
            Ok(()) => return Ok((reference, time)),
            Err(why) if !why.contains("already exists") && !why.contains(".lock") => return Err(why),
            Err(why) => failed = why,
        }
        // Another process keeps a state at the same time.
        time += Duration::from_millis(1);
    }
    Err(failed)
}

/// Returns the salvages of a member, or of all, newest first.
pub async fn list(place: &Place, member: Option<&str>) -> Result<Vec<Salvage>, String> {
    let records = records(place, member, None).await?;
    Ok(records.into_iter().filter_map(|record| record.salvage).collect())
}

/// Returns what is known about the salvages of a member, or of all, newest first.
pub(super) async fn records(place: &Place, member: Option<&str>, max: Option<usize>) -> Result<Vec<Record>, String> {
    let within =
        member.map_or_else(|| SALVAGE_REFS.to_owned(), |member| format!("{SALVAGE_REFS}/{}", as_branch(member)));
    records_at(place, &within, max).await
}

/// Returns what is known about the salvages at or below a ref, newest first.
pub(super) async fn records_at(place: &Place, within: &str, max: Option<usize>) -> Result<Vec<Record>, String> {
    let format = "--format=%(refname)%00%(objectname)%00%(tree)%00%(contents)%00";
    let count = format!("--count={}", max.unwrap_or_default());
    let mut list = vec!["for-each-ref", "--sort=-refname", format];
    list.extend(max.is_some().then_some(count.as_str()));
    list.push(within);
    let listed = place.run(&list).await?;
    let fields: Vec<&str> = listed.split('\0').collect();
    let parse = |fields: &[&str]| {
        let [reference, commit, tree, message] = fields else { return None };
        Record::parse(reference.trim_start_matches('\n'), commit, tree, message)
    };
    let mut records: Vec<Record> = fields.chunks(4).filter_map(parse).collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.salvage.as_ref().map(|salvage| salvage.time)));
    Ok(records)
}

impl Record {
    fn parse(reference: &str, commit: &str, tree: &str, message: &str) -> Option<Self> {
        let time = reference.rsplit('/').next()?;
        let time = DateTime::strptime("%Y%m%dT%H%M%S%.fZ", time).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
        if tree.is_empty() {
            return None;
        }
        let mut record = Self::default();
        let (mut parent, mut left_out) = (None, Vec::new());
        let lines = message.trim_end().rsplit("\n\n").next()?.lines();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            match name {
                // It may come from another machine, and git takes what it says for more than an id.
                "Head" if is_id(value) => parent = Some(value.to_owned()),
                "Taken" if is_id(value) => value.clone_into(&mut record.taken),
                "Staged" if is_id(value) => record.staged = Some(value.to_owned()),
                "Left out" => left_out.push(value.to_owned()),
                "Exact" => record.exact.extend(hex::decode(value).map(OsString::from_vec)),
                _ => {}
            }
        }
        let (reference, commit, tree) = (reference.to_owned(), commit.to_owned(), tree.to_owned());
        // Between the first line and the facts, if anything is.
        let note = message.trim_end().split("\n\n").collect::<Vec<_>>();
        let note = if note.len() > 2 { note[1].to_owned() } else { String::new() };
        record.salvage = Some(Salvage { reference, commit, tree, parent, time, note, left_out });
        Some(record)
    }
}

/// Deletes a member's old salvages: all but the newest [`KEPT_MIN`], and those younger than [`KEPT_FOR`] up to
/// [`KEPT_MAX`]. Returns how many.
pub async fn prune(place: &Place, member: &str) -> Result<usize, String> {
    prune_at(place, member, now()).await
}

pub(super) async fn prune_at(place: &Place, member: &str, now: Timestamp) -> Result<usize, String> {
    let is_old = |salvage: &Salvage| now.duration_since(salvage.time).unsigned_abs() > KEPT_FOR;
    let old = list(place, Some(member)).await?.into_iter().enumerate();
    let old = old.filter(|(position, salvage)| *position >= KEPT_MAX || (*position >= KEPT_MIN && is_old(salvage)));
    delete(place, old.map(|(_, salvage)| salvage).collect()).await
}

/// Deletes the salvages of a member, or of all. Returns how many. Git removes their files when it next collects
/// garbage, after two weeks by default.
pub async fn purge(place: &Place, member: Option<&str>) -> Result<usize, String> {
    delete(place, list(place, member).await?).await
}

async fn delete(place: &Place, salvages: Vec<Salvage>) -> Result<usize, String> {
    let commands: String =
        salvages.iter().map(|salvage| format!("delete {} {}\n", salvage.reference, salvage.commit)).collect();
    if !commands.is_empty() {
        update_refs(place, &commands).await?;
    }
    Ok(salvages.len())
}

fn now() -> Timestamp {
    // As exact as the name of a ref.
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
