//! A cgroup (version 2 of Linux's control groups) for each program, which no descendant of the program can leave by
//! detaching.
//!
//! A runner can create one if it may write to its own cgroup: as root, in a unit that systemd delegates (such as a
//! user's applications), or in a container with a writable hierarchy.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};
use uuid::Uuid;

/// A cgroup that holds one program and its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    directory: PathBuf,
}

impl Cgroup {
    /// Returns the directory in which this process may create cgroups, or why there is none.
    pub(crate) fn parent() -> Result<PathBuf, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
        let own = own_directory(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
            .ok_or("no hierarchy of version 2 is mounted here")?;
        let refused =
            |what: &str, error: &dyn std::fmt::Display| format!("{} cannot be {what}: {error}", own.display());
        access(&own.join("cgroup.procs"), AccessFlags::W_OK).map_err(|error| refused("written", &error))?;
        let probe = Self::create(&own, &format!("probe-{}", Uuid::new_v4().simple()))
            .map_err(|error| refused("written", &error))?;
        let kind = fs::read_to_string(probe.directory.join("cgroup.type")).unwrap_or_default();
        let has_kill = probe.directory.join("cgroup.kill").exists();
        probe.remove();
        if kind.trim() != "domain" || !has_kill {
            return Err(refused("used", &"the kernel is older than Linux 5.14, or the cgroup holds threads"));
        }
        Ok(own)
    }

    /// Creates a cgroup within `parent`.
    pub(crate) fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let directory = parent.join(format!("teamwire-{name}"));
        fs::create_dir(&directory)?;
        Ok(Self { directory })
    }

    /// Returns the cgroup of this directory.
    pub(crate) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens the file through which a process joins.
    pub(crate) fn procs(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.directory.join("cgroup.procs"))
    }

    /// Returns whether a process is in this cgroup itself.
    pub(crate) fn holds(&self, pid: i32) -> bool {
        let Some(name) = self.directory.file_name().and_then(|name| name.to_str()) else { return false };
        fs::read_to_string(format!("/proc/{pid}/cgroup"))
            .is_ok_and(|lines| lines.lines().any(|line| line.starts_with("0::") && line.ends_with(name)))
    }

    /// Returns the processes in this cgroup and in those that they have created within. Zombies are not among them.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let directories = self.directories();
        let lists = directories.iter().filter_map(|directory| fs::read_to_string(directory.join("cgroup.procs")).ok());
        lists.flat_map(|list| list.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
    }

    /// Kills all its processes at once, so that none can fork in between.
    pub(crate) fn kill(&self) {
        if let Err(error) = fs::write(self.directory.join("cgroup.kill"), "1") {
            tracing::debug!(%error, "cannot kill a cgroup");
        }
    }

    /// Removes it, which fails while a process is in it.
    pub(crate) fn remove(&self) {
        for directory in self.directories().iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }

    /// Returns its directory and all below, parents first.
    fn directories(&self) -> Vec<PathBuf> {
        let mut found = vec![self.directory.clone()];
        let mut reached = 0;
        while let Some(directory) = found.get(reached) {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let children = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let children: Vec<PathBuf> = children.map(|entry| entry.path()).collect();
            found.extend(children);
            reached += 1;
        }
        found
    }
}

/// Finds the directory of this process's cgroup. Takes the texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn own_directory(cgroups: &str, mounts: &str) -> Option<PathBuf> {
    let path = Path::new(cgroups.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let relative = path.strip_prefix(root).ok()?;
        kind.starts_with("cgroup2 ").then(|| Path::new(mount).join(relative))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_this_process_is_found_below_its_mount() {
        let found = |cgroups: &str, mounts: &str| own_directory(cgroups, mounts).map(|path| path.display().to_string());
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = Some("/sys/fs/cgroup/user.slice/a.scope".to_owned());
        assert_eq!(found("0::/user.slice/a.scope\n", unified), own);
        let hybrid = "41 31 0:38 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      42 31 0:39 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found("4:memory:/a\n0::/\n", hybrid), Some("/sys/fs/cgroup/unified/".to_owned()));
        let bound = "30 23 0:26 /docker/a /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(found("0::/docker/a/b\n", bound), Some("/sys/fs/cgroup/b".to_owned()));
        assert_eq!(found("0::/elsewhere\n", bound), None);
        assert_eq!(found("4:memory:/a\n", unified), None, "only version 1");
    }
}
