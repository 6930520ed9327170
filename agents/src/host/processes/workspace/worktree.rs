//! A git worktree for a member: makes it, checks it before each start, and removes it once git holds everything
//! elsewhere.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::held::Search;
use crate::{
    host::StartError,
    work::{Git, Place, Registration, lock, salvage::salvage},
};

/// The file in a repository that is locked while a host adds or removes a worktree.
const LOCK: &str = "teamwire.lock";

/// How long to wait for that lock. One git command may take two minutes.
const LOCK_PATIENCE: Duration = Duration::from_secs(150);

/// What the names of the branches begin with that the host makes.
pub(super) const BRANCHES: &str = "teamwire/";

/// The file among what git keeps of a worktree while its directory is made again.
const RESTORING: &str = "teamwire-restoring";

/// Lets git log where a new worktree and its branch were. Later, git continues a log that exists, whatever the user's
/// settings.
const LOGGED: [&str; 2] = ["-c", "core.logAllRefUpdates=true"];

/// A git worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worktree {
    /// The repository.
    pub(super) repository: PathBuf,
    /// The branch that the host makes for it.
    pub(super) branch: String,
    /// Whether the files in it that git ignores may be lost.
    pub(super) discard_ignored: bool,
}

impl Worktree {
    /// Makes sure that the worktree is there and works. Returns why not.
    pub(super) async fn prepare(&self, root: &Path) -> Result<(), StartError> {
        let failed = |why: String| {
            let repository = self.repository.display();
            StartError::here_only(format!("git cannot make a worktree of {repository}.\n{why}"))
        };
        let common = self.common_directory().await.map_err(failed)?;
        let _lock = lock(&common, LOCK, LOCK_PATIENCE).await.map_err(failed)?;
        let mut registered = registered(root, &common);
        if let Some(half_made) = registered.take_if(|registered| is_half_made(registered)) {
            self.undo(root, &half_made).await.map_err(failed)?;
        }
        if root.join(".git").exists() {
            if let Some(registered) = registered {
                let _ = fs::remove_file(registered.join(RESTORING));
            }
            return self.registration(root, &common).await.map(drop).map_err(|why| {
                StartError::here_only(format!(
                    "{} is not a worktree of {} any more: {why}. Move what you need out of it, and remove the directory.",
                    root.display(),
                    self.repository.display()
                ))
            });
        }
        match registered {
            Some(registered) => self.restore(root, &registered).await,
            None => self.add(root).await,
        }
        .map_err(failed)
    }

    /// Removes it, together with its branch, if git holds everything elsewhere. Returns why it stays.
    pub(super) async fn remove_if_held(&self, root: &Path) -> Result<(), String> {
        let common = self.common_directory().await?;
        let _lock = lock(&common, LOCK, LOCK_PATIENCE).await?;
        let registration = self.registration(root, &common).await?;
        let branch = format!("refs/heads/{}", self.branch);
        // Whatever it names would go with it.
        if let Ok(target) = Git::truthful(root).run(&["symbolic-ref", "--quiet", &branch]).await {
            return Err(format!("its branch {} is another name of {}", self.branch, target.trim()));
        }
        let tip = Git::truthful(root).run(&["rev-parse", "--verify", "--quiet", &branch]).await;
        self.salvage(root).await.map_err(|why| format!("what is in it cannot be kept elsewhere: {why}"))?;
        let search =
            Search { root, registration: &registration, branch: &branch, discard_ignored: self.discard_ignored };
        if let Some(found) = search.find().await? {
            return Err(format!("it has {found}"));
        }
        // Git itself looks for changes once more.
        Git::truthful(&self.repository).run(&["worktree", "remove", &root.display().to_string()]).await?;
        if let Ok(tip) = tip {
            // Does nothing if the branch has moved meanwhile, or is checked out elsewhere.
            let _ = self.delete_branch(&branch, tip.trim()).await;
        }
        Ok(())
    }

    /// Keeps what is in it as a salvage of the member, which outlives the worktree.
    async fn salvage(&self, root: &Path) -> Result<(), String> {
        let place = Place::find(root).await?.ok_or_else(|| format!("{} is no working tree", root.display()))?;
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        let member = self.branch.strip_prefix(BRANCHES).unwrap_or(&self.branch);
        salvage(&place, member, "before the worktree was removed", &directory.path().join("index")).await.map(drop)
    }

    async fn common_directory(&self) -> Result<PathBuf, String> {
        // Before 2.31, git cannot print absolute paths.
        let shown = Git::at(&self.repository).run(&["rev-parse", "--git-common-dir"]).await?;
        Ok(canonical(self.repository.join(shown.trim_end_matches('\n'))))
    }

