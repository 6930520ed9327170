//! A store with a planted bug, to test that the checkers find it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use clap::ValueEnum;
use parking_lot::Mutex;
use teamwire_server::store::{
    Check, Commit, Durability, Key, Namespace, Outcome, Record, Store, StoreError, StoreLayer, Txn, Write,
};
use tokio::time::sleep;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// None.
    None,
    /// One in 40 inbox entries goes to a stream that no one reads.
    TrimmedInbox,
    /// The store ignores idempotency keys.
    NoIdempotency,
    /// One in 40 inbox entries is replaced by the previous one.
    SwappedEntries,
    /// Reading a session record always returns the first session.
    NoFence,
    /// Commits skip the version checks of the board and of tasks, and follow the reads late enough to overlap.
    NoClaimCheck,
    /// Leases expire at once.
    #[value(skip)]
    ShortLeases,
    /// One in 40 sends is answered but not carried out, without a report. The store is known to lose writes.
    #[value(skip)]
    SilentLoss,
    /// One in 40 sends takes 6 s, during a supposed flood.
    #[value(skip)]
    Stalls,
    /// One in 10 sends to the lead takes 6 s: a busy machine sends it few in a run.
    #[value(skip)]
    StalledLead,
    /// One in 40 messages is missing in the history.
    #[value(skip)]
    TrimmedHistory,
    /// The audit log lacks what the leads of teams did with their powers.
    #[value(skip)]
    TrimmedAudit,
    /// The store ignores how much a team may hold.
    #[value(skip)]
    NoQuota,
    /// The store keeps 64 KiB that it does not count for each of the first 600 commits.
    #[value(skip)]
    Hoards,
    /// The coordinator takes 544 MiB and never frees them.
    #[value(skip)]
    Leak,
    /// Once a request is decided, the store accepts no decision of another one.
    #[value(skip)]
    OneDecision,
}

/// A store with a bug.
#[derive(Debug)]
pub struct BuggyStore {
    store: Arc<dyn Store>,
    bug: Bug,
    appended: AtomicU64,
    /// The first version of each session record.
    first: Mutex<HashMap<(Namespace, Key), Record>>,
    leak: Mutex<Vec<u8>>,
    last_inbox_entry: Mutex<Option<Bytes>>,
    /// The requests that were written, and the one that was written again because it was decided.
    requests: Mutex<(HashSet<Key>, Option<Key>)>,
}

impl BuggyStore {
    /// Plants a bug into a store.
    pub fn new(store: Arc<dyn Store>, bug: Bug) -> Arc<Self> {
        let (appended, first, last_inbox_entry) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        let (leak, requests) = (Mutex::default(), Mutex::default());
        Arc::new(Self { store, bug, appended, first, leak, last_inbox_entry, requests })
    }

    /// Returns whether this is the last of that many appends.
    fn is_last_of(&self, appends: u64) -> bool {
        self.appended.fetch_add(1, Ordering::Relaxed) % appends == appends - 1
    }

    /// Returns whether a transaction decides no request, or the only one that may be decided.
    fn accepts_decision(&self, txn: &Txn) -> bool {
        let (known, decided) = &mut *self.requests.lock();
        let puts = txn.writes.iter().filter_map(|write| match write {
            Write::Put { key, .. } if key.kind == "request" => Some(key),
            _ => None,
        });
        let mut again = puts.filter(|key| !known.insert((*key).clone()));
        again.all(|key| decided.get_or_insert_with(|| key.clone()) == key)
    }

