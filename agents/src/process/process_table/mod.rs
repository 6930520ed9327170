//! Reads the kernel's table of processes: `/proc` on Linux, `libproc` on macOS. On a system without either, or in a
//! sandbox that hides it, this finds nothing.
//!
//! The modules of the systems have the same functions:
//! - `entry` looks up a process;
//! - `pids` returns the ids of all processes;
//! - `children` returns the ids of the children of a process, or `None` if the kernel does not list them;
//! - `environment` returns the environment of a process: its variables, each with a NUL byte at its end;
//! - `boot` returns what names the machine's boot.

#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(target_os = "macos"))]
mod procfs;

use std::process;

use nix::sys::signal::Signal;

#[cfg(target_os = "macos")]
use self::macos as system;
#[cfg(not(target_os = "macos"))]
use self::procfs as system;

/// A process, as the kernel lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// When it was started: on Linux in clock ticks since boot, on macOS in microseconds since 1970.
    pub(crate) started: u64,
    /// It has ended and has not been waited for.
    pub(crate) is_zombie: bool,
}

impl ProcessEntry {
    /// Looks up a process.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        system::entry(pid)
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
        if !self.still_has_its_id() {
            return;
        }
        // Either call fails if the process has just ended.
        let _ = match opened {
            Ok(process) => pidfd_send_signal(process, raw),
            // The kernel is older than Linux 5.3, or a sandbox forbids the call.
            Err(_) => rustix::process::kill_process(pid, raw),
        };
    }

    /// Sends it a signal, unless it has ended. Another process gets the signal only if it takes over the id between
    /// the look at the table and the signal: this system has no handle for a process.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn signal(&self, signal: Signal) {
        if self.still_has_its_id() {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), signal);
        }
    }

    fn still_has_its_id(&self) -> bool {
        Self::of(self.pid).is_some_and(|entry| entry.started == self.started)
    }
}

/// Returns whether this process can read the table.
pub(super) fn is_readable() -> bool {
    i32::try_from(process::id()).is_ok_and(|this| ProcessEntry::of(this).is_some())
}

/// Returns all processes.
pub(super) fn all() -> Vec<ProcessEntry> {
    system::pids().into_iter().filter_map(ProcessEntry::of).collect()
}

/// Returns whether a process has an environment variable with this value. False for a process of another user.
pub(super) fn has_variable(pid: i32, name: &str, value: &str) -> bool {
    let variable = format!("{name}={value}");
    system::environment(pid)
        .is_some_and(|environment| environment.split(|byte| *byte == 0).any(|each| each == variable.as_bytes()))
}

/// Returns what names the machine's boot. Empty if the system does not say.
pub(super) fn boot() -> String {
    system::boot().unwrap_or_default()
}

/// Finds the children of processes.
pub(super) struct Children {
    /// All processes. `None` if the kernel lists the children of each, which is cheaper to read.
    all: Option<Vec<ProcessEntry>>,
}

impl Children {
    /// Reads what is needed to find children now.
    pub(super) fn read() -> Self {
        let this = i32::try_from(process::id()).unwrap_or_default();
        Self { all: system::children(this).is_none().then(all) }
    }

    /// Returns the children of a process. The kernel may leave some out while others of them end.
    pub(super) fn of(&self, parent: i32) -> Vec<ProcessEntry> {
        let children: Vec<ProcessEntry> = match &self.all {
            Some(all) => all.clone(),
            None => system::children(parent).unwrap_or_default().into_iter().filter_map(ProcessEntry::of).collect(),
        };
        children.into_iter().filter(|child| child.parent == parent).collect()
    }
}

/// Returns the part of what macOS keeps about a process's start that is its environment: after the number of its
/// arguments, the path of its program, padding, and the arguments.
#[cfg(any(test, target_os = "macos"))]
fn environment_in(started_with: &[u8]) -> Option<&[u8]> {
    let (count, rest) = started_with.split_first_chunk()?;
    let arguments = usize::try_from(i32::from_ne_bytes(*count)).ok()?;
    let path = rest.iter().position(|byte| *byte == 0)?;
    let padding = rest[path..].iter().position(|byte| *byte != 0)?;
    let mut rest = &rest[path + padding..];
    for _ in 0..arguments {
        rest = &rest[rest.iter().position(|byte| *byte == 0)? + 1..];
    }
    // What follows the empty string is the system's.
    let end = if rest.first() == Some(&0) {
        0
    } else {
        rest.windows(2).position(|pair| pair == [0, 0]).map_or(rest.len(), |at| at + 1)
    };
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_its_parent_and_its_environment_are_found() {
        let this = i32::try_from(process::id()).expect("an id");
        let entry = ProcessEntry::of(this).expect("this process");
        assert_eq!((entry.pid, entry.parent, entry.is_zombie), (this, nix::unistd::getppid().as_raw(), false));
        assert_eq!(entry.group, nix::unistd::getpgrp().as_raw());
        assert!(all().contains(&entry) && is_readable());
        assert!(ProcessEntry::of(entry.parent).is_some_and(|parent| parent.started <= entry.started));
        assert!(Children::read().of(entry.parent).contains(&entry));
        assert!(has_variable(this, "PATH", &std::env::var("PATH").expect("it is set")));
        assert!(!has_variable(this, "PATH", "nowhere"));
        assert!(!boot().is_empty());
        assert_eq!(boot(), boot());
    }

    #[test]
    fn a_child_that_has_ended_is_a_zombie_until_it_is_waited_for() {
        let mut child = process::Command::new("true").spawn().expect("it starts");
        let pid = i32::try_from(child.id()).expect("an id");
        let began = std::time::Instant::now();
        while !ProcessEntry::of(pid).expect("it is not waited for").is_zombie {
            assert!(began.elapsed().as_secs() < 30, "it ends");
        }
        child.wait().expect("it ended");
        assert_eq!(ProcessEntry::of(pid), None);
    }

    #[test]
    fn an_environment_on_macos_follows_the_arguments() {
        let started_with = |text: &str| [&2_i32.to_ne_bytes()[..], text.as_bytes()].concat();
        let usual = started_with("/bin/a\0\0\0a\0B=1\0C=2\0D=3\0\0executable_path=/bin/a\0");
        assert_eq!(environment_in(&usual), Some(&b"C=2\0D=3\0"[..]));
        let hidden = started_with("/bin/a\0\0a\0b\0\0ptr_munge=\0");
        assert_eq!(environment_in(&hidden), Some(&b""[..]));
        for cut in ["", "/bin/a", "/bin/a\0\0", "/bin/a\0a\0b"] {
            assert_eq!(environment_in(&started_with(cut)), None, "{cut:?}");
        }
        assert_eq!(environment_in(b"\0\0"), None);
    }
}
