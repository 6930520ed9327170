//! A host that is the first process of a container.
//!
//! The system gives the first process every process whose parent has ended. A host cannot tell such a process from one
//! that it waits for itself, so it runs in a child, and the first process reaps all.

use std::{
    env,
    io::{self, IsTerminal as _},
    process::{self, Command},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::signal::unix::{SignalKind, signal};

/// Returns whether this is the first process.
pub(super) fn is_this() -> bool {
    process::id() == 1
}

/// Runs this command in a child, passes signals on to it, and reaps every process that ends. Returns the child's exit
/// code.
pub(super) async fn run() -> io::Result<u8> {
    let mut ended = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let child = Command::new(env::current_exe()?).args(env::args_os().skip(1)).spawn()?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(code) = reap(child) {
            return Ok(code);
        }
        let passed_on = tokio::select! {
            _ = ended.recv() => continue,
            _ = terminate.recv() => Signal::SIGTERM,
            // A terminal sends it to both.
            _ = interrupt.recv() => if io::stdin().is_terminal() { continue } else { Signal::SIGINT },
        };
        // If it has just ended, it is reaped next.
        let _ = kill(child, passed_on);
    }
}

/// Reaps every process that has ended. Returns the child's exit code if it is among them, as a shell reports it.
fn reap(child: Pid) -> Option<u8> {
    loop {
        let (ended, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(ended, code)) => (ended, code),
            Ok(WaitStatus::Signaled(ended, signal, _)) => (ended, 128 + signal as i32),
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => continue,
        };
        if ended == child {
            return Some(u8::try_from(code).unwrap_or(u8::MAX));
        }
    }
}
