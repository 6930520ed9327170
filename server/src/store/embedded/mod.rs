//! The embedded store: a file on this machine and its write-ahead log, for one coordinator.
//!
//! One thread writes (group commit). It takes every queued transaction, evaluates each against the result of the ones
//! before it, appends the changes of all to the log, flushes the log to the disk, and only then acknowledges them. Under
//! load, transactions share the cost of the flush; without load, none waits for others. What the log holds is in memory,
//! too, on top of the file, and reads see both. A second thread writes it to the file whenever half of the log is full.
//! Closing the store writes the rest, so that the file alone is complete.
//!
//! While the disk is full, transactions fail with [`StoreError::Full`], except those that a full store applies: they
//! use the space of a reserve, as long as no other program takes it. The writer looks for room once a second. Reads
//! keep working. A failed flush stops the store until the process restarts.
//!
//! While the file's path does not lead to the open file, because someone deleted or replaced it, transactions fail with
//! [`StoreError::Unusable`]. Reads keep working.

mod apply;
mod changes;
mod checkpoint;
mod clock;
mod draft;
mod export;
mod file;
mod log_file;
mod place;
mod plan;
mod reserve;
mod tables;
#[cfg(test)]
mod tests;
mod versions;
mod view;
mod wal;
mod writer;

use std::{ops::Bound, path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, oneshot};

