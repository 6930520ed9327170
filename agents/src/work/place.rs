//! Finds the working tree that a directory is in, and its repository.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Output,
};

use super::git::{Git, complaint};

/// A working tree of a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The top of the working tree.
    pub root: PathBuf,
    /// The directory with what git keeps for this working tree alone.
    pub git_directory: PathBuf,
    /// The repository's own directory, which all its working trees share.
    pub common_directory: PathBuf,
    program: OsString,
}

impl Place {
    /// Finds the working tree that a directory is in. Returns `None` outside a repository and in a bare one.
    pub async fn find(directory: &Path) -> Result<Option<Self>, String> {
        Self::find_with(OsStr::new("git"), directory).await
    }

    /// Finds the working tree that this process runs in. Returns `None` also if git cannot say.
    pub async fn here() -> Option<Self> {
        Self::find(&env::current_dir().ok()?).await.ok()?
    }

    /// Finds it as [`Place::find`] does, with another git than the one on the PATH. That git does everything else, too.
    pub async fn find_with(program: &OsStr, directory: &Path) -> Result<Option<Self>, String> {
        let failed = |why: String| format!("git rev-parse in {}: {why}", directory.display());
        let ask = async |what: &str| {
            let output = Git::truthful_program(program, directory).output(&["rev-parse", what], b"").await?;
            if !output.status.success() {
                return Err(complaint(&output));
            }
            Ok(OsStr::from_bytes(output.stdout.strip_suffix(b"\n").unwrap_or(&output.stdout)).to_owned())
        };
        match ask("--is-inside-work-tree").await {
            Ok(answer) if answer == "true" => {}
            Ok(_) => return Ok(None),
            Err(why) if why.contains("not a git repository") => return Ok(None),
            Err(why) => return Err(failed(why)),
        }
        // Before 2.31, git cannot print absolute paths.
        let path = |answer: OsString| {
            let path = directory.join(answer);
            path.canonicalize().map_err(|error| failed(format!("{}: {error}", path.display())))
        };
        Ok(Some(Self {
            root: path(ask("--show-toplevel").await.map_err(failed)?)?,
            git_directory: path(ask("--git-dir").await.map_err(failed)?)?,
            common_directory: path(ask("--git-common-dir").await.map_err(failed)?)?,
            program: program.to_owned(),
        }))
    }

    /// Returns what names the repository on every machine: the address of its remote `origin`, whatever protocol, user
    /// and password lead there, or `root:` and the oldest commit without a parent that HEAD has. A remote that is a
    /// directory names nothing on another machine. Returns `None` if there is no commit, or a shallow clone lacks it.
    pub async fn repository_id(&self) -> Result<Option<String>, String> {
        let remote = self.ask(&["remote", "get-url", "origin"]).await?;
        if let Some(address) = remote.as_deref().and_then(normalized) {
            return Ok(Some(address));
        }
        if self.head().await?.is_none() || self.run(&["rev-parse", "--is-shallow-repository"]).await?.trim() == "true" {
            return Ok(None);
        }
        let roots = self.run(&["rev-list", "--max-parents=0", "--timestamp", "HEAD"]).await?;
        let oldest = roots.lines().filter_map(|line| {
            let (time, commit) = line.split_once(' ')?;
            Some((time.parse::<u64>().ok()?, commit))
        });
        Ok(oldest.min().map(|(_, commit)| format!("root:{commit}")))
    }

    /// Returns whether this is a working tree beside the main one, which one member has for itself.
    pub fn is_linked(&self) -> bool {
        self.git_directory != self.common_directory
    }

    /// Returns whether a merge is not finished here.
    pub(crate) fn is_merging(&self) -> bool {
        self.git_directory.join("MERGE_HEAD").exists()
    }

    /// Returns the working tree that has a branch checked out. `None` if none has.
    pub async fn worktree_of(&self, branch: &str) -> Result<Option<PathBuf>, String> {
        let listed = match self.run(&["worktree", "list", "--porcelain", "-z"]).await {
            Ok(listed) => listed,
            // Before 2.36, git ends lines only with newlines.
            Err(_) => self.run(&["worktree", "list", "--porcelain"]).await?.replace('\n', "\0"),
        };
        let of = |entry: &str| {
            let mut lines = entry.split('\0');
            let directory = lines.find_map(|line| line.strip_prefix("worktree "))?;
            let has_it = lines.any(|line| line.strip_prefix("branch refs/heads/") == Some(branch));
            has_it.then(|| PathBuf::from(directory))
        };
        Ok(listed.split("\0\0").find_map(of))
    }

    /// Returns the command that the repository's settings have for checking a merge. `None` if they have none.
    pub async fn check(&self) -> Result<Option<String>, String> {
        self.setting("teamwire.check").await
    }

