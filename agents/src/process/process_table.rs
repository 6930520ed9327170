//! Reads the kernel's table of processes, `/proc`. On systems without one, it finds nothing.

use std::{fs, path::Path};

use nix::sys::signal::Signal;

/// A process, as listed in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// When it was started, in clock ticks since boot.
    pub(crate) started: u64,
    /// It has ended and has not been waited for.
    pub(crate) is_zombie: bool,
}

impl ProcessEntry {
    /// Parses the line of `/proc/PID/stat`.
    fn parse(stat: &str) -> Option<Self> {
        let (pid, rest) = stat.split_once(' ')?;
        // The name is in parentheses and may itself contain parentheses and spaces.
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Self {
            pid: pid.parse().ok()?,
            is_zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// Looks up a process.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Sends it a signal, unless it has ended. Another process that has its id by now gets none.
    #[cfg(target_os = "linux")]
    pub(crate) fn signal(&self, signal: Signal) {
        use rustix::process::{Pid, PidfdFlags, Signal as RawSignal, pidfd_open, pidfd_send_signal};

        let (Some(pid), Some(raw)) = (Pid::from_raw(self.pid), RawSignal::from_named_raw(signal as i32)) else {
            return;
        };
        // The descriptor refers to one process, whatever becomes of the id. Which one, the start time says.
        let opened = pidfd_open(pid, PidfdFlags::empty());
        if Self::of(self.pid).is_none_or(|entry| entry.started != self.started) {
            return;
        }
        // Either call fails if the process has just ended.
        let _ = match opened {
            Ok(process) => pidfd_send_signal(process, raw),
            // The kernel is older than Linux 5.3, or a sandbox forbids the call.
            Err(_) => rustix::process::kill_process(pid, raw),
        };
    }

    /// Does nothing: no process is found here.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn signal(&self, _: Signal) {}
}

/// Returns all processes.
pub(super) fn all() -> Vec<ProcessEntry> {
    let Ok(directory) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = directory.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(ProcessEntry::of).collect()
}

/// Finds the children of processes.
pub(super) struct Children {
    /// All processes. `None` if the kernel lists the children of each, which is cheaper to read.
    all: Option<Vec<ProcessEntry>>,
}

impl Children {
    /// Reads what is needed to find children now.
    pub(super) fn read() -> Self {
        let is_listed = Path::new("/proc/thread-self/children").exists();
        Self { all: (!is_listed).then(all) }
    }

    /// Returns the children of a process. The kernel may leave some out while others of them end.
    pub(super) fn of(&self, parent: i32) -> Vec<ProcessEntry> {
        let children: Vec<ProcessEntry> = match &self.all {
            Some(all) => all.clone(),
            None => listed(parent).into_iter().filter_map(ProcessEntry::of).collect(),
        };
        children.into_iter().filter(|child| child.parent == parent).collect()
    }
}

/// Returns the process ids that the kernel lists as the children of a process: separately for each thread.
fn listed(parent: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<i32>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_anything() {
        let stat = "42 (a) b (c) Z 7 8 9 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0";
        let parsed = ProcessEntry { pid: 42, parent: 7, group: 8, started: 555, is_zombie: true };
        assert_eq!(ProcessEntry::parse(stat), Some(parsed));
        assert_eq!(ProcessEntry::parse(""), None);
        assert_eq!(ProcessEntry::parse("42 (a"), None);
    }
}
