//! One process, told from a later one with the same id.
//!
//! The process table says when each process was started, which tells them apart. A system without such a table cannot
//! tell, so there a process is identified by its output: it holds that file locked, from before it starts until it ends.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd,
};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::process_table::{ProcessEntry, boot, is_readable};

/// How often a process is looked for that is not a child of this one.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One process. A process that gets the same id later is another one: it started later, or after the machine did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pid {
    pub(crate) id: i32,
    /// When it was started, as the process table says. Zero if there is no such table.
    started: u64,
    /// The machine's boot.
    boot: String,
    /// The file that it holds locked. `None` if there is a process table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<PathBuf>,
}

impl Pid {
    /// Returns the process that has this id now. `None` if there is none, or the system has no process table.
    pub fn of(id: i32) -> Option<Self> {
        let entry = ProcessEntry::of(id)?;
        Some(Self { id, started: entry.started, boot: boot(), output: None })
    }

    /// Returns a child of this process that was just started. `output`: the path of its output, which was prepared with
    /// [`prepare_output`](Self::prepare_output).
    pub fn of_child(id: i32, output: &Path) -> Option<Self> {
        let by_output = || Self { id, started: 0, boot: String::new(), output: Some(output.to_owned()) };
        Self::of(id).or_else(|| (!is_readable()).then(by_output))
    }

    /// Prepares a file that becomes the output of a child: locks it if nothing else will identify the child. The child
    /// must be the only process that keeps the file open. Fails if another process holds the lock.
    pub fn prepare_output(output: &File) -> io::Result<()> {
        if is_readable() {
            return Ok(());
        }
        let in_use = || io::Error::other("another process still writes there; end it first");
        output.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => in_use(),
            TryLockError::Error(error) => error,
        })
    }

    /// Returns whether it is still running.
    pub fn is_alive(&self) -> bool {
        match &self.output {
            Some(output) => is_locked(output),
            None => self.entry().is_some(),
        }
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        match &self.output {
            Some(output) if is_locked(output) => drop(kill(unistd::Pid::from_raw(self.id), signal)),
            Some(_) => {}
            None => self.entry().into_iter().for_each(|entry| entry.signal(signal)),
        }
    }

    /// Ends it: with SIGTERM, and with SIGKILL if it is still running when the grace period is over. Returns once it
    /// has ended.
    pub async fn end(&self, grace: Duration) {
        self.signal(Signal::SIGTERM);
        if timeout(grace, self.gone()).await.is_err() {
            self.signal(Signal::SIGKILL);
            self.gone().await;
        }
    }

    /// Waits until it has ended. It need not be a child of this process, so no signal says when.
    pub async fn gone(&self) {
        while self.is_alive() {
            sleep(LOOK_EVERY).await;
        }
    }

    fn entry(&self) -> Option<ProcessEntry> {
        let entry = ProcessEntry::of(self.id).filter(|entry| entry.started == self.started && !entry.is_zombie)?;
        (boot() == self.boot).then_some(entry)
    }
}

/// Returns whether a process that writes to this file lives.
fn is_locked(output: &Path) -> bool {
    // Shared, so that processes that look at the same time do not take each other for the writer.
    File::open(output).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_reused_id_is_a_different_one() {
        let own = Pid::of(std::process::id().try_into().expect("an id")).expect("this process");
        assert!(own.is_alive());
        assert!(!Pid { started: own.started + 1, ..own.clone() }.is_alive());
        assert!(!Pid { boot: "another".to_owned(), ..own }.is_alive());
    }

    #[tokio::test]
    async fn without_a_process_table_a_process_lives_as_long_as_its_output_is_locked() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let output = File::options().create(true).append(true).open(&path).expect("opened");
        output.try_lock().expect("no other process has it");
        let mut command = tokio::process::Command::new("cat");
        command.stdin(std::process::Stdio::piped()).stdout(output).kill_on_drop(true);
        let mut child = command.spawn().expect("cat");
        drop(command);
        let id = child.id().expect("an id").try_into().expect("an id");
        let pid = Pid { id, started: 0, boot: String::new(), output: Some(path.clone()) };
        let kept: Pid = serde_json::from_str(&serde_json::to_string(&pid).expect("JSON")).expect("read again");
        assert!(kept == pid && kept.is_alive());
        let second = File::options().append(true).open(&path).expect("opened");
        assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
        kept.end(Duration::from_secs(60)).await;
        let ended_by = std::os::unix::process::ExitStatusExt::signal(&child.wait().await.expect("its status"));
        assert_eq!(ended_by, Some(Signal::SIGTERM as i32));
        assert!(!kept.is_alive());
        assert!(!Pid { output: Some(directory.path().join("none")), ..kept }.is_alive());
    }

    #[tokio::test]
    async fn a_process_that_ignores_sigterm_is_killed_when_its_grace_is_over() {
        use tokio::io::{AsyncBufReadExt as _, BufReader};

        for (script, signal) in [("echo; exec cat", Signal::SIGTERM), ("trap '' TERM; echo; exec cat", Signal::SIGKILL)]
        {
            let mut command = tokio::process::Command::new("sh");
            command.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.kill_on_drop(true).spawn().expect("sh");
            // Otherwise, waiting for the process closes its input, at which it ends.
            let _input = child.stdin.take();
            let ready = BufReader::new(child.stdout.take().expect("a pipe")).lines().next_line().await;
            ready.expect("readable").expect("a line");
            let pid = Pid::of(child.id().expect("an id").try_into().expect("an id")).expect("a process");
            let grace = if signal == Signal::SIGTERM { Duration::from_secs(60) } else { Duration::from_millis(100) };
            let (status, ()) = tokio::join!(child.wait(), pid.end(grace));
            let ended_by = std::os::unix::process::ExitStatusExt::signal(&status.expect("its status"));
            assert_eq!(ended_by, Some(signal as i32), "{script}");
        }
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed() {
        let mut child = tokio::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let pid = Pid::of(child.id().expect("an id").try_into().expect("an id")).expect("a process");
        drop(child.stdin.take());
        tokio::time::timeout(Duration::from_secs(60), pid.gone()).await.expect("it ends");
        child.wait().await.expect("its status");
    }
}