    /// Returns the branch that is checked out. `None` if HEAD is detached.
    pub async fn branch(&self) -> Result<Option<String>, String> {
        Ok(branch_of(self.ask(&["symbolic-ref", "--quiet", "HEAD"]).await?))
    }

    /// Returns the commit that is checked out. `None` if there is none yet.
    pub async fn head(&self) -> Result<Option<String>, String> {
        self.commit("HEAD").await
    }

    /// Returns the branch that work is based on: the one that is checked out in the repository's main working tree, if
    /// this is another one. Otherwise the remote's main branch, such as `origin/main`, if it is known.
    pub async fn base_branch(&self) -> Result<Option<String>, String> {
        if self.is_linked() {
            let common = self.common_directory.display().to_string();
            let main = format!("--git-dir={common}");
            if let Some(branch) = branch_of(self.ask(&[&main, "symbolic-ref", "--quiet", "HEAD"]).await?) {
                return Ok(Some(branch));
            }
        }
        let remote = self.ask(&["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]).await?;
        Ok(remote.and_then(|name| Some(name.strip_prefix("refs/remotes/")?.to_owned())))
    }

    /// Returns the id of the commit that a revision names. `None` if it names none.
    pub async fn commit(&self, revision: &str) -> Result<Option<String>, String> {
        self.ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")]).await
    }

    /// Returns the newest commit that two commits share. `None` if there is none.
    pub(super) async fn merge_base(&self, one: &str, other: &str) -> Result<Option<String>, String> {
        self.ask(&["merge-base", one, other]).await
    }

    /// Returns whether a commit is the other or is among those that the other is based on.
    pub(super) async fn is_ancestor(&self, commit: &str, of: &str) -> Result<bool, String> {
        let ask = ["merge-base", "--is-ancestor", commit, of];
        let output = self.named(&ask, self.git().output(&ask, b"").await)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => self.named(&ask, Err(complaint(&output))),
        }
    }

    /// Returns a setting of the repository or of the user.
    pub(super) async fn setting(&self, name: &str) -> Result<Option<String>, String> {
        self.ask(&["config", "--get", name]).await
    }

    /// Returns the id of the tree that a revision names.
    pub(super) async fn tree(&self, revision: &str) -> Result<String, String> {
        let tree = format!("{revision}^{{tree}}");
        Ok(self.run(&["rev-parse", "--verify", "--end-of-options", &tree]).await?.trim().to_owned())
    }

    /// Returns the git that is used here.
    pub(super) fn program(&self) -> &OsStr {
        &self.program
    }

    /// Prepares a command that sees everything, and changes nothing by itself.
    pub(super) fn git(&self) -> Git {
        Git::truthful_program(&self.program, &self.root)
    }

    /// Prepares a command as [`Place::git`] does, in another directory.
    pub(super) fn git_in(&self, directory: &Path) -> Git {
        Git::truthful_program(&self.program, directory)
    }

    /// Runs a command. Returns its output.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.named(arguments, self.git().run(arguments).await)
    }

    /// Runs a command with an input. Returns its output.
    pub(super) async fn feed(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        self.named(arguments, self.git().bytes(arguments, input).await)
    }

    /// Names the command and the repository in an error.
    pub(super) fn named<T>(&self, arguments: &[&str], result: Result<T, String>) -> Result<T, String> {
        result.map_err(|why| {
            let name = arguments.iter().find(|argument| !argument.starts_with('-')).unwrap_or(&"");
            format!("git {name} in {}: {why}", self.root.display())
        })
    }

    /// Runs a command that fails if there is no answer. Returns the first line of its output.
    async fn ask(&self, arguments: &[&str]) -> Result<Option<String>, String> {
        let output: Output = self.named(arguments, self.git().output(arguments, b"").await)?;
        let line = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
        Ok((output.status.success() && !line.is_empty()).then_some(line))
    }

    /// Fails with what to do if git is too old to merge without a working tree.
    pub(super) async fn require_merge_tree(&self, purpose: &str) -> Result<(), String> {
        let version = self.run(&["version"]).await?;
        let version = version.trim().trim_start_matches("git version ");
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        let known = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        if known >= (2, 38) {
            return Ok(());
        }
        Err(format!("git 2.38 or later is needed for {purpose}; this is git {version}"))
    }
}

fn branch_of(name: Option<String>) -> Option<String> {
    Some(name?.strip_prefix("refs/heads/")?.to_owned())
}

/// Returns the host and the path of a remote's address. `None` if it is a directory.
fn normalized(address: &str) -> Option<String> {
    let (authority, path) = match address.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // As git does: what has a slash before the colon is a path.
        None => address.split_once(':').filter(|(host, _)| !host.contains('/') && !host.is_empty())?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, "22" | "80" | "443" | "9418")) => name,
        _ => host,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_matches('/');
    (!host.is_empty() && !path.is_empty()).then(|| format!("{}/{path}", host.to_ascii_lowercase()))
}
