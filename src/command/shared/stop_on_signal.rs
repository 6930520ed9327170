//! Ends a command in order.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Returns a token that the first SIGTERM or SIGINT cancels. A second signal exits with 130, without waiting.
///
/// `doing`: what the log says about the first.
pub(in crate::command) fn stop_on_signal(doing: &'static str) -> Result<CancellationToken, Failure> {
    let mut signals = Signals::new()?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        signals.next().await;
        tracing::info!("{doing}; send a second signal to exit immediately");
        stop.cancel();
        signals.next().await;
        std::process::exit(130);
    });
    Ok(shutdown)
}

/// Returns a token that SIGTERM and SIGINT cancel. From now on, these signals have no other effect.
pub(in crate::command) fn cancel_on_signal() -> Result<CancellationToken, Failure> {
    let mut signals = Signals::new()?;
    let cancelled = CancellationToken::new();
    let cancel = cancelled.clone();
    tokio::spawn(async move {
        signals.next().await;
        cancel.cancel();
    });
    Ok(cancelled)
}

/// The signals that end a command.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals from now on.
    fn new() -> Result<Self, Failure> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
