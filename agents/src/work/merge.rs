//! Merges a member's work into a branch: without a working tree, or with the one that has the branch checked out.
//!
//! Nothing is deleted, and no hook of the user runs. If this process dies while a checkout is brought along, the branch
//! is as before and the merge's changes are staged in the checkout; `git reset --merge` takes them back.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use teamwire_proto::word;
use tokio::time::timeout;

use super::{
    check::{CheckError, check},
    commits::{Identity, commit_tree},
    lock::lock,
    place::Place,
    survey::{MergedTree, merge_trees},
    trees::{Change, changes, entries},
};

/// The file in a repository that is locked during a merge.
const LOCK: &str = "teamwire-merge.lock";

/// How long to wait for other merges of this repository, besides one check.
const LOCK_PATIENCE: Duration = Duration::from_secs(300);

/// How often to begin again if someone commits to the branch meanwhile.
const TRIES: usize = 3;

/// How long a check may take if no one says otherwise.
pub(crate) const CHECK_DEADLINE: Duration = Duration::from_secs(30 * 60);

/// What to merge, and how.
#[derive(Clone, Debug)]
pub struct Order {
    /// The commit.
    pub commit: String,
    /// The branch to merge it into.
    pub into: String,
    /// The message of the new commit. Should name the member's branch.
    pub message: String,
    /// Whether the new commit has one parent, the branch, and not the merged commit as well.
    pub squash: bool,
    /// A command of the shell that must succeed on the merged files first.
    pub check: Option<String>,
    /// How long that command may take.
    pub check_timeout: Duration,
    /// The author, as `Name <address>`, if not the user who is configured.
    pub author: Option<String>,
}

/// A merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The commit that the branch is at.
    pub commit: String,
    pub branch: String,
    /// Whether there was nothing to do.
    pub was_merged_already: bool,
    /// Whether the branch is checked out, and the files there are the merged ones now.
    pub updated_checkout: bool,
}

/// Why there was no merge. The branch and every working tree are as before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmerged {
    /// The paths with conflicts.
    Conflicts(Vec<String>),
    /// The check did not succeed.
    CheckFailed { output_tail: String, how: String },
    /// Every time, someone has committed to the branch meanwhile.
    Moved,
    /// The branch is checked out where it cannot be brought along. `why` says what to do.
    Checkout { directory: PathBuf, why: String },
    /// Something else.
    Failed(String),
}

