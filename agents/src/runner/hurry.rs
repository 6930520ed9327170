//! How a runner ends that must not wait for its program.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long a runner in a hurry still takes to carry out its last calls: longer than it takes at most to kill its program.
const LAST_CALLS: Duration = Duration::from_secs(6);

/// Whether the runner must end without a grace period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hurry {
    begun: CancellationToken,
    over: CancellationToken,
}

impl Hurry {
    /// Cuts every grace period short at once, and the last calls a few seconds later.
    pub(super) async fn begin(&self) {
        self.begun.cancel();
        sleep(LAST_CALLS).await;
        self.over.cancel();
    }

    /// Returns what cuts a grace period short when it is cancelled.
    pub(crate) fn token(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// Waits for one of the last calls. None: the runner is in a hurry, and its last calls took too long.
    pub(crate) async fn bound<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        self.over.run_until_cancelled(call).await
    }
}
