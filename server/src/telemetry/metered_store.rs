//! A store that times the operations of the store that it wraps.

use std::{sync::Arc, time::Instant};

use super::metrics::Metrics;
use crate::store::{Store, StoreError, StoreLayer};

/// A store whose times and errors are counted.
#[derive(Debug)]
pub struct MeteredStore {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl MeteredStore {
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
                StoreError::Misconfigured(_) => "misconfigured",
                StoreError::Refusing(_) => "refusing",
                StoreError::Full(_) => "full",
                StoreError::DurabilityNotReached(_) => "durability_not_reached",
                StoreError::Unusable(_) => "unusable",
                StoreError::Corrupt(_) => "corrupt",
            };
            self.metrics.store_errors.get_or_create(&[("operation", operation), ("kind", kind)]).inc();
        }
        answer
    }
}

impl StoreLayer for MeteredStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        self.note(operation, began, call.await)
    }
}
