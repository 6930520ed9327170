//! Limits on what a member uses: a version 2 cgroup around its runner and everything that the runner starts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{host::profile::Limits, process::Cgroup};

/// The controllers that enforce the limits.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// The period in which a member may use its share of the processors, in microseconds.
const PERIOD: f64 = 100_000.0;

/// The parent of the members' cgroups.
#[derive(Clone, Debug)]
pub(super) struct Cgroups {
    parent: PathBuf,
}

impl Cgroups {
    /// Prepares this process's cgroup to contain limited ones, or says why it cannot.
    ///
    /// Moves this process into a cgroup below if it must, because a cgroup with processes cannot limit those in it.
    pub(super) fn prepare() -> Result<Self, String> {
        let parent = Cgroup::parent()?;
        let shown = parent.display();
        let offered = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
        let missing: Vec<&str> =
            CONTROLLERS.into_iter().filter(|wanted| !offered.split_whitespace().any(|it| it == *wanted)).collect();
        if !missing.is_empty() {
            return Err(format!("{shown} does not have the controllers {}", missing.join(", ")));
        }
        if enable(&parent).is_ok() {
            return Ok(Self { parent });
        }
        let own = Cgroup::create(&parent, "host").or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(Cgroup::at(parent.join("teamwire-host"))),
            _ => Err(format!("{shown} cannot be written: {error}")),
        })?;
        let move_to = |directory: &Path| fs::write(directory.join("cgroup.procs"), "0");
        let enabled = move_to(own.directory()).and_then(|()| enable(&parent));
        enabled.map_err(|error| {
            let _ = move_to(&parent);
            format!("{shown} cannot limit what is in it: {error}; start the host in a unit that systemd delegates")
        })?;
        Ok(Self { parent })
    }

    /// Creates the cgroup of a member.
    pub(super) fn create(&self, request_id: &str, limits: &Limits) -> io::Result<Cgroup> {
        let cgroup = Cgroup::create(&self.parent, &format!("order-{request_id}"))?;
        for (file, value) in settings(limits) {
            if let Err(error) = fs::write(cgroup.directory().join(file), value) {
                cgroup.remove();
                return Err(error);
            }
        }
        Ok(cgroup)
    }
}

fn enable(parent: &Path) -> io::Result<()> {
    let all: Vec<String> = CONTROLLERS.iter().map(|controller| format!("+{controller}")).collect();
    fs::write(parent.join("cgroup.subtree_control"), all.join(" "))
}

/// Returns the values to write to the files of a cgroup.
fn settings(limits: &Limits) -> Vec<(&'static str, String)> {
    let memory = limits.memory.map(|memory| ("memory.max", memory.as_u64().to_string()));
    let cpus = limits.cpus.map(|cpus| ("cpu.max", format!("{:.0} {PERIOD:.0}", cpus * PERIOD)));
    let tasks = limits.tasks.map(|tasks| ("pids.max", tasks.to_string()));
    [memory, cpus, tasks].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use bytesize::ByteSize;

    use super::*;

    #[test]
    fn limits_are_written_in_the_units_of_the_kernel() {
        let limits = Limits { memory: Some(ByteSize::gib(4)), cpus: Some(1.5), tasks: Some(512) };
        let directory = tempfile::tempdir().expect("a directory");
        let cgroups = Cgroups { parent: directory.path().to_owned() };
        let made = cgroups.create("7", &limits).expect("created");
        let read = |file: &str| fs::read_to_string(made.directory().join(file)).unwrap_or_default();
        assert_eq!(read("memory.max"), "4294967296");
        assert_eq!(read("cpu.max"), "150000 100000");
        assert_eq!(read("pids.max"), "512");
        assert!(settings(&Limits::default()).is_empty());
    }
}
