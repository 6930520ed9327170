//! Signals to the runner's process: some shut the runner down cleanly; the other common ones are caught, so that it can
//! report.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::hurry::Hurry;

/// Signals that end the runner.
fn ending() -> [SignalKind; 4] {
    [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()]
}

/// Signals that mean nothing to a runner but by default kill a process: SIGUSR1, SIGUSR2, SIGALRM, SIGIO, and, with the
/// numbers that all supported systems share, SIGVTALRM and SIGPROF.
fn ignored() -> [SignalKind; 6] {
    [
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
        SignalKind::io(),
        SignalKind::from_raw(nix::sys::signal::Signal::SIGVTALRM as i32),
        SignalKind::from_raw(nix::sys::signal::Signal::SIGPROF as i32),
    ]
}

/// Catches the signals from now on. The returned future cancels `stop` at the first that ends the runner, and begins to
/// hurry at the second. A runner that only waits for its coordinator gives up at once.
///
/// Must be called within a Tokio runtime. Signals are caught rather than ignored because a program inherits what its
/// parent ignores.
pub(super) fn listen(stop: CancellationToken, hurry: Hurry) -> impl Future<Output = ()> {
    let listeners = catch();
    async move {
        let [mut terminate, mut interrupt, mut hangup, mut quit] = match listeners {
            Ok(listeners) => listeners,
            Err(error) => return tracing::warn!(%error, "cannot listen to signals"),
        };
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
                _ = quit.recv() => {}
            }
        };
        next().await;
        stop.cancel();
        if hurry.give_up() {
            return;
        }
        next().await;
        if !hurry.give_up() {
            hurry.begin().await;
        }
    }
}

fn catch() -> io::Result<[Signal; 4]> {
    for kind in ignored() {
        // Tokio's handler stays after its listener is dropped.
        drop(signal(kind)?);
    }
    let [terminate, interrupt, hangup, quit] = ending().map(signal);
    Ok([terminate?, interrupt?, hangup?, quit?])
}