use self::{
    checkpoint::Checkpointer,
    clock::Clock,
    file::{Found, Opener, StoreFile},
    log_file::LogFile,
    reserve::Reserve,
    tables::{DAY_MS, Result as ReadResult, Table},
    versions::Versions,
    view::{Key as FoundKey, Layers, Recent, Value, View},
    writer::{Job, Log, QUEUE_MAX, Writer},
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
    recent: Arc<Recent>,
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
        let log = LogFile { opener: log_file::on_disk(path), segment_bytes: wal::SEGMENT_BYTES };
        Self::start(path.display().to_string(), opener, log, Some(reserve), Durability::Fsynced)
    }

    /// Opens an empty store that is gone when the process ends, for tests and trials.
    pub fn in_memory() -> Result<Arc<Self>, StoreError> {
        let log = LogFile { opener: log_file::in_memory(), segment_bytes: wal::SEGMENT_BYTES };
        Self::start("the store in memory".to_owned(), file::in_memory(), log, None, Durability::Applied)
    }

    /// Opens the file at `path` with a log so small that nearly every commit makes a checkpoint.
    #[cfg(test)]
    pub(super) fn with_small_log(path: &Path) -> Arc<Self> {
        let opener = file::on_disk(path, RELEASE_GRACE, Reserve::of(path));
        let log = LogFile { opener: log_file::on_disk(path), segment_bytes: 2 * 1024 };
        Self::start(path.display().to_string(), opener, log, None, Durability::Fsynced).unwrap()
    }

    fn start(
        name: String,
        opener: Opener,
        log_file: LogFile,
        reserve: Option<Reserve>,
        durability: Durability,
    ) -> Result<Arc<Self>, StoreError> {
        let (file, found) = StoreFile::open(name, opener)?;
        let (log, layers, facts, unwritten) = match log_file.recover(&file, found)? {
            Some((wal, place, recovered)) => {
                let frozen = (!recovered.frozen.is_empty()).then(|| Arc::new(recovered.frozen));
                let unwritten = frozen.is_some().then_some(Found { facts: recovered.frozen_facts, log: found.log });
                let version = recovered.facts.version;
                let layers = Layers { active: Arc::new(recovered.active), frozen, version };
                (Some(Log { wal, id: found.log, place }), layers, recovered.facts, unwritten)
            }
            None => (None, Layers { version: found.facts.version, ..Layers::default() }, found.facts, None),
        };
        let (file, recent) = (Arc::new(file), Arc::new(Recent::starting_with(layers)));
        let checkpointer = Checkpointer::start(file.clone(), recent.clone(), unwritten)
            .map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))?;
        let clock = Arc::new(Clock::starting_at_least(facts.clock_ms));
        let versions = Arc::new(Versions::starting_at(facts.version));
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (notifications, _) = broadcast::channel(NOTIFICATIONS_MAX);
        let is_locked = durability == Durability::Fsynced;
        let writer = Writer {
            file: file.clone(),
            recent: recent.clone(),
            checkpointer,
            log_file,
            log,
            log_id: rand::random::<u64>().max(1),
            clock: clock.clone(),
            versions: versions.clone(),
            queue: jobs,
            notifications: notifications.clone(),
            durability,
            facts,
            last_failure: None,
            reserve,
            full: None,
        };
        let writer = writer.start()?;
        Ok(Arc::new(Self {
            file,
            recent,
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

    fn read_inline<R>(&self, read: impl FnOnce(&View<'_>) -> ReadResult<R>) -> Result<R, StoreError> {
        let layers = self.recent.read();
        let result = self.file.read(|txn| read(&View::new(&layers, txn)));
        drop(layers);
        self.report(&result);
        result
    }

    /// Reads on another thread. A long read does not hold up commits: it first takes what it needs of the `layers`.
    async fn read_elsewhere<R: Send + 'static>(
        &self,
        layers: impl FnOnce(&Layers) -> Layers + Send + 'static,
        read: impl FnOnce(&View<'_>) -> ReadResult<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (file, recent) = (self.file.clone(), self.recent.clone());
        let result = tokio::task::spawn_blocking(move || {
            let guard = recent.read();
            let layers = layers(&guard);
            file.read(|txn| {
                // From here on, what leaves the layers does not matter.
                drop(guard);
                read(&View::new(&layers, txn))
            })
        });
        let result = result
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(format!("the read was canceled: {error}"))));
        self.report(&result);
        result
    }

    /// Asks the writer to check a file that cannot be read, and to open it again.
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
        self.read_inline(|view| {
            let read = |key: &Key| {
                let value = view.get(Table::Records, &tables::record(namespace, key.kind, &key.id))?;
                value.map(|value| value.record()).transpose()
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
        let end = tables::end_of(&all);
        let (from_key, to_key) = (first.clone(), end.clone());
        let layers =
            move |layers: &Layers| layers.within(Table::Records, Bound::Included(&from_key), Bound::Excluded(&to_key));
        self.read_elsewhere(layers, move |view| {
            let (from, to) = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
            let record = |found: ReadResult<(FoundKey<'_>, Value<'_>)>| {
                let (key, value) = found?;
                let id = key.bytes().get(all.len()..).unwrap_or_default();
                Ok((String::from_utf8_lossy(id).into_owned(), value.record()?))
            };
            view.range(Table::Records, from, to, false)?.take(limit).map(record).collect()
        })
        .await
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        if range.first > range.last {
            return Ok(Vec::new());
        }
        let (first, last) =
            (tables::entry(namespace, stream, range.first), tables::entry(namespace, stream, range.last));
        let (low, high) = (first.clone(), last.clone());
        let read = move |view: &View<'_>| {
            let (from, to) = (Bound::Included(&first[..]), Bound::Included(&last[..]));
            let entry = |found: ReadResult<(FoundKey<'_>, Value<'_>)>| {
                let (key, value) = found?;
                let sequence = key.bytes().last_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                Ok(Entry { sequence, data: value.split_number()?.1 })
            };
            view.range(Table::Entries, from, to, range.newest_first)?.take(range.limit).map(entry).collect()
        };
        if range.limit <= ENTRIES_INLINE_MAX {
            return self.read_inline(read);
        }
        self.read_elsewhere(
            move |layers| layers.within(Table::Entries, Bound::Included(&low), Bound::Included(&high)),
            read,
        )
        .await
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        self.read_inline(|view| {
            let extent = |stream: &String| {
                let value = view.get(Table::Streams, &tables::named(namespace, stream))?;
                tables::extent(value.as_ref().map(Value::bytes))
            };
            streams.iter().map(extent).collect()
        })
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let prefix = tables::prefix(namespace);
        let mut leases = self.read_inline(|view| {
            let mut leases = Leases::default();
            for found in view.prefixed(Table::Leases, &prefix, &tables::end_of(&prefix))? {
                let (key, value) = found?;
                let name = key.bytes().get(prefix.len()..).unwrap_or_default();
                let (until_ms, _) = tables::split_number(value.bytes())?;
                leases.until_ms.insert(String::from_utf8_lossy(name).into_owned(), until_ms);
            }
            Ok(leases)
        })?;
        leases.now_ms = self.clock.now_ms();
        Ok(leases)
    }

    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let usage = self.read_inline(|view| {
            let value = view.get(Table::Usage, &tables::prefix(namespace))?;
            tables::usage(value.as_ref().map(Value::bytes))
        })?;
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

fn writer_gone() -> StoreError {
    StoreError::Unavailable("the store's writer has stopped; restart the coordinator".to_owned())
}