    /// Returns the transaction that the bug makes of this one.
    fn apply_bug(&self, txn: &Txn) -> Txn {
        let mut txn = txn.clone();
        match self.bug {
            Bug::NoIdempotency => {
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
                    if stream.starts_with("inbox/m") && self.is_last_of(40) {
                        *stream = "nowhere".to_owned();
                    }
                }
            }
            Bug::TrimmedHistory => {
                let is_a_send =
                    |write: &Write| matches!(write, Write::Append { stream, .. } if stream.starts_with("inbox/"));
                if txn.writes.iter().any(is_a_send) && self.is_last_of(40) {
                    for write in &mut txn.writes {
                        if let Write::Append { stream, .. } = write
                            && stream == "history"
                        {
                            *stream = "nowhere".to_owned();
                        }
                    }
                }
            }
            Bug::TrimmedAudit => {
                for write in &mut txn.writes {
                    if let Write::Append { stream, .. } = write
                        && stream.starts_with("audit/privileged/")
                    {
                        *stream = "nowhere".to_owned();
                    }
                }
            }
            Bug::NoQuota => {
                txn.bytes_max = None;
                for write in &mut txn.writes {
                    if let Write::Append { bound, .. } = write {
                        *bound = None;
                    }
                }
            }
            Bug::SwappedEntries => {
                for write in &mut txn.writes {
                    let Write::Append { stream, data, .. } = write else { continue };
                    if stream.starts_with("inbox/") {
                        let other = self.last_inbox_entry.lock().replace(data.clone());
                        if let Some(other) = other.filter(|_| self.is_last_of(40)) {
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

impl StoreLayer for BuggyStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let mut records = self.store.read(namespace, keys).await?;
        if self.bug == Bug::NoClaimCheck && keys.iter().any(|key| key.kind == "task") {
            // On a busy machine a coordinator often finishes one claim before it begins the next. No event could replace the
            // time: nothing says that another claim will come.
            sleep(Duration::from_millis(10)).await;
        }
        if self.bug == Bug::NoFence {
            let mut first = self.first.lock();
            for (key, record) in keys.iter().zip(&mut records) {
                if let Some(record) = record.as_mut().filter(|_| key.kind == "session") {
                    let first = first.entry((namespace.clone(), key.clone())).or_insert_with(|| record.clone());
                    // Keep the current version, or no commit would succeed.
                    record.data = first.data.clone();
                }
            }
        }
        Ok(records)
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let is_a_send = |write: &Write| matches!(write, Write::Append { stream, .. } if stream.starts_with("inbox/m"));
        let sends = txn.writes.iter().any(is_a_send);
        let sends_to_lead =
            txn.writes.iter().any(|write| matches!(write, Write::Append { stream, .. } if stream == "inbox/lead"));
        match self.bug {
            Bug::SilentLoss if sends && self.is_last_of(40) => {
                let at_ms = self.store.now_ms().await?;
                let appended = txn.writes.iter().filter(|write| matches!(write, Write::Append { .. })).map(|_| None);
                let durability = Durability::Applied;
                let commit = Commit { version: 1, at_ms, durability, appended: appended.collect(), removed: 0 };
                return Ok(Outcome::Committed(commit));
            }
            Bug::Stalls if sends && self.is_last_of(40) => sleep(Duration::from_secs(6)).await,
            Bug::StalledLead if sends_to_lead && self.is_last_of(10) => sleep(Duration::from_secs(6)).await,
            Bug::OneDecision if !self.accepts_decision(txn) => {
                return Err(StoreError::Refusing("another request was decided".to_owned()));
            }
            Bug::Hoards if self.appended.fetch_add(1, Ordering::Relaxed) < 600 => {
                let (stream, data) = ("nowhere".to_owned(), vec![1; 64 << 10].into());
                let writes = vec![Write::Append { stream, data, weight: 0, bound: None }];
                self.store.commit(&Namespace::audit(), &Txn { writes, ..Txn::default() }).await?;
            }
            // `vec!` fills it at once; `resize` would take seconds in a debug build.
            Bug::Leak if self.leak.lock().is_empty() => *self.leak.lock() = vec![1; 544 << 20],
            _ => {}
        }
        self.store.commit(namespace, &self.apply_bug(txn)).await
    }
}
