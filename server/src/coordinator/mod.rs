//! Runs the rules against the store: read, decide, commit, and again when something changed in between.
//!
//! - [`calls`]: one function for each call that changes something. [`reads`]: those that only look. [`tasks`]: those of the
//!   task board; [`turns`] keeps them from running into each other. [`retention`]: what may be forgotten.
//! - [`cache`]: records that are likely still current. [`clock`]: the store's clock, without asking it.
//!
//! A rule may be decided on cached records: if they have changed, its commit fails and the rule runs again on what is
//! there now. A refusal changes nothing and so would never be found out; therefore no refusal is given, and nothing is
//! read out, before the rule has come to it on records that were read for this call.

mod cache;
pub mod clock;
mod history;
mod members;
mod messages;
mod records;
mod requests;
mod retention;
mod sessions;
mod tasks;
mod teams;
mod turns;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use teamwire_proto::{Reason, Refusal, name::Name};
use tracing::Instrument as _;

use crate::{
    domain::{
        Context, Limits,
        record::{RecordType, TeamRecord},
        secret::SecretHash,
        tx::{CachedRecord, RuleError, Snapshot, Tx},
    },
    failpoint,
    notify::Notifier,
    store::{Check, Commit, Durability, Failed, Key, Namespace, Outcome, Store, StoreError, Txn, Write},
    telemetry::{Metrics, step},
};
pub use history::{HistoryPage, HistoryQuery};
pub use teams::TeamCount;

use cache::Cache;
use clock::Clock;
use turns::Turns;

/// How often a commit may fail before the coordinator gives up. Each time somebody else has succeeded.
const ATTEMPTS_MAX: u32 = 100;

/// Decides calls. Keeps nothing that it cannot lose; any number of them may share a store.
pub struct Coordinator {
    store: Arc<dyn Store>,
    limits: Arc<Limits>,
    operator: SecretHash,
    cache: Cache,
    clock: Clock,
    notifier: Arc<Notifier>,
    turns: Turns,
    durability: AtomicU8,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What came of a rule that was carried out.
#[derive(Debug)]
pub struct Done<T> {
    /// What the rule returned.
    pub value: T,
    /// How durable its change is; for a repeated call, what the store last answered.
    pub durability: Durability,
}

impl Coordinator {
    /// Makes a coordinator over a store that answers.
    pub async fn new(store: Arc<dyn Store>, limits: Limits, operator: SecretHash) -> Result<Self, StoreError> {
        let now_ms = store.now_ms().await?;
        Ok(Self {
            store,
            limits: Arc::new(limits),
            operator,
            cache: Cache::new(),
            clock: Clock::starting_at(now_ms),
            notifier: Arc::new(Notifier::new()),
            turns: Turns::default(),
            durability: AtomicU8::new(0),
            metrics: Arc::default(),
        })
    }

    /// Counts from now on where others look.
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// What this coordinator counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The open sessions of this coordinator.
    pub fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns what the store's clock should say now.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    fn context(&self) -> Context {
        Context {
            now_ms: self.clock.now_ms(),
            seed: rand::random(),
            limits: Arc::clone(&self.limits),
            operator: self.operator,
            by: self.notifier.by(),
        }
    }

