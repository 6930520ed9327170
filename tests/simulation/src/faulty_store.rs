//! A store that can be slow, unreachable, or fail after it committed.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use teamwire_server::store::{
    Entry, Extent, Key, Leases, Namespace, Notification, Outcome, Range, Record, Store, StoreError, Txn, Write,
};
use tokio::{sync::broadcast, time::sleep};

/// The faults between one coordinator and the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFaults {
    /// Every call fails, though some take effect.
    pub(crate) is_down: bool,
    /// The store refuses writes.
    pub(crate) is_refusing: bool,
    /// This coordinator's notifications are dropped.
    pub(crate) is_mute: bool,
    /// The longest delay in each direction.
    pub(crate) delay_max: Duration,
}

impl Default for StoreFaults {
    fn default() -> Self {
        Self { is_down: false, is_refusing: false, is_mute: false, delay_max: Duration::from_millis(2) }
    }
}

/// One coordinator's connection to the store, with faults.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    store: Arc<dyn Store>,
    faults: Mutex<StoreFaults>,
}

impl FaultyStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, faults: Mutex::default() })
    }

    /// Returns the faults, to be changed.
    pub(crate) fn faults(&self) -> MutexGuard<'_, StoreFaults> {
        self.faults.lock()
    }

    /// Delays one direction of a call. Fails if the store is unreachable.
    async fn travel(&self) -> Result<(), StoreError> {
        let delay_max = self.faults().delay_max;
        sleep(delay_max.mul_f64(rand::random())).await;
        if self.faults().is_down {
            sleep(Duration::from_millis(rand::random_range(0..1_500))).await;
            return Err(StoreError::Unavailable("the store is unreachable".to_owned()));
        }
        Ok(())
    }

    /// Delays a call in both directions.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.travel().await?;
        let answer = answer.await;
        self.travel().await?;
        answer
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        self.ask(self.store.read(namespace, keys)).await
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        self.ask(self.store.scan(namespace, kind, after, limit)).await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        self.ask(self.store.range(namespace, stream, range)).await
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.ask(self.store.extents(namespace, streams)).await
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        self.ask(self.store.leases(namespace)).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        self.ask(self.store.now_ms()).await
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        // A transaction that left before the cut still arrives.
        if let Err(error) = self.travel().await
            && rand::random_bool(0.7)
        {
            return Err(error);
        }
        let StoreFaults { is_refusing, is_mute, .. } = *self.faults();
        if is_refusing {
            return Err(StoreError::Refusing("the store is full".to_owned()));
        }
        let mut txn = txn.clone();
        if is_mute {
            txn.writes.retain(|write| !matches!(write, Write::Notify { .. }));
        }
        let answer = self.store.commit(namespace, &txn).await;
        self.travel().await?;
        answer
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.store.notifications()
    }
}
