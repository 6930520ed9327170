//! Ends the runner on signals.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first SIGTERM, SIGINT or SIGHUP, and `hurry` at the second.
pub(super) async fn listen(stop: CancellationToken, hurry: CancellationToken) {
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let Ok([mut terminate, mut interrupt, mut hangup]) = listeners(kinds) else {
        return tracing::warn!("cannot listen to signals");
    };
    for token in [stop, hurry] {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        token.cancel();
    }
}

fn listeners(kinds: [SignalKind; 3]) -> std::io::Result<[Signal; 3]> {
    let [terminate, interrupt, hangup] = kinds.map(signal);
    Ok([terminate?, interrupt?, hangup?])
}
