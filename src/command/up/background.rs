//! Processes that keep running after `up` has finished.
//!
//! `up` records such a process before the process does anything, so that `down` knows of it even if `up` is killed at that
//! moment: the process first waits for a line, which comes once it is recorded, and exits if the line does not come.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::BufRead as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::Args;
use teamwire_agents::{Pid, start_in_new_session};
use teamwire_client::{AS_VARIABLE, CREDENTIAL_VARIABLE, JOIN_VARIABLE, TEAM_VARIABLE};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::failure::{Failure, REFUSED};

/// How long a process may take to become ready.
const READY_MAX: Duration = Duration::from_secs(30);

/// How long a process may take to exit before it is killed.
pub(in crate::command) const STOP_GRACE: Duration = Duration::from_secs(20);

/// How often `up` checks whether a process is ready.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How many lines of a log a failure quotes.
const LOG_LINES: usize = 10;

/// The option of a command that `up` starts in the background.
#[derive(Args, Clone, Copy, Debug)]
pub(in crate::command) struct AwaitRecord {
    /// Wait for a line on standard input first, and exit without one
    #[arg(long, hide = true)]
    await_record: bool,
}

impl AwaitRecord {
    /// Returns whether `up` has started this process.
    pub(in crate::command) fn is_given(self) -> bool {
        self.await_record
    }

    /// Waits until `up` has recorded this process, if `up` has started it. Returns false if it will not.
    pub(in crate::command) fn is_recorded(self) -> bool {
        let mut line = String::new();
        !self.await_record || std::io::stdin().lock().read_line(&mut line).is_ok_and(|length| length > 0)
    }
}

/// A process of this program that `up` started in the background.
pub(in crate::command) struct Background {
    /// What it is, such as "the coordinator".
    what: &'static str,
    child: Child,
    pub(super) process: Pid,
    pub(in crate::command) log: PathBuf,
    /// The length of the log before the start.
    log_start: u64,
}

impl Background {
    /// Starts `teamwire` with these arguments, in its own process session and in a directory. The process appends its
    /// output to a log, and does nothing until `record` has recorded it.
    pub(super) async fn start(
        what: &'static str,
        arguments: &[&OsStr],
        variables: &[(&str, &str)],
        directory: &Path,
        log: PathBuf,
        record: impl FnOnce(&Pid) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let cannot = |error: &dyn std::fmt::Display| Failure::local(&format!("Cannot start {what}"), error);
        let file = open_log(&log).map_err(|error| Failure::local(&format!("Cannot open {}", log.display()), error))?;
        Pid::prepare_output(&file).map_err(|error| Failure::local(&format!("Cannot use {}", log.display()), error))?;
        let log_start = file.metadata()?.len();
        let mut command = Command::new(env::current_exe()?);
        // A process that serves others must not get the caller's credentials.
        for variable in [AS_VARIABLE, CREDENTIAL_VARIABLE, JOIN_VARIABLE, TEAM_VARIABLE] {
            command.env_remove(variable);
        }
        command.args(arguments).arg("--await-record").envs(variables.iter().copied()).current_dir(directory);
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        start_in_new_session(&mut command, None);
        // If anything fails from here on, the process loses its input, and exits.
        let mut child = command.spawn().map_err(|error| cannot(&error))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        // It holds the log.
        drop(command);
        let process = id.and_then(|id| Pid::of_child(id, &log)).ok_or_else(|| cannot(&"it has ended at once"))?;
        record(&process)?;
        if let Some(mut input) = child.stdin.take() {
            // A process that has exited is noticed when it does not become ready.
            let _ = input.write_all(b"\n").await;
        }
        Ok(Self { what, child, process, log, log_start })
    }

    /// Waits until the process is ready. If the process exits first or takes too long, ends it, and fails with the last
    /// lines of its log.
    pub(super) async fn ready<T>(&mut self, mut is_ready: impl AsyncFnMut(&Self) -> Option<T>) -> Result<T, Failure> {
        let what = self.what;
        let ready = timeout(READY_MAX, async {
            loop {
                if let Some(status) = self.child.try_wait()? {
                    return Err(Failure::local(&format!("Cannot start {what}"), format!("it ended with {status}.")));
                }
                if let Some(ready) = is_ready(self).await {
                    return Ok(ready);
                }
                sleep(LOOK_EVERY).await;
            }
        });
        let too_long =
            || Failure::local(&format!("Cannot start {what}"), format!("not ready in {} s.", READY_MAX.as_secs()));
        let failure = match ready.await.unwrap_or_else(|_| Err(too_long())) {
            Ok(ready) => return Ok(ready),
            Err(failure) => failure,
        };
        let _ = self.child.kill().await;
        let lines = self.last_lines();
        let text = format!("{}\nThe end of its log, {}:\n{lines}", failure.message(), self.log.display());
        Err(Failure::with_code(REFUSED, if lines.is_empty() { failure.message() } else { text }))
    }

    /// Returns whether it has written a line.
    pub(super) fn has_written(&self, line: &str) -> bool {
        self.written().lines().any(|written| written == line)
    }

    /// Returns what it wrote.
    fn written(&self) -> String {
        let written = fs::read(&self.log).unwrap_or_default();
        let written = written.get(usize::try_from(self.log_start).unwrap_or_default()..).unwrap_or_default();
        String::from_utf8_lossy(written).into_owned()
    }

    /// Returns the last lines that it wrote.
    fn last_lines(&self) -> String {
        let text = self.written();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("    {line}\n")).collect()
    }
}

fn open_log(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
