//! A store that can be slow, unreachable, or fail after it committed.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use teamwire_server::store::{Namespace, Outcome, Store, StoreError, StoreLayer, Txn, Write};
use tokio::time::sleep;

/// The faults between one coordinator and the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFaults {
    /// No call is answered, but some commits are applied.
    pub(crate) is_down: bool,
    /// The store refuses writes.
    pub(crate) is_refusing: bool,
    /// Notifications of this coordinator's commits are lost.
    pub(crate) is_mute: bool,
    /// The maximum latency in each direction.
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

    /// Returns the faults, for reading or changing.
    pub(crate) fn faults(&self) -> MutexGuard<'_, StoreFaults> {
        self.faults.lock()
    }

    /// Waits for the latency of one direction. Fails if the store is unreachable.
    async fn travel(&self) -> Result<(), StoreError> {
        let delay_max = self.faults().delay_max;
        sleep(delay_max.mul_f64(rand::random())).await;
        if self.faults().is_down {
            sleep(Duration::from_millis(rand::random_range(0..1_500))).await;
            return Err(StoreError::Unavailable("the store is unreachable".to_owned()));
        }
        Ok(())
    }
}

impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        _: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.travel().await?;
        let answer = call.await;
        self.travel().await?;
        answer
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        // A commit that was on its way when the connection broke still arrives.
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
}
