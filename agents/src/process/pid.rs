//! One process, told from a later one with the same id.

use std::{fs, time::Duration};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::ProcessEntry;

/// How often a process is looked for that is not a child of this one.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One process. A process that gets the same id later is another one: it started later, or after the machine did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pid {
    pub(crate) id: i32,
    /// When it was started, in clock ticks since boot.
    started: u64,
    /// The machine's boot.
    boot: String,
}

impl Pid {
    /// Returns the process that has this id now. `None` if there is none, or it has ended.
    pub fn of(id: i32) -> Option<Self> {
        let entry = ProcessEntry::of(id)?;
        Some(Self { id, started: entry.started, boot: boot() })
    }

    /// Returns whether it is still running.
    pub fn is_alive(&self) -> bool {
        self.entry().is_some()
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(entry) = self.entry() {
            entry.signal(signal);
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

/// Returns what names the machine's boot. Empty if the system does not say.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
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
