//! A store that counts how many times a call goes to it.

use std::{cell::Cell, future::Future, sync::Arc};

use teamwire_server::store::{Store, StoreError, StoreLayer};

tokio::task_local! {
    /// The number of store calls made by the current call.
    static TRIPS: Cell<usize>;
}

/// A store that counts how many times a call goes to it.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Arc<dyn Store>);

fn count() {
    // Background work belongs to no call.
    let _ = TRIPS.try_with(|trips| trips.set(trips.get() + 1));
}

impl StoreLayer for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn around<T: Send>(
        &self,
        _: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        count();
        call.await
    }
}

/// Makes a call, and returns its result with the number of store calls it made.
pub(crate) async fn counted<T>(call: impl Future<Output = T>) -> (T, usize) {
    TRIPS.scope(Cell::new(0), async { (call.await, TRIPS.with(Cell::get)) }).await
}
