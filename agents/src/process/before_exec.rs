//! Prepares a new process between fork and exec: puts it into its cgroup, and has the kernel kill it when its runner
//! dies, or gives it its own session so that it outlives the process that starts it.
//!
//! Architecture invariant: this is the only unsafe code in the product, except for one call in `src/static_names.rs`
//! and, on macOS, those that read the process table. These steps must run in the new process before the program does,
//! and running code there is unsafe. Everything else is built without `unsafe`; the workspace denies it.

use std::fs::File;

use tokio::process::Command;

/// Arranges for the process to join the cgroup whose `cgroup.procs` is given, and to be killed when the thread that
/// starts it ends, for whatever reason. If it cannot join the cgroup, it starts outside; check that.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn prepare(command: &mut Command, cgroup_procs: Option<File>) {
    use nix::{
        errno::Errno,
        sys::{prctl, signal::Signal},
        unistd,
    };

    let parent = unistd::getpid();
    let prepare = move || {
        if let Some(file) = &cgroup_procs {
            // Zero is the process that writes it.
            let _ = unistd::write(file, b"0");
        }
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // If the runner died before the line above, the signal will never come.
        if unistd::getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It makes three system calls, write, prctl and
    // getppid, which are async-signal-safe; it takes no lock, allocates nothing, and touches no memory but its own
    // copies of a number and of a file descriptor.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Does nothing: only Linux has cgroups and this signal. Elsewhere, the watchdog alone ends what a killed runner leaves.
#[cfg(not(target_os = "linux"))]
pub(super) fn prepare(_: &mut Command, _: Option<File>) {}

/// Arranges for the process to join the cgroup whose `cgroup.procs` is given, and to lead its own session: no signal of
/// a terminal reaches it. If it cannot join the cgroup, it does not start.
#[allow(unsafe_code)]
pub fn start_in_new_session(command: &mut Command, cgroup_procs: Option<File>) {
    use nix::unistd;

    let prepare = move || {
        if let Some(file) = &cgroup_procs {
            // Zero is the process that writes it.
            unistd::write(file, b"0")?;
        }
        unistd::setsid()?;
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It makes two system calls, write and setsid, which
    // are async-signal-safe; it takes no lock, allocates nothing, and touches no memory but its own copy of a file
    // descriptor.
    unsafe {
        command.pre_exec(prepare);
    }
}
