//! A store whose clock can be moved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use teamwire_server::store::{
    Check, Commit, Entry, Extent, Failed, Key, Leases, Namespace, Notification, Outcome, Range, Record, Store,
    StoreError, Txn, Write,
};
use tokio::sync::broadcast;

/// A store that is some time ahead of the one that it passes everything on to.
#[derive(Debug)]
pub(crate) struct MovedClock {
    store: Arc<dyn Store>,
    ahead_ms: AtomicU64,
}

impl MovedClock {
    /// Wraps a store.
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, ahead_ms: AtomicU64::new(0) })
    }

    /// Moves the clock on. A coordinator learns of it with its next commit.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for MovedClock {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        self.store.read(namespace, keys).await
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        self.store.scan(namespace, kind, after, limit).await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        self.store.range(namespace, stream, range).await
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.store.extents(namespace, streams).await
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let leases = self.store.leases(namespace).await?;
        Ok(Leases { now_ms: leases.now_ms + self.ahead_ms(), ..leases })
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        Ok(self.store.now_ms().await? + self.ahead_ms())
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let mut txn = txn.clone();
        // Leases are judged by the moved clock, so they are checked here and not below.
        let leases = self.leases(namespace).await?;
        let (on_leases, others) = txn.checks.into_iter().partition(|check| matches!(check, Check::Lease { .. }));
        txn.checks = others;
        for check in on_leases {
            let Check::Lease { name, alive } = check else { unreachable!() };
            if leases.until_ms.get(&name).is_some_and(|until_ms| *until_ms > leases.now_ms) != alive {
                return Ok(Outcome::Refused(Failed::Lease { name }));
            }
        }
        for write in &mut txn.writes {
            if let Write::Lease { ttl, .. } = write {
                *ttl += Duration::from_millis(self.ahead_ms());
            }
        }
        Ok(match self.store.commit(namespace, &txn).await? {
            Outcome::Committed(commit) => {
                Outcome::Committed(Commit { at_ms: commit.at_ms + self.ahead_ms(), ..commit })
            }
            refused => refused,
        })
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.store.notifications()
    }
}