impl fmt::Display for Unmerged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(paths) => write!(f, "There are conflicts in {}.", word::paths(paths)),
            Self::CheckFailed { output_tail, how } => {
                write!(f, "The check of the merged files failed: {how}.")?;
                match output_tail.trim() {
                    "" => Ok(()),
                    tail => write!(f, " It printed:\n{tail}"),
                }
            }
            Self::Moved => f.write_str("Others keep committing to the branch. Try again."),
            Self::Checkout { directory, why } => {
                write!(f, "The branch is checked out in {}: {}.", directory.display(), why.trim_end_matches('.'))
            }
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<String> for Unmerged {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Merges a commit into a branch. Always makes a commit, so that the history says what was merged. Merges of the same
/// repository wait for each other.
pub async fn merge(place: &Place, order: Order) -> Result<Merged, Unmerged> {
    merge_telling(place, order, &|_| ()).await
}

/// Merges as [`merge`] does. `checking`: called with the command before it runs.
pub(super) async fn merge_telling(
    place: &Place,
    order: Order,
    checking: &(dyn Fn(&str) + Sync),
) -> Result<Merged, Unmerged> {
    place.require_merge_tree("a merge").await?;
    let patience = LOCK_PATIENCE + order.check.as_ref().map_or(Duration::ZERO, |_| order.check_timeout);
    let locked = timeout(patience, lock(&place.common_directory, LOCK, patience)).await;
    let busy = |_| format!("{}: other merges have taken {} s", place.common_directory.display(), patience.as_secs());
    let _lock = locked.map_err(busy)??;
    let reference = format!("refs/heads/{}", order.into);
    let missing = |what: &str| format!("{} has no {what}", place.root.display());
    if place.run(&["symbolic-ref", "--quiet", &reference]).await.is_ok() {
        return Err(format!("The branch {} is another name of a branch. Name that one.", order.into).into());
    }
    let theirs = place.commit(&order.commit).await?.ok_or_else(|| missing(&format!("commit {}", order.commit)))?;
    for _ in 0..TRIES {
        let old = place.commit(&reference).await?.ok_or_else(|| missing(&format!("branch {}", order.into)))?;
        if let Some(merged) = try_merge(place, &order, checking, (&reference, &old), &theirs).await? {
            return Ok(merged);
        }
    }
    Err(Unmerged::Moved)
}

/// Tries to merge once. Returns `None` if the branch has moved.
async fn try_merge(
    place: &Place,
    order: &Order,
    checking: &(dyn Fn(&str) + Sync),
    (reference, old): (&str, &str),
    theirs: &str,
) -> Result<Option<Merged>, Unmerged> {
    let merged = |commit: &str, was_merged_already, updated_checkout| Merged {
        commit: commit.to_owned(),
        branch: order.into.clone(),
        was_merged_already,
        updated_checkout,
    };
    if place.is_ancestor(theirs, old).await? {
        return Ok(Some(merged(old, true, false)));
    }
    let tree = match merge_trees(place, place.git(), old, theirs).await? {
        MergedTree::Clean(tree) => tree,
        MergedTree::Conflicts(paths) => return Err(Unmerged::Conflicts(paths)),
    };
    let old_tree = place.tree(old).await?;
    if order.squash && tree == old_tree {
        return Ok(Some(merged(old, true, false)));
    }
    let checkout = checkout_of(place, reference).await?;
    if let Some(directory) = &checkout {
        let changed = changes(place, &old_tree, &tree).await?;
        require_clean(place, directory, &changed).await?;
    }
    let parents = if order.squash { vec![old] } else { vec![old, theirs] };
    let who = Identity::users(place).await?.by(order.author.as_deref());
    let message = match order.message.trim() {
        "" => format!("Merge {theirs} into {}\n", order.into),
        message => format!("{message}\n"),
    };
    let new = commit_tree(place, &tree, &parents, &message, &who).await?;
    if let Some(command) = &order.check {
        checking(command);
        check(place, &new, command, order.check_timeout).await.map_err(|error| match error {
            CheckError::Failed { output_tail, how } => Unmerged::CheckFailed { output_tail, how },
            CheckError::NotRun(why) => Unmerged::Failed(why),
        })?;
    }
    let Some(directory) = checkout else {
        return Ok(update(place, &place.root, reference, old, &new).await?.then(|| merged(&new, false, false)));
    };
    // Much may have changed while the check ran.
    require_clean(place, &directory, &changes(place, &old_tree, &tree).await?).await?;
    if place.commit(reference).await?.as_deref() != Some(old) {
        return Ok(None);
    }
    let done = merged(&new, false, true);
    let (place, reference, old) = (place.clone(), reference.to_owned(), old.to_owned());
    // Whatever happens to the caller, the files and the branch change together.
    let bringing = tokio::spawn(async move { bring_along(&place, &directory, &reference, &old, &new).await });
    let brought = bringing.await.map_err(|error| error.to_string())??;
    Ok(brought.then_some(done))
}

/// Changes the files of a checkout and its branch. Returns `false`, with the files as before, if the branch has moved.
async fn bring_along(place: &Place, directory: &Path, reference: &str, old: &str, new: &str) -> Result<bool, Unmerged> {
    move_files(place, directory, old, new)
        .await
        .map_err(|why| Unmerged::Checkout { directory: directory.to_owned(), why })?;
    match update(place, directory, reference, old, new).await {
        Ok(true) => Ok(true),
        lost => {
            move_files(place, directory, new, old).await?;
            lost?;
            Ok(false)
        }
    }
}

/// Lets the branch name the new commit. Returns `false` if it has moved. Git logs it as a change of HEAD, too, if
/// `directory` has the branch checked out.
async fn update(place: &Place, directory: &Path, reference: &str, old: &str, new: &str) -> Result<bool, String> {
    let update = ["update-ref", "--no-deref", "-m", "teamwire: merge", reference, new, old];
    match place.named(&update, place.git_in(directory).run(&update).await) {
        Ok(_) => Ok(true),
        Err(why) if place.commit(reference).await?.as_deref() == Some(old) => Err(why),
        Err(_) => Ok(false),
    }
}

/// Changes the files of a checkout, and its index, from one commit to another. Git changes nothing if a file is in the
/// way or has been edited.
async fn move_files(place: &Place, directory: &Path, from: &str, to: &str) -> Result<(), String> {
    let read = ["read-tree", "-m", "-u", from, to];
    let said = place.git_in(directory).run(&read).await;
    said.map(drop).map_err(|why| format!("{why}\nCommit or move away what is there, and merge again."))
}

/// Returns the working tree that has a branch checked out.
async fn checkout_of(place: &Place, reference: &str) -> Result<Option<PathBuf>, Unmerged> {
    let listed = place.feed(&["worktree", "list", "--porcelain", "-z"], b"").await?;
    let (mut found, mut directory) = (Vec::new(), PathBuf::new());
    for line in entries(&listed) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            directory = PathBuf::from(OsStr::from_bytes(path));
        } else if line.strip_prefix(b"branch ") == Some(reference.as_bytes()) && directory.exists() {
            found.push(directory.clone());
        }
    }
    // A rebase detaches HEAD, and moves the branch when it is done.
    let own = fs::read_dir(place.common_directory.join("worktrees")).into_iter().flatten().flatten();
    for git_directory in own.map(|entry| entry.path()).chain([place.common_directory.clone()]) {
        for name in ["rebase-merge/head-name", "rebase-apply/head-name"] {
            if fs::read_to_string(git_directory.join(name)).is_ok_and(|name| name.trim() == reference) {
                let why = "a rebase of the branch is under way. Finish it, and merge again.".to_owned();
                return Err(Unmerged::Checkout { directory: git_directory, why });
            }
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => {
            let why = "more than one working tree has the branch checked out. Switch the others to another branch.";
            Err(Unmerged::Checkout { directory: found.remove(1), why: why.to_owned() })
        }
    }
}

