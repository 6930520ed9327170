//! The store in one file of this machine, for one coordinator.
//!
//! One thread writes. It takes all transactions that have queued up, evaluates each against what the ones before it
//! left, and commits them together with one flush to the disk; only then are they answered. Under load the cost of the
//! flush is shared, without load nobody waits for company. Reads are of the last commit and wait for nobody.
//!
//! When the disk is full, transactions answer [`StoreError::Refusing`], those that only free as well, until there is
//! room again; it is tried once a second. Reads go on. A failed flush ends the store until the process restarts.

mod apply;
mod clock;
mod file;
mod plan;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use redb::ReadTransaction;
use tokio::sync::{broadcast, mpsc, oneshot};

use self::{
    clock::Clock,
    file::{Opener, Vault},
    tables::{ENTRIES, LEASES, RECORDS, Result as ReadResult, STREAMS},
    writer::{Job, QUEUE_MAX, Writer},
};
use super::{
    Durability, Entry, Extent, Key, Leases, NOTIFICATIONS_MAX, Namespace, Notification, Outcome, Range, Record, Store,
    StoreError, Txn,
};

/// Up to this many entries are read where the caller runs; more are read on a thread that may block.
const ENTRIES_INLINE_MAX: usize = 128;

/// How long a file may stay in use by another process before that counts as an error. One that was killed a moment ago
/// keeps its files until its last flush is done.
const RELEASE_GRACE: Duration = Duration::from_secs(3);

