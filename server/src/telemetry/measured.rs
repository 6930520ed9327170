//! A store that times what is asked of it, and is otherwise the store that it wraps.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::Metrics;
use crate::store::{
    Entry, Extent, Key, Leases, Loss, Namespace, Notification, Outcome, Range, Record, Store, StoreError, Txn,
};

/// What a store is asked for.
pub(super) const OPERATIONS: [&str; 7] = ["read", "scan", "range", "extents", "leases", "now", "commit"];

/// A store with its times and errors counted.
#[derive(Debug)]
pub struct Measured {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Measured {
    /// Wraps a store.
    pub fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }

    fn note<T>(&self, operation: &'static str, began: Instant, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let took = began.elapsed().as_secs_f64();
        self.metrics.store_seconds.get_or_create(&[("operation", operation)]).observe(took);
        if let Err(error) = &answer {
            let kind = match error {
                StoreError::Unavailable(_) => "unavailable",
                StoreError::Refusing(_) => "refusing",
                StoreError::DurabilityNotReached(_) => "durability_not_reached",
                StoreError::Corrupt(_) => "corrupt",
            };
            self.metrics.store_errors.get_or_create(&[("operation", operation), ("kind", kind)]).inc();
        }
        answer
    }
}

#[async_trait]
impl Store for Measured {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let began = Instant::now();
        self.note("read", began, self.store.read(namespace, keys).await)
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let began = Instant::now();
        self.note("scan", began, self.store.scan(namespace, kind, after, limit).await)
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        let began = Instant::now();
        self.note("range", began, self.store.range(namespace, stream, range).await)
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        let began = Instant::now();
        self.note("extents", began, self.store.extents(namespace, streams).await)
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let began = Instant::now();
        self.note("leases", began, self.store.leases(namespace).await)
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        let began = Instant::now();
        self.note("now", began, self.store.now_ms().await)
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let began = Instant::now();
        self.note("commit", began, self.store.commit(namespace, txn).await)
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.store.notifications()
    }

    fn losses(&self) -> broadcast::Receiver<Loss> {
        self.store.losses()
    }
}
