//! Where the program of a member runs: in a directory, or in a git worktree.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{process::Command, sync::Mutex, time::timeout};

use crate::host::StartError;

/// How long a git command may take.
const GIT_PATIENCE: Duration = Duration::from_secs(120);

/// How many bytes of git's output a reason quotes.
const QUOTED_BYTES: usize = 3_000;

/// Held while git changes a repository's list of worktrees, which git does not lock itself.
static WORKTREES: Mutex<()> = Mutex::const_new(());

/// Where the program of a member runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workspace {
    /// The member's directory.
    pub(super) root: PathBuf,
    /// The directory that the program starts in: `root`, or one below it.
    pub(super) start: PathBuf,
    /// The worktree that `root` is. None: a plain directory.
    pub(super) worktree: Option<Worktree>,
    /// True: `root` is the user's, who shares it with the members. The host neither creates nor removes anything there.
    pub(super) is_shared: bool,
}

/// A git worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Worktree {
    /// The repository.
    repository: PathBuf,
    /// The branch that the host made for it.
    branch: String,
}

impl Workspace {
    /// Plans a member's workspace in `directory`. `repository`: the repository to make a worktree of. `below`: where the
    /// program starts, relative to `directory`.
    pub(super) fn plan(directory: &Path, member: &str, repository: Option<&Path>, below: &str) -> Self {
        let worktree = repository
            .map(|repository| Worktree { repository: repository.to_owned(), branch: format!("teamwire/{member}") });
        Self { worktree, is_shared: false, ..Self::shared(&directory.join(member), below) }
    }

    /// Plans the workspace of a member in a directory that the user shares with it. `below`: where the program starts, relative
    /// to it.
    pub(super) fn shared(root: &Path, below: &str) -> Self {
        let start = if below.is_empty() { root.to_owned() } else { root.join(below) };
        Self { root: root.to_owned(), start, worktree: None, is_shared: true }
    }

    /// Creates it, unless an earlier member of the same name has left it behind.
    pub(super) async fn create(&self) -> Result<(), StartError> {
        let within = match &self.worktree {
            None if self.is_shared => &self.root,
            None => return fs::create_dir_all(&self.start).map_err(|error| cannot_use(&self.start, &error)),
            Some(worktree) => {
                if !self.root.join(".git").exists() {
                    if let Some(above) = self.root.parent() {
                        fs::create_dir_all(above).map_err(|error| cannot_use(above, &error))?;
                    }
                    worktree.add(&self.root).await?;
                }
                &worktree.repository
            }
        };
        if self.start.is_dir() {
            return Ok(());
        }
        let below = self.start.strip_prefix(&self.root).ok().filter(|below| !below.as_os_str().is_empty());
        Err(StartError::new(match below {
            Some(below) => format!("There is no directory {} in {}.", below.display(), within.display()),
            None => format!("There is no directory {}.", within.display()),
        }))
    }

    /// Removes it if nothing would be lost: an empty directory, or a worktree without changes whose commits are all on another
    /// branch, too.
    pub(super) async fn clean(&self) {
        match &self.worktree {
            None if self.is_shared => {}
            Some(worktree) if self.root.exists() => worktree.remove_if_clean(&self.root).await,
            _ => {
                let inner = self.start.ancestors().take_while(|above| above.starts_with(&self.root));
                let removed = |directory: &Path| match fs::remove_dir(directory) {
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                    Ok(()) => true,
                };
                // From the innermost directory outward, up to the first that is not empty.
                let _ = inner.take_while(|directory| removed(directory)).count();
            }
        }
    }
}

