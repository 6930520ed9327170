//! Runs a check command on a commit, in a working tree that is thrown away.

use std::{env, ffi::OsString, io, path::Path, process::Stdio, sync::Arc, time::Duration};

use tokio::{io::AsyncReadExt as _, net::unix::pipe, process::Command, time::timeout};

use super::place::Place;
use crate::process::{Boundary, Process};

/// How much of the end of a check's output is kept.
pub const OUTPUT_TAIL_BYTES: usize = 8 * 1024;

/// How long to read on after all processes of a check have ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// The beginnings, ends and parts of the names of variables that a check does not see, in capital letters.
const HIDDEN_BEGINNINGS: [&str; 5] = ["TEAMWIRE_", "GIT_", "AWS_", "AZURE_", "SSH_"];
const HIDDEN_ENDS: [&str; 5] = ["_KEY", "_PAT", "_AUTH", "_DSN", "_COOKIE"];
const HIDDEN_PARTS: [&str; 7] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "PRIVATE_KEY"];

/// Why a check did not succeed.
#[derive(Debug)]
pub(super) enum CheckError {
    /// It ran, and failed. `how`: how it ended, in words.
    Failed { output_tail: String, how: String },
    /// It could not be run.
    NotRun(String),
}

impl From<String> for CheckError {
    fn from(why: String) -> Self {
        Self::NotRun(why)
    }
}

/// Runs a command of the shell on the files of a commit, and ends every process that it has started.
///
/// The command runs code that an agent may have written, as the user who runs this. It sees no variable that may hold
/// a credential, but it can read the user's files. The only variable of teamwire that it sees marks its processes.
pub(super) async fn check(place: &Place, commit: &str, command: &str, limit: Duration) -> Result<(), CheckError> {
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    let root = directory.path().join("check");
    let path = root.display().to_string();
    place.run(&["worktree", "add", "--quiet", "--detach", &path, commit]).await?;
    let checked = run(&root, command, limit).await;
    // Whatever it has left behind.
    let removed = place.run(&["worktree", "remove", "--force", "--force", &path]).await;
    if let Err(why) = removed {
        tracing::warn!(why, "the working tree of a check is still registered");
    }
    checked
}

async fn run(root: &Path, script: &str, limit: Duration) -> Result<(), CheckError> {
    let failed = |error: io::Error| CheckError::NotRun(format!("the check cannot be run: {error}"));
    let (reader, writer) = io::pipe().map_err(failed)?;
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(root).stdin(Stdio::null()).env_clear().envs(visible(env::vars_os()));
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
    let mut process = Process::start(command, Arc::new(Boundary::default())).await.map_err(failed)?;
    let tail = tokio::spawn(tail(reader));
    let ended = timeout(limit, process.wait()).await;
    // What it has left in the background ends, too.
    process.kill().await;
    let output_tail = timeout(OUTPUT_GRACE, tail).await.ok().and_then(Result::ok).unwrap_or_default();
    let how = match ended {
        Ok(exit) if exit.is_success() => return Ok(()),
        Ok(exit) => match exit.code {
            Some(code) => format!("it ended with code {code}"),
            None => format!("signal {} ended it", exit.signal),
        },
        Err(_) => format!("it did not end within {} s", limit.as_secs_f32()),
    };
    Err(CheckError::Failed { output_tail, how })
}

/// Reads a pipe to its end. Returns its last bytes.
async fn tail(mut reader: pipe::Receiver) -> String {
    let (mut tail, mut buffer) = (Vec::new(), vec![0; OUTPUT_TAIL_BYTES]);
    while let Ok(count @ 1..) = reader.read(&mut buffer).await {
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(OUTPUT_TAIL_BYTES));
    }
    String::from_utf8_lossy(&tail).into_owned()
}

/// Returns the variables that a check may see.
pub(super) fn visible(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(|(name, _)| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        !HIDDEN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            && !HIDDEN_ENDS.iter().any(|end| name.ends_with(end))
            && !HIDDEN_PARTS.iter().any(|part| name.contains(part))
    })
}
