//! A store that counts how often a call goes to it.

use std::{cell::Cell, future::Future, sync::Arc};

use async_trait::async_trait;
use teamwire_server::store::{
    Entry, Extent, Key, Leases, Namespace, Notification, Outcome, Range, Record, Store, StoreError, Txn,
};
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
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        count();
        self.0.read(namespace, keys).await
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        count();
        self.0.scan(namespace, kind, after, limit).await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        count();
        self.0.range(namespace, stream, range).await
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        count();
        self.0.extents(namespace, streams).await
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        count();
        self.0.leases(namespace).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        count();
        self.0.now_ms().await
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        count();
        self.0.commit(namespace, txn).await
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.0.notifications()
    }
}

/// Makes a call, and counts how often it went to the store.
pub(crate) async fn counted<T>(call: impl Future<Output = T>) -> (T, usize) {
    TRIPS.scope(Cell::new(0), async { (call.await, TRIPS.with(Cell::get)) }).await
}
