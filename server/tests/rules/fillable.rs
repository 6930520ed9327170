//! A store that can be full.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use teamwire_server::store::{Namespace, Outcome, Store, StoreError, StoreLayer, Txn, embedded::EmbeddedStore};

/// A store that can be full.
#[derive(Debug)]
pub(crate) struct Fillable {
    store: Arc<dyn Store>,
    is_full: AtomicBool,
}

impl Fillable {
    /// Creates an empty store.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { store: EmbeddedStore::in_memory().unwrap(), is_full: AtomicBool::new(false) })
    }

    /// From now on the store is full.
    pub(crate) fn fill(&self) {
        self.is_full.store(true, Ordering::SeqCst);
    }

    /// From now on it has room again.
    pub(crate) fn empty(&self) {
        self.is_full.store(false, Ordering::SeqCst);
    }
}

impl StoreLayer for Fillable {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        if self.is_full.load(Ordering::SeqCst) && !txn.applies_when_full() {
            return Err(StoreError::Full("no space left".to_owned()));
        }
        self.store.commit(namespace, txn).await
    }
}