/// The store in one file of this machine. See the [module](self).
#[derive(Debug)]
pub struct EmbeddedStore {
    vault: Arc<Vault>,
    clock: Arc<Clock>,
    notifications: broadcast::Sender<Notification>,
    /// `None` once the store is being dropped.
    queue: Option<mpsc::Sender<Job>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Opens the file at `path`, or makes it, readable by nobody else. Its directory must exist.
    ///
    /// Blocks for as long as it takes to check a file that was not closed cleanly. Fails with
    /// [`StoreError::Unavailable`] when another coordinator has it open and keeps it open for some seconds, and with
    /// [`StoreError::Corrupt`] when it is not such a file or is damaged.
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        Self::open_within(path, RELEASE_GRACE)
    }

    fn open_within(path: &Path, grace: Duration) -> Result<Arc<Self>, StoreError> {
        Self::start(path.display().to_string(), file::on_disk(path, grace), Durability::Fsynced)
    }

    /// Makes an empty store that lives as long as the process, for tests and trials.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        Self::start("the store in memory".to_owned(), file::in_memory(), Durability::Applied)
    }

    fn start(name: String, opener: Opener, durability: Durability) -> Result<Arc<Self>, StoreError> {
        let (vault, facts) = Vault::open(name, opener)?;
        let vault = Arc::new(vault);
        let clock = Arc::new(Clock::starting_at_least(facts.clock_ms));
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (notifications, _) = broadcast::channel(NOTIFICATIONS_MAX);
        let writer = Writer {
            vault: vault.clone(),
            clock: clock.clone(),
            queue: jobs,
            notifications: notifications.clone(),
            durability,
            version: facts.version,
            forgotten_ms: 0,
            fault: None,
        };
        let writer = writer.start().map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))?;
        Ok(Arc::new(Self { vault, clock, notifications, queue: Some(queue), writer: Mutex::new(Some(writer)) }))
    }

    fn queue(&self) -> Result<&mpsc::Sender<Job>, StoreError> {
        self.queue.as_ref().ok_or_else(writer_gone)
    }

    fn read_inline<R>(&self, read: impl FnOnce(&ReadTransaction) -> ReadResult<R>) -> Result<R, StoreError> {
        let result = self.vault.read(read);
        self.report(&result);
        result
    }

    async fn read_elsewhere<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> ReadResult<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let vault = self.vault.clone();
        let result = tokio::task::spawn_blocking(move || vault.read(read))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("the read was given up: {error}"))));
        self.report(&result);
        result
    }

    /// Has the writer look at a file that cannot be read: only the writer can open it anew.
    fn report<R>(&self, result: &Result<R, StoreError>) {
        if let (Err(StoreError::Unavailable(_)), Some(queue)) = (result, &self.queue) {
            // When the queue is full, the writer looks at the file anyway.
            let _ = queue.try_send(Job::LookAtFile);
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // What it had to say of a panic was said on the way.
            let _ = writer.join();
        }
        self.vault.close();
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        self.read_inline(|txn| {
            let records = txn.open_table(RECORDS)?;
            let read = |key: &Key| match records.get(tables::record(namespace, key.kind, &key.id).as_slice())? {
                Some(value) => Ok(Some(record(value.value())?)),
                None => Ok(None),
            };
            keys.iter().map(read).collect()
        })
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let all = tables::record(namespace, kind, "");
        // No id is empty and none holds a zero byte, so what follows a zero byte follows the id itself.
        let mut first = tables::record(namespace, kind, after);
        first.push(0);
        self.read_elsewhere(move |txn| {
            let records = txn.open_table(RECORDS)?;
            let end = tables::end_of(&all);
            let found = records.range(first.as_slice()..end.as_slice())?.take(limit);
            found
                .map(|found| {
                    let (key, value) = found?;
                    let id = key.value().get(all.len()..).unwrap_or_default();
                    Ok((String::from_utf8_lossy(id).into_owned(), record(value.value())?))
                })
                .collect()
        })
        .await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        if range.first > range.last {
            return Ok(Vec::new());
        }
        let (first, last) =
            (tables::entry(namespace, stream, range.first), tables::entry(namespace, stream, range.last));
        let read = move |txn: &ReadTransaction| {
            let entries = txn.open_table(ENTRIES)?;
            let found = entries.range(first.as_slice()..=last.as_slice())?;
            let entry =
                |found: std::result::Result<(redb::AccessGuard<'_, &[u8]>, redb::AccessGuard<'_, &[u8]>), _>| {
                    let (key, value) = found?;
                    let sequence = key.value().last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                    let (_, data) = tables::split_number(value.value())?;
                    Ok(Entry { sequence, data: Bytes::copy_from_slice(data) })
                };
            match range.newest_first {
                true => found.rev().take(range.limit).map(entry).collect(),
                false => found.take(range.limit).map(entry).collect::<ReadResult<Vec<_>>>(),
            }
        };
        if range.limit <= ENTRIES_INLINE_MAX { self.read_inline(read) } else { self.read_elsewhere(read).await }
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.read_inline(|txn| {
            let table = txn.open_table(STREAMS)?;
            streams.iter().map(|stream| tables::stored_extent(&table, &tables::named(namespace, stream))).collect()
        })
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let prefix = tables::prefix(namespace);
        let mut leases = self.read_inline(|txn| {
            let table = txn.open_table(LEASES)?;
            let mut leases = Leases::default();
            for found in table.range(prefix.as_slice()..tables::end_of(&prefix).as_slice())? {
                let (key, value) = found?;
                let name = key.value().get(prefix.len()..).unwrap_or_default();
                let (until_ms, _) = tables::split_number(value.value())?;
                leases.until_ms.insert(String::from_utf8_lossy(name).into_owned(), until_ms);
            }
            Ok(leases)
        })?;
        leases.now_ms = self.clock.now_ms();
        Ok(leases)
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        Ok(self.clock.now_ms())
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Commit { namespace: namespace.clone(), txn: txn.clone(), answer };
        self.queue()?.send(job).await.map_err(|_| writer_gone())?;
        answered.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }
}

fn record(value: &[u8]) -> ReadResult<Record> {
    let (version, data) = tables::split_number(value)?;
    Ok(Record { version, data: Bytes::copy_from_slice(data) })
}

fn writer_gone() -> StoreError {
    StoreError::Unavailable("the store's writer has stopped; restart the coordinator".to_owned())
}
