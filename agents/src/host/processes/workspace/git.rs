//! Runs git.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// How long a git command may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many bytes of git's output a reason quotes.
const QUOTED_BYTES: usize = 3_000;

/// Settings of the user that hide changes, or run programs of the user.
const OVERRIDES: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.fileMode=true",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.ignoreCase=false",
    "status.showUntrackedFiles=all",
    "diff.ignoreSubmodules=none",
];

/// What git knows about a worktree.
#[derive(Debug)]
pub(super) struct Registration {
    /// The directory in the repository with what belongs to this worktree alone.
    pub(super) git_directory: PathBuf,
    /// The repository's own directory.
    pub(super) common_directory: PathBuf,
}

/// A git command.
#[derive(Debug)]
pub(super) struct Git {
    command: Command,
}

impl Git {
    /// Prepares a command in a directory, as the user's own settings have it.
    pub(super) fn at(directory: &Path) -> Self {
        let mut command = Command::new("git");
        command.arg("-C").arg(directory).stdin(Stdio::null()).kill_on_drop(true);
        // They would name another repository, other objects or other settings.
        for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(variable);
        }
        command.env("GIT_TERMINAL_PROMPT", "0");
        Self { command }
    }

    /// Prepares a command that sees and shows everything, whatever the user's settings are, and changes nothing by
    /// itself.
    pub(super) fn truthful(directory: &Path) -> Self {
        let mut git = Self::at(directory);
        git.command.args(["--no-replace-objects", "--no-optional-locks"]);
        git.command.env("GIT_GRAFT_FILE", "/dev/null");
        for setting in OVERRIDES {
            git.command.args(["-c", setting]);
        }
        git
    }

    /// Lets it use another index than the worktree's.
    pub(super) fn with_index(mut self, index: &Path) -> Self {
        self.command.env("GIT_INDEX_FILE", index);
        self
    }

    /// Lets it fill a directory that is not a worktree yet.
    pub(super) fn filling(mut self, root: &Path, git_directory: &Path) -> Self {
        self.command.arg("--git-dir").arg(git_directory).arg("--work-tree").arg(root);
        self
    }

    /// Runs it. Returns its output or, if it fails, the last lines of its errors.
    pub(super) async fn run(self, arguments: &[&str]) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&self.bytes(arguments, b"").await?).into_owned())
    }

    /// Runs it with an input. Returns its output as [`Git::run`] does.
    pub(super) async fn bytes(mut self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        self.command.args(arguments);
        match timeout(PATIENCE, output(self.command, input)).await {
            Ok(Ok(output)) if output.status.success() => Ok(output.stdout),
            Ok(Ok(output)) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let begin = said.ceil_char_boundary(said.len().saturating_sub(QUOTED_BYTES));
                Err(said[begin..].trim().to_owned())
            }
            Ok(Err(error)) => Err(format!("git cannot be run: {error}")),
            Err(_) => Err(format!("git did not end within {} s", PATIENCE.as_secs())),
        }
    }
}

/// Runs a command until its process ends. It writes to files: a program that one of the user's hooks leaves in the
/// background keeps a pipe open for as long as it likes.
async fn output(mut command: Command, input: &[u8]) -> io::Result<Output> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that has failed reads nothing more. Its status says so.
        let _ = stdin.write_all(input).await;
    }
    let status = child.wait().await?;
    Ok(Output { status, stdout: written(&mut stdout)?, stderr: written(&mut stderr)? })
}

fn written(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
