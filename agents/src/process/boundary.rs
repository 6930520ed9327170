//! What holds a runner's programs together, and ends them when the runner dies.

use std::{
    io,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    cgroup::Cgroup,
    descendants::Family,
    process_table,
    watchdog::{UNWATCHED, Watchdog},
};
use crate::config::{Containment, RunnerConfig};

/// What holds a runner's programs together, and ends them when the runner dies.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// Where each program gets a cgroup. `None` if it gets none.
    cgroups: Option<PathBuf>,
    /// Whether a program must not start outside a cgroup.
    requires_cgroup: bool,
    /// Kills what is left of the programs when this process dies. `None` if nothing does.
    watchdog: Option<Watchdog>,
    /// See [`RunnerConfig::claims_orphans`].
    pub(super) claims_orphans: bool,
    has_warned: AtomicBool,
}

impl Boundary {
    /// Prepares what the configuration asks for. Fails only if that is a cgroup and none can be created.
    ///
    /// Must be called within a Tokio runtime.
    pub(crate) fn prepare(config: &RunnerConfig) -> Result<Self, String> {
        let cgroups = match config.containment {
            Containment::Watchdog => None,
            Containment::Auto => Cgroup::parent().inspect_err(|why| tracing::debug!(why, "no cgroups")).ok(),
            Containment::Cgroup => Some(Cgroup::parent()?),
        };
        // The kernel kills everything in a container with its first process.
        let watchdog = config.watchdog.as_deref().filter(|_| !is_first_process()).and_then(|command| {
            let started = Watchdog::start(command, config.claims_orphans, config.on_event.clone());
            started.inspect_err(|error| tracing::warn!(%error, "the watchdog cannot be started")).ok()
        });
        let requires_cgroup = config.containment == Containment::Cgroup;
        let claims_orphans = config.claims_orphans;
        Ok(Self { cgroups, requires_cgroup, watchdog, claims_orphans, has_warned: AtomicBool::new(false) })
    }

    /// Returns what may survive the runner's violent death, in a sentence for a person. `None` means nothing.
    pub(crate) fn weakness(&self) -> Option<&'static str> {
        if !process_table::is_readable() {
            Some(
                "This system does not list its processes, so a process that leaves the program's process group survives it. \
                 Run the runner in a container to contain them.",
            )
        } else if self.watchdog.is_none() && !is_first_process() {
            Some(UNWATCHED)
        } else {
            None
        }
    }

    /// Makes room for a program with this mark, and has the watchdog watch it from before it starts.
    pub(super) fn enclose(&self, mark: &str) -> Option<Cgroup> {
        let cgroup = self.cgroups.as_deref().and_then(|parent| {
            let created = Cgroup::create(parent, mark);
            created.inspect_err(|error| tracing::warn!(%error, "cannot create a cgroup")).ok()
        });
        if let Some(watchdog) = &self.watchdog {
            watchdog.watch(mark, cgroup.as_ref());
        }
        cgroup
    }

    /// Completes the family of a program that was started, or says why it must not run.
    pub(super) fn admit(&self, family: &mut Family) -> io::Result<()> {
        if let Some(watchdog) = &self.watchdog {
            watchdog.name_root(family);
        }
        if family.cgroup.as_ref().is_some_and(|cgroup| !cgroup.holds(family.root))
            && let Some(cgroup) = family.cgroup.take()
        {
            cgroup.remove();
        }
        if family.cgroup.is_some() || self.cgroups.is_none() {
            return Ok(());
        }
        if self.requires_cgroup {
            return Err(io::Error::other("it cannot be put into a cgroup; use `--containment watchdog`"));
        }
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("programs cannot be put into a cgroup");
        }
        Ok(())
    }

    /// Forgets a program that has ended with all its descendants.
    pub(super) fn release(&self, family: &Family) {
        if let Some(cgroup) = &family.cgroup {
            cgroup.remove();
        }
        if let Some(watchdog) = &self.watchdog {
            watchdog.release(&family.mark);
        }
    }
}

fn is_first_process() -> bool {
    std::process::id() == 1
}