/// Fails unless nothing in a checkout would be lost or mixed with the merge.
async fn require_clean(place: &Place, directory: &Path, changed: &[Change]) -> Result<(), Unmerged> {
    let refuse = |why: String| Unmerged::Checkout { directory: directory.to_owned(), why };
    let git = || place.git_in(directory);
    let git_directory = git().run(&["rev-parse", "--absolute-git-dir"]).await?;
    for (name, what) in [("MERGE_HEAD", "merge"), ("CHERRY_PICK_HEAD", "cherry-pick"), ("REVERT_HEAD", "revert")] {
        if Path::new(git_directory.trim_end_matches('\n')).join(name).exists() {
            return Err(refuse(format!("a {what} is under way. Finish it, and merge again.")));
        }
    }
    let status = ["status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=none", "--no-renames"];
    let status = place.named(&status, git().bytes(&status, b"").await)?;
    let edited: Vec<String> =
        entries(&status).take(5).map(|line| String::from_utf8_lossy(&line[3.min(line.len())..]).into_owned()).collect();
    if !edited.is_empty() {
        let edited = edited.join(", ");
        return Err(refuse(format!(
            "it has changes that are not committed: {edited}. Commit or stash them, and merge again."
        )));
    }
    let flags = git().bytes(&["ls-files", "-v", "-z"], b"").await?;
    let flags: BTreeMap<&OsStr, u8> =
        entries(&flags).filter_map(|entry| Some((OsStr::from_bytes(entry.get(2..)?), *entry.first()?))).collect();
    for change in changed {
        let flag = flags.get(change.path.as_os_str());
        // Git would take such a file for unchanged, and overwrite it.
        let is_hidden = |flag: &u8| flag.is_ascii_lowercase() || *flag == b'S' && directory.join(&change.path).exists();
        if flag.is_some_and(is_hidden) {
            let path = change.path.to_string_lossy();
            return Err(refuse(format!(
                "git does not look for changes of {path}. Let it (git update-index --no-assume-unchanged \
                 --no-skip-worktree {path}), and merge again."
            )));
        }
        // Git would overwrite a file that it ignores.
        if change.new_mode != "000000"
            && flag.is_none()
            && let Some(path) = in_the_way(directory, &change.path, &flags)
        {
            return Err(refuse(format!("{} is in the way. Move it away, and merge again.", path.to_string_lossy())));
        }
    }
    Ok(())
}

/// Returns a file of a checkout that is not in its index, and whose place a new file needs.
fn in_the_way(directory: &Path, path: &OsStr, index: &BTreeMap<&OsStr, u8>) -> Option<OsString> {
    let is_new = |path: &Path| !index.contains_key(path.as_os_str());
    for above in Path::new(path).ancestors().filter(|above| !above.as_os_str().is_empty()) {
        let metadata = fs::symlink_metadata(directory.join(above));
        if metadata.is_ok_and(|metadata| !metadata.is_dir()) && is_new(above) {
            return Some(above.into());
        }
    }
    let mut ahead = vec![PathBuf::from(path)];
    while let Some(below) = ahead.pop() {
        for entry in fs::read_dir(directory.join(&below)).into_iter().flatten().flatten() {
            let path = below.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(path),
                _ if is_new(&path) => return Some(path.into()),
                _ => {}
            }
        }
    }
    None
}
