//! An attempt that all who need its outcome share.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};

use crate::store::StoreError;

/// At most one attempt at a time.
///
/// Whoever asks while one is under way shares its outcome, or a crowd would wait for an attempt each. It has a task of
/// its own: a caller that made it itself might not be polled for as long as it waits for another caller.
pub(super) struct SingleFlight<T> {
    in_flight: Arc<Mutex<Option<Flight<T>>>>,
}

/// An attempt, which goes on whether or not anybody waits for it.
pub(super) type Flight<T> = Shared<BoxFuture<'static, Result<T, StoreError>>>;

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    pub(super) fn new() -> Self {
        Self { in_flight: Arc::default() }
    }

    /// Returns the attempt that is under way. Starts one with `make`, where there is none and `done` does not know the
    /// outcome by now. Must be called within a Tokio runtime.
    pub(super) fn join<F>(&self, done: impl FnOnce() -> Option<T>, make: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(attempt) = &*in_flight {
            return attempt.clone();
        }
        // The last one may have succeeded in between.
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
        let cut_off = |_| Err(StoreError::Unavailable("the attempt to connect was cut off".to_owned()));
        in_flight.insert(task.map(move |ended| ended.unwrap_or_else(cut_off)).boxed().shared()).clone()
    }
}

/// Makes room for the next attempt when it is dropped, be it by a panic.
struct Ended<T>(Arc<Mutex<Option<Flight<T>>>>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
