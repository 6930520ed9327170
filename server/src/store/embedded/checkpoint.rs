//! Checkpoints: writes what the write-ahead log holds to the store's file.
//!
//! When a segment of the log is full, a separate thread writes that segment's changes, so that commits need not wait.
//! Should it fail, it opens the file again and repeats, because the changes are in the log until they are in the file.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use redb::ReadableTable as _;

use super::{
    changes::{Changes, Facts},
    file::{Found, StoreFile, is_full, message, refusing},
    tables::{self, CLOCK_MS, DAY_MS, FACTS, LOG, LOGGED, Open, Result, Table, VERSION},
    view::Recent,
};
use crate::store::{Namespace, StoreError};

/// How long to pause after a failure. Reopening the file can mean reading all of it.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How nice the thread that makes checkpoints is.
#[cfg(target_os = "linux")]
const PRIORITY: i32 = 10;

/// The maximum number of expired idempotency keys that one checkpoint purges, so that purging never makes one slow.
const PURGE_MAX: usize = 16 * 1024;

/// What a checkpoint writes, in this order.
pub(super) struct Checkpoint<'c> {
    pub(super) changes: &'c Changes,
    /// A namespace to drop.
    pub(super) dropped: Option<&'c Namespace>,
    /// What the file contains then.
    pub(super) found: Found,
}

/// Why a checkpoint failed.
enum Failure {
    /// Nothing can have reached the file.
    Before(redb::Error),
    /// The flush failed: the checkpoint may or may not be durable.
    Committing(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Before(error.into())
    }
}

impl Checkpoint<'_> {
    /// Writes the checkpoint. If that fails and the file is open, the file holds none of it.
    pub(super) fn write(&self, file: &StoreFile) -> std::result::Result<(), StoreError> {
        let txn = file.begin_write().map_err(refusing)?;
        let written = AssertUnwindSafe(|| txn.map_err(Failure::Before).and_then(|txn| self.write_in(txn)));
        let failure = match catch_unwind(written) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(panic) => return Err(stop(file, message(&*panic))),
        };
        let (error, may_be_durable) = match failure {
            Failure::Before(error) => (file.explain(error), false),
            Failure::Committing(redb::Error::Io(error)) if is_full(&error) => {
                (file.explain(redb::Error::Io(error)), true)
            }
            Failure::Committing(error) => return Err(stop(file, file.explain(error))),
        };
        tracing::error!(%error, "the store could not write");
        match (may_be_durable, file.reopen()) {
            // The reopened file is the final word on whether the checkpoint is in it.
            (true, Ok(found)) if found == self.found => Ok(()),
            _ => Err(refusing(error)),
        }
    }

    fn write_in(&self, txn: redb::WriteTransaction) -> std::result::Result<(), Failure> {
        for table in Table::ALL {
            let mut open = txn.open_table(table.definition())?;
            for (key, change) in self.changes.of(table) {
                match change {
                    Some(value) => drop(open.insert(key, &**value)?),
                    None => drop(open.remove(key)?),
                }
            }
            if let Some(namespace) = self.dropped {
                drop_namespace(table, &mut open, namespace)?;
            }
            if table == Table::Replies {
                purge_replies(&mut open, self.found.facts.clock_ms)?;
            }
        }
        {
            let mut facts = txn.open_table(FACTS)?;
            let Found { facts: Facts { version, clock_ms, logged }, log } = self.found;
            for (name, number) in [(VERSION, version), (CLOCK_MS, clock_ms), (LOGGED, logged), (LOG, log)] {
                facts.insert(name, number)?;
            }
        }
        txn.commit().map_err(|error| Failure::Committing(error.into()))
    }
}

/// Lowers this thread's priority: no call waits for a checkpoint unless the other half of the log is full, too.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), PRIORITY) {
        tracing::debug!(%error, "checkpoints have the priority of other threads");
    }
}

/// Closes the file until the process restarts, after a failed flush: the kernel may then consider pages written that
/// never reached the disk. Reading them back proves nothing. Also after a panic of redb.
pub(super) fn stop(file: &StoreFile, reason: impl std::fmt::Display) -> StoreError {
    let error =
        StoreError::Unavailable(format!("{reason}; the coordinator does not use the store until it is restarted"));
    tracing::error!(%error, "the store has stopped");
    file.end(error.clone());
    error
}