impl Worktree {
    async fn add(&self, root: &Path) -> Result<(), StartError> {
        let _guard = WORKTREES.lock().await;
        let root = root.display().to_string();
        let git = async |arguments: &[&str]| git(&self.repository, arguments).await;
        // Forgets worktrees whose directories are gone.
        let _ = git(&["worktree", "prune"]).await;
        let exists = git(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{}", self.branch)]).await.is_ok();
        let added = match exists {
            true => git(&["worktree", "add", &root, &self.branch]).await,
            false => git(&["worktree", "add", "-b", &self.branch, &root]).await,
        };
        added.map(|_| ()).map_err(|why| {
            StartError::here_only(format!("git cannot make a worktree of {}.\n{why}", self.repository.display()))
        })
    }

    async fn remove_if_clean(&self, root: &Path) {
        let _guard = WORKTREES.lock().await;
        if !self.is_clean(root).await {
            return;
        }
        // Git itself refuses to remove a worktree with changes.
        if git(&self.repository, &["worktree", "remove", &root.display().to_string()]).await.is_ok() {
            let _ = git(&self.repository, &["branch", "--delete", "--force", &self.branch]).await;
        }
    }

    /// Returns whether the worktree has no changes, and no commits that are not on another branch.
    async fn is_clean(&self, root: &Path) -> bool {
        let Ok(status) = git(root, &["status", "--porcelain"]).await else { return false };
        let Ok(head) = git(root, &["rev-parse", "HEAD"]).await else { return false };
        let (exclude, branch) = (format!("--exclude={}", self.branch), format!("refs/heads/{}", self.branch));
        let own = ["rev-list", "--max-count=1", head.trim(), &branch];
        let elsewhere = ["--not", "HEAD", &exclude, "--branches", "--remotes", "--tags"];
        let lost = git(&self.repository, &[&own[..], &elsewhere].concat()).await;
        status.trim().is_empty() && lost.is_ok_and(|lost| lost.trim().is_empty())
    }
}

/// Runs git in a directory. Returns its output or, if it fails, the last lines of its errors.
async fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    let output = match timeout(GIT_PATIENCE, command.env("GIT_TERMINAL_PROMPT", "0").output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(format!("git cannot be run: {error}")),
        Err(_) => return Err(format!("git did not end within {} s", GIT_PATIENCE.as_secs())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let begin = said.ceil_char_boundary(said.len().saturating_sub(QUOTED_BYTES));
    Err(said[begin..].trim().to_owned())
}

fn cannot_use(directory: &Path, error: &io::Error) -> StartError {
    StartError::here_only(format!("The directory {} cannot be used: {error}.", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn repository() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let repository = directory.path().join("app");
        fs::create_dir(&repository).expect("created");
        for arguments in [
            &["init", "--quiet"][..],
            &["config", "user.email", "a@example.com"],
            &["config", "user.name", "a"],
            &["commit", "--quiet", "--allow-empty", "--message", "first"],
        ] {
            git(&repository, arguments).await.expect("git");
        }
        (directory, repository)
    }

    #[tokio::test]
    async fn a_worktree_is_removed_unless_work_would_be_lost() {
        let (directory, repository) = repository().await;
        let at = directory.path().join("members");
        let workspace = Workspace::plan(&at, "backend", Some(&repository), "");
        let branches = async || git(&repository, &["branch", "--list", "teamwire/*"]).await.expect("branches");

        workspace.create().await.expect("created");
        workspace.create().await.expect("there already");
        assert!(branches().await.contains("teamwire/backend"));
        workspace.clean().await;
        assert!(!workspace.root.exists(), "it was clean");
        assert_eq!(branches().await, "");

        workspace.create().await.expect("created again");
        fs::write(workspace.root.join("new"), "").expect("written");
        workspace.clean().await;
        assert!(workspace.root.exists(), "it has a change");
        git(&workspace.root, &["add", "new"]).await.expect("git");
        git(&workspace.root, &["commit", "--quiet", "--message", "second"]).await.expect("git");
        workspace.clean().await;
        assert!(workspace.root.exists(), "it has a commit");
        git(&repository, &["merge", "--quiet", "teamwire/backend"]).await.expect("git");
        workspace.clean().await;
        assert!(!workspace.root.exists(), "its commit is on another branch");
    }

    #[tokio::test]
    async fn a_repository_that_is_missing_is_named_with_what_git_says() {
        let directory = tempfile::tempdir().expect("a directory");
        let workspace = Workspace::plan(directory.path(), "backend", Some(&directory.path().join("app")), "");
        let error = workspace.create().await.expect_err("refused");
        assert!(error.try_another_host && error.reason.starts_with("git cannot make a worktree"), "{}", error.reason);
        assert!(error.reason.lines().count() > 1, "{}", error.reason);
    }

    #[tokio::test]
    async fn a_shared_directory_stays_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("docs")).expect("created");
        let workspace = Workspace::shared(directory.path(), "docs");
        workspace.create().await.expect("it is there");
        workspace.clean().await;
        assert!(workspace.start.is_dir(), "it is empty, and was there before");
        let missing = Workspace::shared(directory.path(), "services").create().await.expect_err("refused");
        assert!(missing.reason.starts_with("There is no directory services in "), "{}", missing.reason);
        assert!(!directory.path().join("services").exists());
        let nowhere = Workspace::shared(&directory.path().join("gone"), "").create().await.expect_err("refused");
        assert!(nowhere.reason.ends_with("/gone."), "{}", nowhere.reason);
    }

    #[tokio::test]
    async fn a_directory_is_removed_only_if_it_is_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let workspace = Workspace::plan(directory.path(), "backend", None, "services/api");
        workspace.create().await.expect("created");
        assert!(workspace.start.ends_with("backend/services/api") && workspace.start.is_dir());
        fs::write(workspace.root.join("notes"), "").expect("written");
        workspace.clean().await;
        assert!(workspace.root.join("notes").exists());
        fs::remove_file(workspace.root.join("notes")).expect("removed");
        workspace.clean().await;
        assert!(!workspace.root.exists());
    }
}
