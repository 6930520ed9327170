//! Writes the audit log.
//!
//! A privileged call waits up to 2 s until its entry is written, and never fails because of its entry. Every other call
//! only adds to the tally of its chain. One task writes: per chain, in order, in batches. While the store accepts
//! nothing, entries wait in memory, up to a bound; the first entry after that says how many are missing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_proto::{Refusal, v1};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    coordinator::Coordinator,
    domain::{
        audit::{chain::Chain, tally::Tally},
        identity::CallerCredentials,
        time::timestamp,
    },
};

/// How long a call waits for its entry at most.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// How many entries of a chain may wait in memory.
const WAITING_MAX: usize = 256;

/// How many entries are written at once.
const BATCH: usize = 64;

/// How often the writer tries again, and looks whether the operator's credential is still the same.
const TICK: Duration = Duration::from_secs(1);

/// The writer of the audit log.
#[derive(Debug)]
pub struct AuditWriter {
    coordinator: Arc<Coordinator>,
    state: Mutex<Unwritten>,
    has_entries: Notify,
}

#[derive(Debug, Default)]
struct Unwritten {
    tally: Tally,
    queues: BTreeMap<Chain, Queue>,
}

/// The entries of a chain that wait to be written.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<QueuedEntry>,
    /// How many entries found no room since the last one that did.
    missing: u64,
    /// The batch whose commit has failed, perhaps only apparently: its id, and how many entries it has.
    failed: Option<Batch>,
}

/// The first entries of a queue.
#[derive(Clone, Debug)]
struct Batch {
    /// By which the store recognizes it if it is committed twice.
    id: String,
    entries: usize,
}

#[derive(Debug)]
struct QueuedEntry {
    entry: v1::AuditEntry,
    /// Notified, by being dropped, when the entry is written, or when the store did not take it.
    written: Vec<oneshot::Sender<()>>,
}

impl AuditWriter {
    /// Makes a writer. It writes nothing before it [runs](Self::run).
    pub fn new(coordinator: Arc<Coordinator>) -> Self {
        Self { coordinator, state: Mutex::default(), has_entries: Notify::new() }
    }

    /// Describes a caller; see [`Coordinator::describe_caller`].
    pub async fn describe(&self, who: &CallerCredentials) -> Result<v1::AuditCaller, Refusal> {
        self.coordinator.describe_caller(who).await
    }

