//! A store that lies in one way, as if a coordinator had a bug: to find out whether the checkers find it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use clap::ValueEnum;
use teamwire_server::store::{
    Check, Commit, Durability, Entry, Extent, Key, Leases, Namespace, Notification, Outcome, Range, Record, Store,
    StoreError, Txn, Write,
};
use tokio::{sync::broadcast, time::sleep};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// None.
    None,
    /// One in forty entries of inboxes is put where nobody looks for it.
    TrimmedInbox,
    /// The ledger forgets at once what it is to remember.
    NoLedger,
    /// One in forty entries of inboxes is another one.
    SwappedEntries,
    /// Whoever asks for a session is told the first one that there was.
    NoFence,
    /// Commits to the board and to tasks are not checked against what was read.
    NoClaimCheck,
    /// Signs of life are forgotten at once.
    #[value(skip)]
    ShortLeases,
    /// One in forty sends is answered and not carried out, and nobody says so. The store was known to forget.
    #[value(skip)]
    SilentLoss,
    /// One in forty sends takes 6 s, while strangers are said to be there.
    #[value(skip)]
    Stalls,
    /// The coordinator takes 544 MiB and never gives them back.
    #[value(skip)]
    Leak,
}

/// A store that lies.
#[derive(Debug)]
pub struct Liar {
    store: Arc<dyn Store>,
    bug: Bug,
    appended: AtomicU64,
    /// What records were like when they were first read.
    first: Mutex<HashMap<(Namespace, Key), Record>>,
    leak: Mutex<Vec<u8>>,
    last_inbox_entry: Mutex<Option<Bytes>>,
}

impl Liar {
    /// Makes a store lie.
    pub fn new(store: Arc<dyn Store>, bug: Bug) -> Arc<Self> {
        let (appended, first, last_inbox_entry) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        Arc::new(Self { store, bug, appended, first, leak: Mutex::default(), last_inbox_entry })
    }

    fn is_its_turn(&self) -> bool {
        self.appended.fetch_add(1, Ordering::Relaxed) % 40 == 39
    }

    /// Makes a transaction what the bug makes of it.
    fn bend(&self, txn: &Txn) -> Txn {
        let mut txn = txn.clone();
        match self.bug {
            Bug::NoLedger => {
                txn.checks.retain(|check| !matches!(check, Check::KeyUnused { .. }));
                txn.writes.retain(|write| !matches!(write, Write::RememberReply { .. }));
            }
            Bug::NoClaimCheck => txn.checks.retain(
                |check| !matches!(check, Check::Version { key, .. } if key.kind == "board" || key.kind == "task"),
            ),
            Bug::ShortLeases => {
                for write in &mut txn.writes {
                    if let Write::Lease { ttl, .. } = write {
                        *ttl = Duration::from_millis(1);
                    }
                }
            }
            Bug::TrimmedInbox => {
                for write in &mut txn.writes {
                    let Write::Append { stream, .. } = write else { continue };
                    if stream.starts_with("inbox/m") && self.is_its_turn() {
                        *stream = "nowhere".to_owned();
                    }
                }
            }
            Bug::SwappedEntries => {
                for write in &mut txn.writes {
                    let Write::Append { stream, data, .. } = write else { continue };
                    if stream.starts_with("inbox/") {
                        let other =
                            self.last_inbox_entry.lock().unwrap_or_else(PoisonError::into_inner).replace(data.clone());
                        if let Some(other) = other.filter(|_| self.is_its_turn()) {
                            *data = other;
                        }
                    }
                }
            }
            _ => {}
        }
        txn
    }
}

#[async_trait]
impl Store for Liar {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let mut records = self.store.read(namespace, keys).await?;
        if self.bug == Bug::NoFence {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, record) in keys.iter().zip(&mut records) {
                if let Some(record) = record.as_mut().filter(|_| key.kind == "session") {
                    let first = first.entry((namespace.clone(), key.clone())).or_insert_with(|| record.clone());
                    // With the version that holds, or no commit would succeed.
                    record.data = first.data.clone();
                }
            }
        }
        Ok(records)
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
        self.store.leases(namespace).await
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        self.store.now_ms().await
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let is_a_send = |write: &Write| matches!(write, Write::Append { stream, .. } if stream.starts_with("inbox/m"));
        let sends = txn.writes.iter().any(is_a_send);
        match self.bug {
            Bug::SilentLoss if sends && self.is_its_turn() => {
                let at_ms = self.store.now_ms().await?;
                let appended = txn.writes.iter().filter(|write| matches!(write, Write::Append { .. })).map(|_| None);
                let durability = Durability::Applied;
                let commit = Commit { version: 1, at_ms, durability, appended: appended.collect(), removed: 0 };
                return Ok(Outcome::Committed(commit));
            }
            Bug::Stalls if sends && self.is_its_turn() => sleep(Duration::from_secs(6)).await,
            Bug::Leak => self.leak.lock().unwrap_or_else(PoisonError::into_inner).resize(544 << 20, 1),
            _ => {}
        }
        self.store.commit(namespace, &self.bend(txn)).await
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.store.notifications()
    }
}
