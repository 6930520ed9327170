//! The table of processes on systems that have Linux's `/proc`.

use std::{fs, path::Path};

use super::ProcessEntry;

pub(super) fn entry(pid: i32) -> Option<ProcessEntry> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

pub(super) fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The kernel lists them separately for each thread of the parent.
pub(super) fn children(parent: i32) -> Option<Vec<i32>> {
    if !Path::new("/proc/thread-self/children").exists() {
        return None;
    }
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| list.split(' ').filter_map(|pid| pid.trim().parse().ok()).collect::<Vec<i32>>();
    Some(lists.flat_map(pids).collect())
}

pub(super) fn environment(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

pub(super) fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

/// Parses the line of `/proc/PID/stat`.
fn parse(stat: &str) -> Option<ProcessEntry> {
    let (pid, rest) = stat.split_once(' ')?;
    // The name is in parentheses and may itself contain parentheses and spaces.
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(ProcessEntry {
        pid: pid.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_anything() {
        let stat = "42 (a) b (c) Z 7 8 9 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0";
        let parsed = ProcessEntry { pid: 42, parent: 7, group: 8, started: 555, is_zombie: true };
        assert_eq!(parse(stat), Some(parsed));
        assert_eq!(parse(""), None);
        assert_eq!(parse("42 (a"), None);
    }
}