    /// Runs a rule until it is carried out or refused. `preload`: records that it will want, to be read at once.
    pub async fn decide<T>(
        &self,
        namespace: &Namespace,
        preload: &[Key],
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<Done<T>, Refusal> {
        self.run(namespace, preload, rule).instrument(step!("decide")).await
    }

    async fn run<T>(
        &self,
        namespace: &Namespace,
        preload: &[Key],
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<Done<T>, Refusal> {
        let ctx = self.context();
        let mut snapshot = Snapshot::default();
        let mut from_cache = self.cache.fill(namespace, preload, &mut snapshot);
        let mut cache_allowed = true;
        let mut attempts = 0;
        // Between two attempts a rule runs once for each record that it misses; there are only so many.
        while attempts < ATTEMPTS_MAX {
            let mut tx = Tx::new(&ctx, &snapshot);
            match rule(&mut tx) {
                Err(RuleError::NeedsRecords(mut wanted)) => {
                    if cache_allowed && self.cache.fill(namespace, &wanted, &mut snapshot) {
                        from_cache = true;
                        continue;
                    }
                    self.metrics.rerun("missing");
                    let rest =
                        preload.iter().filter(|key| !snapshot.records.contains_key(key) && !wanted.contains(key));
                    wanted.extend(rest.cloned().collect::<Vec<_>>());
                    self.load(namespace, wanted, &mut snapshot).await?;
                }
                Err(RuleError::Corrupt(what)) => return Err(corrupt(namespace, &what)),
                Err(RuleError::Refused(refusal)) => {
                    let unasked = tx.unchecked_idempotency_keys();
                    if !unasked.is_empty() {
                        self.look_up(namespace, unasked, &mut snapshot).await?;
                    } else if from_cache {
                        (from_cache, cache_allowed) = (false, false);
                        self.reload(namespace, &mut snapshot).await?;
                    } else {
                        return Err(refusal);
                    }
                }
                Ok(value) if tx.is_read_only() => {
                    // Without a commit nothing else would find out that the key was used.
                    let unasked = tx.unchecked_idempotency_keys();
                    if !unasked.is_empty() {
                        self.look_up(namespace, unasked, &mut snapshot).await?;
                    } else if from_cache {
                        (from_cache, cache_allowed) = (false, false);
                        self.reload(namespace, &mut snapshot).await?;
                    } else {
                        return Ok(Done { value, durability: self.last_durability() });
                    }
                }
                Ok(value) => {
                    let txn = tx.into_txn();
                    let mut pending = self.notifier.pending(namespace, &txn);
                    failpoint::reach("before-commit");
                    let committed = self.store.commit(namespace, &txn).instrument(step!("commit")).await;
                    failpoint::reach("after-commit");
                    if committed.is_ok() {
                        pending.is_known();
                    }
                    match committed.map_err(|error| unavailable(&error))? {
                        Outcome::Committed(commit) => {
                            self.committed(namespace, &txn, &commit);
                            return Ok(Done { value, durability: commit.durability });
                        }
                        Outcome::Refused(failed) => {
                            self.metrics.conflict(&failed);
                            self.learn(namespace, &txn, failed, &mut snapshot)?;
                        }
                    }
                    self.metrics.rerun("conflict");
                    if back_off(attempts).await {
                        // What the conflict has taught is old by now; deciding on it would only find the next one.
                        self.reload(namespace, &mut snapshot).await?;
                    }
                    attempts += 1;
                }
            }
        }
        Err(Refusal::new(
            Reason::StoreUnavailable,
            "Too many callers change the same thing at once. Try again with the same idempotency key.",
        ))
    }

    async fn load(&self, namespace: &Namespace, keys: Vec<Key>, snapshot: &mut Snapshot) -> Result<(), Refusal> {
        let records = self.store.read(namespace, &keys).await.map_err(|error| unavailable(&error))?;
        for (key, record) in keys.into_iter().zip(records) {
            let loaded = CachedRecord::new(record);
            self.cache.put(namespace, &key, &loaded);
            snapshot.records.insert(key, loaded);
        }
        Ok(())
    }

    async fn reload(&self, namespace: &Namespace, snapshot: &mut Snapshot) -> Result<(), Refusal> {
        self.metrics.rerun("stale");
        let keys = snapshot.records.keys().cloned().collect();
        self.load(namespace, keys, snapshot).await
    }

    /// Asks the ledger, by a transaction that checks and writes nothing.
    async fn look_up(&self, namespace: &Namespace, keys: Vec<String>, snapshot: &mut Snapshot) -> Result<(), Refusal> {
        for key in keys {
            let txn = Txn { checks: vec![Check::KeyUnused { key: key.clone() }], writes: Vec::new() };
            let outcome = self.store.commit(namespace, &txn).await.map_err(|error| unavailable(&error))?;
            let known = match outcome {
                Outcome::Refused(Failed::KeyUsed { data }) => Some(data),
                _ => None,
            };
            snapshot.replies.insert(key, known);
        }
        Ok(())
    }

    /// Takes over what a failed transaction has taught, or says why it is final.
    fn learn(&self, namespace: &Namespace, txn: &Txn, failed: Failed, snapshot: &mut Snapshot) -> Result<(), Refusal> {
        match failed {
            Failed::Version { key, current } => {
                let loaded = CachedRecord::new(current);
                self.cache.put(namespace, &key, &loaded);
                snapshot.records.insert(key, loaded);
                Ok(())
            }
            Failed::KeyUsed { data } => {
                let key = txn.checks.iter().find_map(|check| match check {
                    Check::KeyUnused { key } => Some(key.clone()),
                    _ => None,
                });
                snapshot.replies.extend(key.map(|key| (key, Some(data))));
                Ok(())
            }
            Failed::Lease { name } => {
                Err(Refusal::new(Reason::StoreUnavailable, format!("{name} has just given a sign of life. Try again.")))
            }
            Failed::Full { stream } => {
                let folded = stream.strip_prefix("inbox/").unwrap_or(&stream);
                let team = snapshot.records.get(&team_key()).and_then(|team| team.get::<TeamRecord>().ok().flatten());
                let written = team.as_ref().and_then(|team| team.members.iter().find(|m| m.name.folded() == folded));
                let member = written.map_or(folded, |member| member.name.as_str());
                Err(Refusal::new(
                    Reason::InboxFull,
                    format!(
                        "The inbox of {member} is full ({} messages or {} bytes). Nothing was sent. Wait until it has worked \
                         some of it off, then send again.",
                        self.limits.inbox_entries_max, self.limits.inbox_bytes_max
                    ),
                )
                .with("member", member)
                .retry_after(Duration::from_secs(5)))
            }
        }
    }

    fn committed(&self, namespace: &Namespace, txn: &Txn, commit: &Commit) {
        self.clock.observe(commit.at_ms);
        // Others promise less: a store need not make them as durable as it could.
        if txn.writes.iter().any(|write| matches!(write, Write::RememberReply { .. })) {
            self.durability.store(commit.durability as u8, Ordering::Relaxed);
        }
        self.cache.apply(namespace, txn, commit.version);
        self.notifier.committed(namespace, txn, commit);
    }

    fn last_durability(&self) -> Durability {
        match self.durability.load(Ordering::Relaxed) {
            0 => Durability::Applied,
            1 => Durability::Fsynced,
            _ => Durability::Replicated,
        }
    }
}

/// Waits a little before a rule runs again for the fourth time and more, the longer the more often. Returns whether it
/// has waited.
async fn back_off(attempt: u32) -> bool {
    if attempt < 3 {
        return false;
    }
    let up_to = Duration::from_millis(u64::from(attempt.min(25)));
    tokio::time::sleep(up_to.mul_f64(rand::random())).await;
    true
}

/// Names the record of a team with its roster.
pub fn team_key() -> Key {
    Key::new(TeamRecord::KIND, "")
}

/// Names a record of a member.
pub fn member_key<T: RecordType>(name: &Name) -> Key {
    Key::new(T::KIND, name.folded())
}

/// Says that the store did not answer.
pub fn unavailable(error: &StoreError) -> Refusal {
    match error {
        StoreError::Unavailable(_) => Refusal::new(
            Reason::StoreUnavailable,
            format!("{error}. Whether the change was made is not known: try again with the same idempotency key."),
        ),
        StoreError::Refusing(_) => {
            Refusal::new(Reason::StoreUnavailable, format!("{error}. Nothing was changed: try again later."))
        }
        StoreError::DurabilityNotReached(_) => Refusal::new(
            Reason::DurabilityNotReached,
            format!(
                "{error}. The change was made, but may still be lost with its server: try again with the same idempotency key \
                 until it is answered."
            ),
        ),
        StoreError::Corrupt(what) => {
            tracing::error!(what, "the store holds what cannot be read");
            Refusal::new(Reason::Internal, format!("{error}. Ask whoever runs the coordinator to look at its log."))
        }
    }
}

fn corrupt(namespace: &Namespace, what: &str) -> Refusal {
    tracing::error!(?namespace, what, "a record cannot be read");
    Refusal::new(
        Reason::Internal,
        "A record of this team cannot be read. Ask whoever runs the coordinator to look at its log.",
    )
}