fn drop_namespace(table: Table, open: &mut Open<'_>, namespace: &Namespace) -> Result<()> {
    if table != Table::Replies {
        return clear(open, &tables::prefix(namespace));
    }
    let mut day = 0;
    while let Some(found) = first_day_from(open, day)? {
        clear(open, &tables::reply(found, namespace, ""))?;
        day = found + 1;
    }
    Ok(())
}

/// Removes everything with this prefix, which must end with a zero byte.
fn clear(table: &mut Open<'_>, prefix: &[u8]) -> Result<()> {
    let end = tables::end_of(prefix);
    Ok(table.retain_in(prefix..end.as_slice(), |_, _| false)?)
}

fn first_day_from(replies: &Open<'_>, day: u64) -> Result<Option<u64>> {
    let from = day.to_be_bytes();
    match replies.range(from.as_slice()..)?.next() {
        Some(entry) => Ok(Some(tables::split_number(entry?.0.value())?.0)),
        None => Ok(None),
    }
}

/// Removes idempotency keys that have expired, but not too many.
fn purge_replies(replies: &mut Open<'_>, now_ms: u64) -> Result<()> {
    let yesterday = (now_ms / DAY_MS).saturating_sub(1).to_be_bytes();
    for entry in replies.extract_from_if(..yesterday.as_slice(), |_, _| true)?.take(PURGE_MAX) {
        entry?;
    }
    Ok(())
}

/// The thread that makes checkpoints.
#[derive(Debug)]
pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    file: Arc<StoreFile>,
    recent: Arc<Recent>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the file contains once it has the frozen changes. `None` if none are frozen.
    wanted: Option<Found>,
    /// Why it does not have them yet.
    failure: Option<StoreError>,
    /// The store is being closed.
    has_ended: bool,
}

impl Checkpointer {
    /// Starts the thread. `wanted`: as in [`Checkpointer::begin`], if changes are frozen already.
    pub(super) fn start(file: Arc<StoreFile>, recent: Arc<Recent>, wanted: Option<Found>) -> io::Result<Self> {
        let state = Mutex::new(State { wanted, ..State::default() });
        let shared = Arc::new(Shared { file, recent, state, changed: Condvar::new() });
        let given = shared.clone();
        let thread = thread::Builder::new().name("store-checkpoint".to_owned()).spawn(move || given.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Begins to write the frozen changes. `wanted`: what the file contains then.
    pub(super) fn begin(&self, wanted: Found) {
        self.shared.state.lock().wanted = Some(wanted);
        self.shared.changed.notify_all();
    }

    /// Waits until no changes are frozen. Fails if they cannot be written now.
    pub(super) fn wait(&self) -> std::result::Result<(), StoreError> {
        let mut state = self.shared.state.lock();
        while state.wanted.is_some() {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            self.shared.changed.wait(&mut state);
        }
        Ok(())
    }

    /// Returns why the frozen changes cannot be written.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.shared.state.lock().failure.clone()
    }

    /// Tries again now, after a failure.
    pub(super) fn retry(&self) {
        self.shared.state.lock().failure = None;
        self.shared.changed.notify_all();
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        yield_to_others();
        let mut state = self.state.lock();
        while !state.has_ended {
            let Some(found) = state.wanted else {
                self.changed.wait(&mut state);
                continue;
            };
            drop(state);
            let result = self.checkpoint(found);
            state = self.state.lock();
            match result {
                Ok(()) => *state = State { wanted: None, failure: None, has_ended: state.has_ended },
                Err(error) => state.failure = Some(error),
            }
            self.changed.notify_all();
            while state.failure.is_some() && !state.has_ended {
                if self.changed.wait_for(&mut state, RETRY_PAUSE).timed_out() {
                    break;
                }
            }
        }
    }

    fn checkpoint(&self, found: Found) -> std::result::Result<(), StoreError> {
        self.file.ensure_open()?;
        let frozen = self.recent.read().frozen.clone().unwrap_or_default();
        Checkpoint { changes: &frozen, dropped: None, found }.write(&self.file)?;
        self.recent.thaw();
        Ok(())
    }
}
