//! Runs git.

use std::{
    env,
    ffi::OsStr,
    fs::File,
    io,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use crate::process::Helper;

/// How long a git command may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long to read on after git has ended, if something else holds its output open.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

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
pub(crate) struct Registration {
    /// The directory in the repository with what belongs to this worktree alone.
    pub(crate) git_directory: PathBuf,
    /// The repository's own directory.
    pub(crate) common_directory: PathBuf,
}

/// A git command.
#[derive(Debug)]
pub(crate) struct Git {
    command: Command,
}

impl Git {
    /// Prepares a command in a directory, as the user's own settings have it.
    pub(crate) fn at(directory: &Path) -> Self {
        Self::program(OsStr::new("git"), directory)
    }

    fn program(program: &OsStr, directory: &Path) -> Self {
        let mut command = Command::new(program);
        command.arg("-C").arg(directory).stdin(Stdio::null()).kill_on_drop(true);
        // They would name another repository, other objects or other settings.
        for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(variable);
        }
        // A worktree says in git's language that it is being made.
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").env_remove("LANGUAGE");
        Self { command }
    }

    /// Prepares a command that sees and shows everything, whatever the user's settings are, and changes nothing by
    /// itself.
    pub(crate) fn truthful(directory: &Path) -> Self {
        Self::truthful_program(OsStr::new("git"), directory)
    }

    /// Prepares a command as [`Git::truthful`] does, of another program than the `git` on the PATH.
    pub(crate) fn truthful_program(program: &OsStr, directory: &Path) -> Self {
        let mut git = Self::program(program, directory);
        git.command.args(["--no-replace-objects", "--no-optional-locks"]);
        git.command.env("GIT_GRAFT_FILE", "/dev/null");
        for setting in OVERRIDES {
            git.command.args(["-c", setting]);
        }
        git
    }

    /// Lets it use another index than the worktree's.
    pub(crate) fn with_index(mut self, index: &Path) -> Self {
        self.command.env("GIT_INDEX_FILE", index);
        self
    }

    /// Overrides a setting, written as `name=value`.
    pub(crate) fn with_setting(mut self, setting: &str) -> Self {
        self.command.args(["-c", setting]);
        self
    }

    /// Sets a variable in its environment.
    pub(crate) fn with_variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Lets it fill a directory that is not a worktree yet.
    pub(crate) fn filling(mut self, root: &Path, git_directory: &Path) -> Self {
        self.command.arg("--git-dir").arg(git_directory).arg("--work-tree").arg(root);
        self
    }

    /// Runs it. Returns its output or, if it fails, the last lines of its errors.
    pub(crate) async fn run(self, arguments: &[&str]) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&self.bytes(arguments, b"").await?).into_owned())
    }

    /// Runs it with an input. Returns its output as [`Git::run`] does.
    pub(crate) async fn bytes(self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let output = self.output(arguments, input).await?;
        if output.status.success() { Ok(output.stdout) } else { Err(complaint(&output)) }
    }

    /// Runs it with an input. Returns what it wrote and how it ended, even if it failed.
    pub(crate) async fn output(mut self, arguments: &[&str], input: &[u8]) -> Result<Output, String> {
        self.command.args(arguments).stdout(Stdio::piped());
        in_time(output(self.command, input)).await
    }

    /// Runs it, and writes its output into a file.
    pub(crate) async fn write_to(mut self, arguments: &[&str], file: File) -> Result<(), String> {
        self.command.args(arguments).stdout(Stdio::from(file));
        let output = in_time(output(self.command, b"")).await?;
        if output.status.success() { Ok(()) } else { Err(complaint(&output)) }
    }

    /// Runs it, and lets it read a file.
    pub(crate) async fn read_from(mut self, arguments: &[&str], file: File) -> Result<(), String> {
        self.command.args(arguments).stdin(Stdio::from(file)).stdout(Stdio::null());
        let output = in_time(output(self.command, b"")).await?;
        if output.status.success() { Ok(()) } else { Err(complaint(&output)) }
    }
}

/// Returns the last lines of the errors of a git that has failed.
pub(crate) fn complaint(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let begin = said.ceil_char_boundary(said.len().saturating_sub(QUOTED_BYTES));
    match said[begin..].trim() {
        "" => format!("it said nothing and ended with {}", output.status),
        said => said.to_owned(),
    }
}

async fn in_time(running: impl Future<Output = io::Result<Output>>) -> Result<Output, String> {
    match timeout(PATIENCE, running).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(format!("git cannot be run: {error}")),
        Err(_) => Err(format!("git did not end within {} s", PATIENCE.as_secs())),
    }
}

/// Runs a command until its process ends. A program that one of the user's hooks leaves in the background may keep its
/// output open for as long as it likes.
async fn output(mut command: Command, input: &[u8]) -> io::Result<Output> {
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    // A runner that ends a program with its descendants must not end git, nor wait for it in its place.
    let (mut child, _helper) = Helper::spawn(command.stderr(Stdio::piped()))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut written, mut complained) = (Vec::new(), Vec::new());
    let status = {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command that has failed reads nothing more. Its status says so.
                let _ = stdin.write_all(input).await;
            }
        };
        let exchange = async {
            let (stdout, stderr, ()) =
                tokio::join!(read_all(stdout, &mut written), read_all(stderr, &mut complained), write);
            stdout.and(stderr)
        };
        tokio::pin!(exchange);
        let (exchanged, status) = tokio::select! {
            exchanged = &mut exchange => (exchanged, child.wait().await),
            status = child.wait() => (timeout(OUTPUT_GRACE, exchange).await.unwrap_or(Ok(())), status),
        };
        exchanged.and(status)?
    };
    Ok(Output { status, stdout: written, stderr: complained })
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) -> io::Result<()> {
    match from {
        Some(mut from) => from.read_to_end(to).await.map(drop),
        None => Ok(()),
    }
}
