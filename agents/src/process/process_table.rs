//! Reads the kernel's table of processes, `/proc`. On systems without one, it finds nothing.

use std::fs;

/// A process, as listed in `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// When it was started, in clock ticks since boot.
    pub(super) started: u64,
    /// It has ended and has not been waited for.
    pub(super) is_zombie: bool,
}

impl Entry {
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
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// Returns all processes.
pub(super) fn all() -> Vec<Entry> {
    let Ok(directory) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = directory.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Entry::of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_anything() {
        let stat = "42 (a) b (c) Z 7 8 9 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0";
        let parsed = Entry { pid: 42, parent: 7, group: 8, started: 555, is_zombie: true };
        assert_eq!(Entry::parse(stat), Some(parsed));
        assert_eq!(Entry::parse(""), None);
        assert_eq!(Entry::parse("42 (a"), None);
    }
}
