//! Where the program of a member runs: in a directory, or in a git worktree.
//!
//! | module | what it does |
//! |---|---|
//! | `worktree` | makes a worktree, checks it before each start, and removes it |
//! | `held` | finds what only a worktree holds, so that nothing is removed with it |
//! | `files` | compares a worktree's files with its last commit, byte by byte |

mod files;
mod held;
mod worktree;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use self::worktree::{BRANCHES, Worktree};
use crate::{host::StartError, work::as_branch};

/// Where the program of a member runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workspace {
    /// The member's directory.
    pub(super) root: PathBuf,
    /// The directory that the program starts in: `root`, or one below it.
    pub(super) start: PathBuf,
    /// The worktree that `root` is. `None` means a plain directory.
    worktree: Option<Worktree>,
    /// Whether `root` is the user's, who shares it with the members. The host neither creates nor removes anything
    /// there.
    pub(super) is_shared: bool,
}

impl Workspace {
    /// Plans a member's workspace in `directory`. `below`: where the program starts, relative to the member's
    /// directory.
    pub(super) fn plan(directory: &Path, member: &str, below: &str) -> Self {
        Self { is_shared: false, ..Self::shared(&directory.join(member), below) }
    }

    /// Makes it a worktree of a repository. `discard_ignored`: files that git ignores may be removed with it.
    pub(super) fn in_worktree(self, repository: &Path, member: &str, discard_ignored: bool) -> Self {
        let branch = format!("{BRANCHES}{}", as_branch(member));
        let worktree = Worktree { repository: repository.to_owned(), branch, discard_ignored };
        Self { worktree: Some(worktree), ..self }
    }

    /// Plans the workspace of a member in a directory that the user shares with it. `below`: where the program starts,
    /// relative to it.
    pub(super) fn shared(root: &Path, below: &str) -> Self {
        let start = if below.is_empty() { root.to_owned() } else { root.join(below) };
        Self { root: root.to_owned(), start, worktree: None, is_shared: true }
    }

    /// Creates it. If an earlier member of the same name has left it behind, checks that it can still be used.
    pub(super) async fn prepare(&self) -> Result<(), StartError> {
        let within = match &self.worktree {
            None if self.is_shared => &self.root,
            None => return fs::create_dir_all(&self.start).map_err(|error| cannot_use(&self.start, &error)),
            Some(worktree) => {
                if let Some(above) = self.root.parent() {
                    fs::create_dir_all(above).map_err(|error| cannot_use(above, &error))?;
                }
                worktree.prepare(&self.root).await?;
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

    /// Returns its directory, and its branch if it is a worktree, in words.
    pub(super) fn place(&self) -> String {
        match &self.worktree {
            Some(worktree) => format!("{}, on branch {}", self.root.display(), worktree.branch),
            None => self.root.display().to_string(),
        }
    }

    /// Removes it if nothing would be lost: an empty directory, or a worktree of which git provably holds everything
    /// elsewhere. Returns why a worktree stays.
    pub(super) async fn clean(&self) -> Option<String> {
        match &self.worktree {
            None if self.is_shared => None,
            Some(worktree) if self.root.exists() => worktree.remove_if_held(&self.root).await.err(),
            Some(_) => None,
            None => {
                let inner = self.start.ancestors().take_while(|above| above.starts_with(&self.root));
                let removed = |directory: &Path| match fs::remove_dir(directory) {
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                    Ok(()) => true,
                };
                // From the innermost directory outward, up to the first that is not empty.
                let _ = inner.take_while(|directory| removed(directory)).count();
                None
            }
        }
    }
}

fn cannot_use(directory: &Path, error: &io::Error) -> StartError {
    StartError::here_only(format!("The directory {} cannot be used: {error}.", directory.display()))
}

#[cfg(test)]
mod tests;
