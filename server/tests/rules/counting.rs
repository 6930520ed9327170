//! A store that counts how often a call goes to it.

use std::{cell::Cell, future::Future, sync::Arc};

use async_trait::async_trait;
use teamwire_server::store::{Entry, Extent, Hint, Key, Leases, Outcome, Range, Record, Space, Store, StoreError, Txn};
use tokio::sync::broadcast;

tokio::task_local! {
    /// How often the call that runs has gone to the store.
    static TRIPS: Cell<usize>;
}

/// A store that counts how often a call goes to it.
#[derive(Debug)]
pub(crate) struct Counting(pub(crate) Arc<dyn Store>);

fn count() {
    // What runs by itself is nobody's call.
    let _ = TRIPS.try_with(|trips| trips.set(trips.get() + 1));
}

#[async_trait]
impl Store for Counting {
    async fn read(&self, space: &Space, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        count();
        self.0.read(space, keys).await
    }

    async fn scan(
        &self,
        space: &Space,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        count();
        self.0.scan(space, kind, after, limit).await
    }

    async fn range(&self, space: &Space, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        count();
        self.0.range(space, stream, range).await
    }

    async fn extents(&self, space: &Space, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        count();
        self.0.extents(space, streams).await
    }

    async fn leases(&self, space: &Space) -> Result<Leases, StoreError> {
        count();
        self.0.leases(space).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        count();
        self.0.now_ms().await
    }

    async fn commit(&self, space: &Space, txn: &Txn) -> Result<Outcome, StoreError> {
        count();
        self.0.commit(space, txn).await
    }

    fn hints(&self) -> broadcast::Receiver<Hint> {
        self.0.hints()
    }
}

/// Makes a call, and counts how often it went to the store.
pub(crate) async fn counted<T>(call: impl Future<Output = T>) -> (T, usize) {
    TRIPS.scope(Cell::new(0), async { (call.await, TRIPS.with(Cell::get)) }).await
}