    /// Returns what the store's clock should say now, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.coordinator.now_ms()
    }

    /// Adds an entry, and waits until it is written, the store does not take it, or a while has passed.
    pub async fn write(&self, chain: &Chain, entry: v1::AuditEntry) {
        let written = self.push(chain, entry);
        wait(written).await;
    }

    /// Counts a call to an account, and adds an entry if it is due. Returns what is notified when it is written.
    pub fn count(&self, chain: &Chain, account: &str, call: v1::AuditEntry) -> Option<oneshot::Receiver<()>> {
        let entry = self.state.lock().tally.add(chain, account, call)?;
        Some(self.push(chain, entry))
    }

    /// Counts a call as [`Self::count`] does, and waits a while for the entry to be written if there is one.
    pub async fn count_and_write(&self, chain: &Chain, account: &str, call: v1::AuditEntry) {
        if let Some(written) = self.count(chain, account, call) {
            wait(written).await;
        }
    }

    /// Waits a while until everything is written that waits now.
    pub async fn settle(&self) {
        let mut all = Vec::new();
        for queue in self.state.lock().queues.values_mut() {
            if let Some(last) = queue.waiting.back_mut() {
                let (written, is_written) = oneshot::channel();
                last.written.push(written);
                all.push(is_written);
            }
        }
        wait(futures::future::join_all(all)).await;
    }

    /// Adds an entry. Returns what is notified when it is written, or when there is no room for it.
    pub fn push(&self, chain: &Chain, mut entry: v1::AuditEntry) -> oneshot::Receiver<()> {
        let (written, is_written) = oneshot::channel();
        let mut state = self.state.lock();
        let queue = state.queues.entry(chain.clone()).or_default();
        if queue.waiting.len() < WAITING_MAX {
            entry.missing = std::mem::take(&mut queue.missing);
            queue.waiting.push_back(QueuedEntry { entry, written: vec![written] });
        } else {
            queue.missing += 1;
            let metrics = self.coordinator.metrics();
            metrics.audit_entries_lost.inc();
            tracing::error!(%chain, "an entry of the audit log is lost: the store has taken none for too long");
        }
        drop(state);
        self.has_entries.notify_one();
        is_written
    }

    /// Writes until cancelled, and then what is left, once.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let pause = self.coordinator.limits().audit_interval;
        let mut closes = Instant::now() + pause;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut operator = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.has_entries.notified() => {}
                _ = ticks.tick() => self.note_operator(&mut operator).await,
            }
            if Instant::now() >= closes {
                closes = Instant::now() + pause;
                self.close_tally();
            }
            self.write_all().await;
        }
        self.close_tally();
        self.write_all().await;
    }

    async fn note_operator(&self, noted: &mut Option<String>) {
        let operator = self.coordinator.operator_fingerprint();
        // If this fails, the next tick tries again.
        if noted.as_ref() != Some(&operator) && self.coordinator.note_operator().await.is_ok() {
            *noted = Some(operator);
        }
    }

    fn close_tally(&self) {
        let closed = self.state.lock().tally.close();
        for (chain, entry) in closed {
            drop(self.push(&chain, entry));
        }
    }

    /// Writes what waits. What the store does not take remains.
    async fn write_all(&self) {
        let chains: Vec<Chain> = self.state.lock().queues.keys().cloned().collect();
        for chain in chains {
            while let Some((batch, entries)) = self.batch(&chain) {
                let appended = self.coordinator.append_to_audit(&chain, &batch.id, &entries).await;
                let mut state = self.state.lock();
                let Some(queue) = state.queues.get_mut(&chain) else { break };
                if let Err(refusal) = appended {
                    tracing::debug!(%chain, %refusal, "entries of the audit log wait in memory");
                    // The calls need not wait until the store takes entries again.
                    queue.waiting.iter_mut().for_each(|waiting| waiting.written.clear());
                    queue.failed = Some(batch);
                    break;
                }
                queue.failed = None;
                // Dropping them notifies those who wait.
                queue.waiting.drain(..batch.entries);
                if queue.waiting.is_empty() && queue.missing > 0 {
                    let missing = std::mem::take(&mut queue.missing);
                    let entry =
                        v1::AuditEntry { at: Some(timestamp(self.now_ms())), missing, ..v1::AuditEntry::default() };
                    queue.waiting.push_back(QueuedEntry { entry, written: Vec::new() });
                } else if queue.waiting.is_empty() {
                    state.queues.remove(&chain);
                }
            }
        }
    }

    /// Returns the next entries of a chain, which stay in the queue until they are written. `None` if there are none.
    fn batch(&self, chain: &Chain) -> Option<(Batch, Vec<v1::AuditEntry>)> {
        let state = self.state.lock();
        let queue = state.queues.get(chain)?;
        let new = || Batch { id: Uuid::now_v7().to_string(), entries: queue.waiting.len().min(BATCH) };
        let batch = queue.failed.clone().unwrap_or_else(new);
        let entries: Vec<_> = queue.waiting.iter().take(batch.entries).map(|waiting| waiting.entry.clone()).collect();
        (!entries.is_empty()).then_some((batch, entries))
    }
}

/// Waits for something, but not for long.
async fn wait<T>(written: impl Future<Output = T>) {
    if timeout(WAIT_MAX, written).await.is_err() {
        tracing::info!("a call did not wait any longer for its entry in the audit log");
    }
}
