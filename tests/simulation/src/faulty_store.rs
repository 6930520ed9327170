//! A store as a coordinator reaches it: slow, out of reach, or without a word on what came of a transaction.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use teamwire_server::store::{
    Entry, Extent, Key, Leases, Namespace, Notification, Outcome, Range, Record, Store, StoreError, Txn, Write,
};
use tokio::{sync::broadcast, time::sleep};

/// How it is between one coordinator and the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Nothing is answered, though some of it may be carried out.
    pub(crate) is_down: bool,
    /// It takes no writes.
    pub(crate) is_refusing: bool,
    /// Notifications of this coordinator's commits reach nobody.
    pub(crate) is_mute: bool,
    /// How long each way takes at most.
    pub(crate) delay_max: Duration,
}

impl Default for Weather {
    fn default() -> Self {
        Self { is_down: false, is_refusing: false, is_mute: false, delay_max: Duration::from_millis(2) }
    }
}

/// The way to a store, in some weather.
#[derive(Debug)]
pub(crate) struct Way {
    store: Arc<dyn Store>,
    weather: Mutex<Weather>,
}

impl Way {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, weather: Mutex::default() })
    }

    /// Returns the weather, to be changed.
    pub(crate) fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes one way. Fails where the other end is out of reach.
    async fn go(&self) -> Result<(), StoreError> {
        let delay_max = self.weather().delay_max;
        sleep(delay_max.mul_f64(rand::random())).await;
        if self.weather().is_down {
            sleep(Duration::from_millis(rand::random_range(0..1_500))).await;
            return Err(StoreError::Unavailable("it is out of reach".to_owned()));
        }
        Ok(())
    }

    /// Asks a question, and brings the answer back.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.go().await?;
        let answer = answer.await;
        self.go().await?;
        answer
    }
}

#[async_trait]
impl Store for Way {
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
        // What has left before the way was cut still arrives.
        if let Err(error) = self.go().await
            && rand::random_bool(0.7)
        {
            return Err(error);
        }
        let Weather { is_refusing, is_mute, .. } = *self.weather();
        if is_refusing {
            return Err(StoreError::Refusing("it is full".to_owned()));
        }
        let mut txn = txn.clone();
        if is_mute {
            txn.writes.retain(|write| !matches!(write, Write::Notify { .. }));
        }
        let answer = self.store.commit(namespace, &txn).await;
        self.go().await?;
        answer
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.store.notifications()
    }
}
