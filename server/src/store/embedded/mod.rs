//! The embedded store: one file on this machine, for one coordinator.
//!
//! One thread writes (group commit). It takes every queued transaction, evaluates each against the result of the ones
//! before it, commits them all with one flush to disk, and only then acknowledges them. Under load, transactions share
//! the cost of the flush; without load, none waits for others. Reads see the last commit and never block.
//!
//! While the disk is full, transactions fail with [`StoreError::Full`], except those that a full store applies: they
//! use the space of a reserve, as long as no other program takes it. The writer looks for room once a second. Reads
//! keep working. A failed flush stops the store until the process restarts.
//!
//! While the file's path does not lead to the open file, because someone deleted or replaced it, transactions fail with
//! [`StoreError::Unusable`]. Reads keep working.

mod apply;
mod clock;
mod export;
mod file;
mod place;
mod plan;
mod reserve;
mod tables;
#[cfg(test)]
mod tests;
mod versions;
mod writer;

use std::{path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use redb::ReadTransaction;
use tokio::sync::{broadcast, mpsc, oneshot};

use self::{
    clock::Clock,
    file::{Opener, StoreFile},
    reserve::Reserve,
    tables::{DAY_MS, ENTRIES, LEASES, RECORDS, Result as ReadResult, STREAMS, USAGE},
    versions::Versions,
    writer::{Job, QUEUE_MAX, Writer},
};
use super::{
    Durability, Entry, Extent, Key, Leases, NOTIFICATIONS_MAX, Namespace, Notification, Outcome, Range, Record, Store,
    StoreError, Txn,
};

/// The maximum number of entries read on the caller's thread; longer ranges are read on a blocking thread.
const ENTRIES_INLINE_MAX: usize = 128;

/// How long opening waits for another process to release the file. A process killed a moment ago holds its files until
/// its last flush is done.
const RELEASE_GRACE: Duration = Duration::from_secs(3);

/// The store in one file on this machine. See the [module](self).
#[derive(Debug)]
pub struct EmbeddedStore {
    file: Arc<StoreFile>,
    clock: Arc<Clock>,
    versions: Arc<Versions>,
    notifications: broadcast::Sender<Notification>,
    /// `None` while the store is being dropped.
    queue: Option<mpsc::Sender<Job>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Its file is locked, so that no other process opens it.
    is_locked: bool,
}

impl EmbeddedStore {
    /// Opens the file at `path`, or creates it with access for this user only. Its directory must exist.
    ///
    /// Blocks while it checks a file that was not closed cleanly. Fails with [`StoreError::Unavailable`] if another
    /// coordinator keeps the file open for some seconds, with [`StoreError::Corrupt`] if the file is not a store or is
    /// damaged, and with [`StoreError::Unusable`] if it is of a newer version, or missing or empty although there was a
    /// store.
    pub fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        Self::open_within(path, RELEASE_GRACE)
    }

    fn open_within(path: &Path, grace: Duration) -> Result<Arc<Self>, StoreError> {
        let reserve = Reserve::of(path);
        let opener = file::on_disk(path, grace, reserve.clone());
        Self::start(path.display().to_string(), opener, Some(reserve), Durability::Fsynced)
    }

    /// Opens an empty store that is gone when the process ends, for tests and trials.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        Self::start("the store in memory".to_owned(), file::in_memory(), None, Durability::Applied)
    }

    fn start(
        name: String,
        opener: Opener,
        reserve: Option<Reserve>,
        durability: Durability,
    ) -> Result<Arc<Self>, StoreError> {
        let (file, facts) = StoreFile::open(name, opener)?;
        let file = Arc::new(file);
        let clock = Arc::new(Clock::starting_at_least(facts.clock_ms));
        let versions = Arc::new(Versions::starting_at(facts.version));
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (notifications, _) = broadcast::channel(NOTIFICATIONS_MAX);
        let is_locked = durability == Durability::Fsynced;
        let writer = Writer {
            file: file.clone(),
            clock: clock.clone(),
            versions: versions.clone(),
            queue: jobs,
            notifications: notifications.clone(),
            durability,
            version: facts.version,
            purged_ms: 0,
            last_failure: None,
            reserve,
            full: None,
        };
        let writer = writer.start().map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))?;
        Ok(Arc::new(Self {
            file,
            clock,
            versions,
            notifications,
            queue: Some(queue),
            writer: Mutex::new(Some(writer)),
            is_locked,
        }))
    }

    fn queue(&self) -> Result<&mpsc::Sender<Job>, StoreError> {
        self.queue.as_ref().ok_or_else(writer_gone)
    }

    fn read_inline<R>(&self, read: impl FnOnce(&ReadTransaction) -> ReadResult<R>) -> Result<R, StoreError> {
        let result = self.file.read(read);
        self.report(&result);
        result
    }

    async fn read_elsewhere<R: Send + 'static>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> ReadResult<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let file = self.file.clone();
        let result = tokio::task::spawn_blocking(move || file.read(read))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("the read was canceled: {error}"))));
        self.report(&result);
        result
    }

    /// Asks the writer to check a file that cannot be read: only the writer can reopen it.
    fn report<R>(&self, result: &Result<R, StoreError>) {
        if let (Err(StoreError::Unavailable(_)), Some(queue)) = (result, &self.queue) {
            // If the queue is full, the writer uses the file anyway.
            let _ = queue.try_send(Job::CheckFile);
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.lock().take() {
            // A panic of the thread was reported when it happened.
            let _ = writer.join();
        }
        self.file.close();
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
        // Ids are not empty and contain no zero byte, so `after` plus a zero byte sorts right after `after` itself.
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

    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let usage =
            self.read_inline(|txn| tables::stored_usage(&txn.open_table(USAGE)?, &tables::prefix(namespace)))?;
        Ok(usage.on(self.clock.now_ms() / DAY_MS).bytes())
    }

    async fn version(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        Ok(self.versions.of(namespace))
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

    fn is_exclusive(&self) -> bool {
        self.is_locked
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue()?.send(Job::CheckWritable { answer }).await.map_err(|_| writer_gone())?;
        answered.await.unwrap_or_else(|_| Err(writer_gone()))
    }

    async fn close(&self) {
        let (closed, is_closed) = oneshot::channel();
        if let Ok(queue) = self.queue()
            && queue.send(Job::Close { closed }).await.is_ok()
        {
            let _ = is_closed.await;
        }
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