    /// Returns how the repository knows the worktree. Fails if it does not, or if git would look elsewhere.
    async fn registration(&self, root: &Path, common: &Path) -> Result<Registration, String> {
        let arguments = ["rev-parse", "--git-dir", "--git-common-dir", "--show-toplevel"];
        let shown = Git::at(root).run(&arguments).await?;
        let paths: Vec<PathBuf> = shown.lines().map(|path| canonical(root.join(path))).collect();
        let [git_directory, common_directory, top] = <[PathBuf; 3]>::try_from(paths).map_err(|_| shown)?;
        if common_directory != common || git_directory.parent() != Some(&common.join("worktrees")) {
            return Err(format!("it belongs to {}", common_directory.display()));
        }
        if top != canonical(root) {
            return Err(format!("git takes {} for it", top.display()));
        }
        let back = fs::read_to_string(git_directory.join("gitdir")).unwrap_or_default();
        if canonical(back.trim_end()) != canonical(root.join(".git")) {
            return Err("its repository knows it under another path".to_owned());
        }
        Ok(Registration { git_directory, common_directory })
    }

    /// Undoes what git was killed over. Nobody has worked in it.
    async fn undo(&self, root: &Path, half_made: &Path) -> Result<(), String> {
        let remove = ["worktree", "remove", "--force", "--force", &root.display().to_string()];
        let removed = Git::at(&self.repository).run(&remove).await;
        if removed.is_err() && fs::remove_dir(root).is_ok() | !root.exists() {
            // Git had made no more than an empty directory.
            return fs::remove_dir_all(half_made).map_err(|error| format!("{}: {error}", half_made.display()));
        }
        removed.map(drop)
    }

    /// Makes the directory of a worktree again that the repository still knows: with what was staged, and with its log.
    async fn restore(&self, root: &Path, registered: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", root.display());
        let restoring = registered.join(RESTORING);
        if !root.exists() {
            fs::write(&restoring, "").map_err(failed)?;
            fs::create_dir_all(root).map_err(failed)?;
        }
        let git = || Git::at(root).filling(root, registered);
        if restoring.exists() {
            // If this was killed before, one of the files is incomplete.
            git().run(&["checkout-index", "--all", "--force"]).await?;
        } else {
            // What is there is someone's and stays, which git calls a failure.
            let _ = git().run(&["checkout-index", "--all"]).await;
        }
        // Last: with it, the worktree counts as complete.
        fs::write(root.join(".git"), format!("gitdir: {}\n", registered.display())).map_err(failed)?;
        let _ = fs::remove_file(restoring);
        Ok(())
    }

    async fn add(&self, root: &Path) -> Result<(), String> {
        let branch = format!("refs/heads/{}", self.branch);
        let path = root.display().to_string();
        let git = || Git::at(&self.repository);
        if git().run(&["rev-parse", "--verify", "--quiet", &branch]).await.is_ok() {
            return git().run(&[LOGGED[0], LOGGED[1], "worktree", "add", &path, &self.branch]).await.map(drop);
        }
        let start = git().run(&["rev-parse", "--verify", "HEAD^{commit}"]).await?;
        let add = ["worktree", "add", "--no-track", "-b", &self.branch, &path, start.trim()];
        let added = git().run(&[&LOGGED[..], &add].concat()).await;
        if added.is_err() {
            // Otherwise the next member of this name would start from this commit, wherever the repository is by then.
            let _ = self.delete_branch(&branch, start.trim()).await;
        }
        added.map(drop)
    }

    /// Deletes a branch that no worktree has checked out, if it is still at this commit.
    async fn delete_branch(&self, branch: &str, commit: &str) -> Result<(), String> {
        let worktrees = Git::at(&self.repository).run(&["worktree", "list", "--porcelain"]).await?;
        if worktrees.lines().any(|line| line.strip_prefix("branch ") == Some(branch)) {
            return Err("it is checked out".to_owned());
        }
        Git::truthful(&self.repository).run(&["update-ref", "--no-deref", "-d", branch, commit]).await.map(drop)
    }
}

/// Returns the directory in the repository of a worktree that it knows at this path, where there may be none.
fn registered(root: &Path, common: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).ok()?;
    let link = canonical_parent(root).join(".git");
    let is_it = |directory: &PathBuf| {
        let back = fs::read_to_string(directory.join("gitdir")).unwrap_or_default();
        canonical_parent(Path::new(back.trim_end()).parent().unwrap_or(root)).join(".git") == link
    };
    entries.flatten().map(|entry| entry.path()).find(is_it)
}

/// Returns whether git was killed while it made a worktree: until it is complete, git keeps it locked.
fn is_half_made(registered: &Path) -> bool {
    fs::read_to_string(registered.join("locked")).is_ok_and(|reason| reason.trim() == "initializing")
}

fn canonical(path: impl AsRef<Path>) -> PathBuf {
    let path = path.as_ref();
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns a path that may not exist, in a directory that does.
fn canonical_parent(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => canonical(parent).join(name),
        _ => path.to_owned(),
    }
}
