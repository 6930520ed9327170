//! How a runner ends when it must not wait for its program.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long a runner in a hurry still takes to carry out its last calls: longer than it takes at most to kill its
/// program.
const LAST_CALLS: Duration = Duration::from_secs(6);

/// Whether the runner must end without a grace period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hurry {
    begun: CancellationToken,
    over: CancellationToken,
    /// Whether nothing is left but calls to a coordinator that does not answer.
    waits: Arc<AtomicBool>,
}

impl Hurry {
    /// Cuts every grace period short at once, and the last calls a few seconds later.
    pub(crate) async fn begin(&self) {
        self.begun.cancel();
        sleep(LAST_CALLS).await;
        self.over.cancel();
    }

    /// Notes that nothing is left but calls to a coordinator that does not answer, so that the next signal gives them
    /// up. Returns false if that was noted before.
    pub(crate) fn wait_for_coordinator(&self) -> bool {
        !self.waits.swap(true, Ordering::Relaxed)
    }

    /// Notes that the program is restarted.
    pub(crate) fn wait_no_longer(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// Gives the last calls up, if nothing else is left. `false` if something else is.
    pub(crate) fn give_up(&self) -> bool {
        let waits = self.waits.load(Ordering::Relaxed);
        if waits {
            self.begun.cancel();
            self.over.cancel();
        }
        waits
    }

    /// Returns what cuts a grace period short when it is cancelled.
    pub(crate) fn token(&self) -> CancellationToken {
        self.begun.clone()
    }

    /// Waits for one of the last calls. `None` if the runner is in a hurry, and its last calls took too long.
    pub(crate) async fn bound<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        self.over.run_until_cancelled(call).await
    }
}
