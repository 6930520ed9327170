//! A store whose clock a test can advance.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use teamwire_server::store::{
    Check, Commit, Failed, Leases, Namespace, Outcome, Store, StoreError, StoreLayer, Txn, Write,
};

/// A store whose clock runs ahead of the wrapped store's.
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

    /// Advances the clock. A coordinator notices with its next commit.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    fn ahead_ms(&self) -> u64 {
        self.ahead_ms.load(Ordering::SeqCst)
    }
}

impl StoreLayer for MovedClock {
    fn inner(&self) -> &dyn Store {
        &*self.store
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
        // The advanced clock decides whether a lease is alive, so check leases here, not in the wrapped store.
        let leases = StoreLayer::leases(self, namespace).await?;
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
}
