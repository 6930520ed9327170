//! Has a process killed by the kernel when its runner dies.
//!
//! The one place of the workspace with unsafe code: what is to hold for the new process must be said between fork and
//! exec.

use tokio::process::Command;

/// Arranges for the process to be killed when the thread that starts it ends, however that comes.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn die_with_parent(command: &mut Command) {
    use nix::{
        errno::Errno,
        sys::{prctl, signal::Signal},
        unistd,
    };

    let parent = unistd::getpid();
    let prepare = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The runner may have died before the line above; then nobody would send the signal any more.
        if unistd::getppid() != parent {
            return Err(Errno::ESRCH.into());
        }
        Ok(())
    };
    // SAFETY: the closure runs in the child between fork and exec. It makes two system calls, prctl and getppid, which
    // are async-signal-safe; it takes no lock, allocates nothing, and touches no memory but its own copy of a number.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Does nothing: only Linux has such a signal.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent(_: &mut Command) {}
