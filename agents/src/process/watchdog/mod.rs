//! A small process that outlives a killed runner for just as long as it takes to kill what the runner has left behind.
//!
//! The runner starts it, and it moves to its own session. The runner writes to its standard input, a line for each change:
//! - `runner PID STARTED`: note the orphans that this process adopts;
//! - `watch MARK CGROUP`: a program is about to start; CGROUP is missing if it has none;
//! - `root MARK PID STARTED`: the program has started;
//! - `release MARK`: the program has ended with all its descendants.
//!
//! However the runner ends, the kernel closes the pipe. The watchdog then kills whatever is left of the programs that are
//! still watched, and exits.

mod watch;

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Write as _},
    process::Stdio,
};

use parking_lot::Mutex;
use tokio::process::{Child, Command};

pub use self::watch::watch;
use super::{
    cgroup::Cgroup,
    descendants::{Family, MARK_VARIABLE, own},
    process_table::Entry,
};

/// What `ps` shows, so that ending all processes named after teamwire does not end the watchdog as well.
const NAME: &str = "tw-watchdog";

/// The runner's side of its watchdog.
#[derive(Debug)]
pub(super) struct Watchdog {
    /// The runtime reaps it.
    child: Child,
    /// Never blocks: it refuses what the pipe does not take.
    input: Mutex<File>,
}

impl Watchdog {
    /// Starts a watchdog with a command that calls [`watch`]. Must be called within a Tokio runtime.
    pub(super) fn start(command: &[OsString], notes_orphans: bool) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        // It needs nothing of the environment, and no directory may be kept busy.
        command.args(arguments).arg0(NAME).env_clear().current_dir("/");
        // A runner around this one must recognize the watchdog.
        command.envs(env::var_os(MARK_VARIABLE).map(|mark| (MARK_VARIABLE, mark)));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or_else(|| io::Error::other("no pipe"))?.into_owned_fd()?;
        own().extend(pid(&child));
        let watchdog = Self { child, input: Mutex::new(File::from(input)) };
        let this = i32::try_from(std::process::id()).unwrap_or_default();
        if notes_orphans && let Some(entry) = Entry::of(this) {
            watchdog.write(&format!("runner {this} {}\n", entry.started));
        }
        Ok(watchdog)
    }

    pub(super) fn watch(&self, mark: &str, cgroup: Option<&Cgroup>) {
        let cgroup = cgroup.map_or_else(String::new, |cgroup| cgroup.directory().display().to_string());
        self.write(&format!("watch {mark} {cgroup}\n"));
    }

    pub(super) fn name_root(&self, family: &Family) {
        self.write(&format!("root {} {} {}\n", family.mark, family.root, family.started));
    }

    pub(super) fn release(&self, mark: &str) {
        self.write(&format!("release {mark}\n"));
    }

    fn write(&self, line: &str) {
        if let Err(error) = self.input.lock().write_all(line.as_bytes()) {
            tracing::warn!(%error, "the watchdog does not listen: processes may survive this runner if it is killed");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(pid) = pid(&self.child) {
            own().remove(&pid);
        }
    }
}

fn pid(child: &Child) -> Option<i32> {
    child.id().and_then(|pid| i32::try_from(pid).ok())
}
