//! Has the kernel kill a process when its runner dies.
//!
//! Architecture invariant: this is the only unsafe code in the product. The signal has to be set up in the new process,
//! between fork and exec, and running code there is unsafe. Everything else is built without `unsafe`; the workspace
//! denies it.

use tokio::process::Command;

/// Arranges for the process to be killed when the thread that starts it ends, for whatever reason.
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
        // If the runner died before the line above, the signal will never come.
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

/// Does nothing: only Linux has this signal.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent(_: &mut Command) {}
