//! Single flight: concurrent callers share one connection attempt and its outcome.

use std::{future::Future, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::store::StoreError;

/// Runs at most one attempt at a time.
///
/// Callers that arrive while an attempt is running share its outcome instead of queuing an attempt each. The attempt
/// runs in its own task, because a caller may go unpolled while it waits for another caller.
pub(super) struct SingleFlight<T> {
    in_flight: Arc<Mutex<Option<Flight<T>>>>,
}

/// A running attempt. It continues even if all its callers are dropped.
pub(super) type Flight<T> = Shared<BoxFuture<'static, Result<T, StoreError>>>;

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    pub(super) fn new() -> Self {
        Self { in_flight: Arc::default() }
    }

    /// Joins the running attempt. If there is none, returns the outcome from `done`, or starts an attempt with `make`
    /// if `done` has none. Requires a Tokio runtime.
    pub(super) fn join<F>(&self, done: impl FnOnce() -> Option<T>, make: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let mut in_flight = self.in_flight.lock();
        if let Some(attempt) = &*in_flight {
            return attempt.clone();
        }
        // An attempt may have succeeded since the caller looked.
        if let Some(outcome) = done() {
            return std::future::ready(Ok(outcome)).boxed().shared();
        }
        let (report, outcome) = oneshot::channel();
        let canceled = |_| Err(StoreError::Unavailable("the connection attempt was canceled".to_owned()));
        let flight = outcome.map(move |outcome| outcome.unwrap_or_else(canceled)).boxed().shared();
        *in_flight = Some(flight.clone());
        // A runtime that is shutting down drops the task at once, here, and `ended` locks.
        drop(in_flight);
        let ended = Ended(self.in_flight.clone());
        let made = make();
        tokio::spawn(async move {
            let outcome = made.await;
            drop(ended);
            // All callers may be gone.
            let _ = report.send(outcome);
        });
        flight
    }
}

/// Clears the running attempt when dropped, even by a panic.
struct Ended<T>(Arc<Mutex<Option<Flight<T>>>>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::mpsc, thread, time::Duration};

    use tokio::runtime::Builder;

    use super::*;

    /// Joins when dropped, as whatever a runtime drops last may do.
    struct JoinsWhenDropped(Arc<SingleFlight<()>>);

    impl Drop for JoinsWhenDropped {
        fn drop(&mut self) {
            drop(self.0.join(|| None, pending));
        }
    }

    /// The process hung at its end.
    #[test]
    fn an_attempt_started_while_the_runtime_shuts_down_ends() {
        let flights = Arc::new(SingleFlight::new());
        let joins = JoinsWhenDropped(flights.clone());
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async move {
            tokio::spawn(async move {
                let _joins = joins;
                pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            drop(runtime);
            done.send(flights.in_flight.lock().is_none())
        });
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true));
    }

    #[tokio::test]
    async fn callers_share_an_attempt_and_the_next_one_starts_another() {
        let flights = SingleFlight::new();
        let both = [0, 1].map(|outcome| flights.join(|| None, move || async move { Ok(outcome) }));
        assert_eq!(futures::future::join_all(both).await, [Ok(0), Ok(0)]);
        assert_eq!(flights.join(|| None, || async { Ok(2) }).await, Ok(2));
        assert_eq!(flights.join(|| Some(3), pending).await, Ok(3));
    }

    #[tokio::test]
    async fn an_attempt_that_panics_fails_and_does_not_block_the_next() {
        let flights = SingleFlight::<()>::new();
        let panics = || async { panic!("an attempt that panics") };
        assert!(matches!(flights.join(|| None, panics).await, Err(StoreError::Unavailable(_))));
        assert_eq!(flights.join(|| None, || async { Ok(()) }).await, Ok(()));
    }
}
