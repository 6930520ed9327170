//! Single flight: concurrent callers share one connection attempt and its outcome.

use std::{future::Future, sync::Arc};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;

use crate::store::StoreError;

/// Runs at most one attempt at a time.
///
/// Callers that arrive while an attempt is running share its outcome instead of queuing an attempt each. The attempt runs in its
/// own task, because a caller may go unpolled while it waits for another caller.
pub(super) struct SingleFlight<T> {
    in_flight: Arc<Mutex<Option<Flight<T>>>>,
}

/// A running attempt. It continues even if all its callers are dropped.
pub(super) type Flight<T> = Shared<BoxFuture<'static, Result<T, StoreError>>>;

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    pub(super) fn new() -> Self {
        Self { in_flight: Arc::default() }
    }

    /// Joins the running attempt. If there is none, returns the outcome from `done`, or starts an attempt with `make` if `done`
    /// has none. Requires a Tokio runtime.
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
        let ended = Ended(self.in_flight.clone());
        let made = make();
        let task = tokio::spawn(async move {
            let outcome = made.await;
            drop(ended);
            outcome
        });
        let canceled = |_| Err(StoreError::Unavailable("the connection attempt was canceled".to_owned()));
        in_flight.insert(task.map(move |ended| ended.unwrap_or_else(canceled)).boxed().shared()).clone()
    }
}

/// Clears the running attempt when dropped, even by a panic.
struct Ended<T>(Arc<Mutex<Option<Flight<T>>>>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
