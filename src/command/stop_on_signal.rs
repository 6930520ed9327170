//! Ends a command in order.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Returns a token that the first SIGTERM or SIGINT cancels. A second signal exits with 130, without waiting.
///
/// `doing`: what the log says about the first.
pub fn stop_on_signal(doing: &'static str) -> Result<CancellationToken, Failure> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("{doing}; send a second signal to exit immediately");
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
    Ok(shutdown)
}

/// Returns a token that SIGTERM and SIGINT cancel. From now on, these signals have no other effect.
pub fn cancel_on_signal() -> Result<CancellationToken, Failure> {
    let cancelled = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let cancel = cancelled.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancel.cancel();
    });
    Ok(cancelled)
}
