//! The open file: how it is opened, and what happens to it when the disk fails.

use std::{
    any::Any,
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::FileExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;
use parking_lot::{Mutex, MutexGuard, RwLock};
use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, WriteTransaction, backends,
};

use super::{
    changes::Facts,
    place::Place,
    reserve::Reserve,
    tables::{CLOCK_MS, FACTS, FORMAT, LOG, LOGGED, Result, Table, VERSION, WRITTEN_BY},
};
use crate::store::{FORMAT_KNOWN, StoreError, newer_format};

/// The size of the page cache.
const CACHE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long redb's magic number is, with which a file begins.
const MAGIC_BYTES: usize = 9;

/// The first part of a file, which holds its header.
const HEADER_BYTES: u64 = 4 * 1024;

/// The interval at which opening retries a file that is in use.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// Opens the database. Called again after every disk failure, because redb stops using a file that failed.
pub(super) type Opener = Box<dyn Fn() -> std::result::Result<Opened, DatabaseError> + Send + Sync>;

/// An open database.
pub(super) struct Opened {
    database: Database,
    /// Where its file is. `None` if it has no file.
    place: Option<Place>,
}

impl From<Database> for Opened {
    /// Returns a database that has no file.
    fn from(database: Database) -> Self {
        Self { database, place: None }
    }
}

/// The file of a store.
pub(super) struct StoreFile {
    name: String,
    opener: Opener,
    state: RwLock<Access>,
    /// Held by the thread that opens the file again.
    reopening: Mutex<()>,
}

enum Access {
    Open(Opened),
    /// Closed after a failure that may pass, such as a full disk; holds the reason.
    Closed(String),
    /// Closed for good, by [`StoreFile::close`] or by a failure after which this process must not continue.
    Ended(StoreError),
}

/// What the file says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// What its tables contain.
    pub(super) facts: Facts,
    /// The id of the write-ahead log that may continue them. Zero if they are complete.
    pub(super) log: u64,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StoreFile {
    /// Opens the database with `opener`. Errors call it `name`.
    pub(super) fn open(name: String, opener: Opener) -> std::result::Result<(Self, Found), StoreError> {
        let state = RwLock::new(Access::Closed(String::new()));
        let file = Self { name, opener, state, reopening: Mutex::default() };
        let found = file.reopen()?;
        Ok((file, found))
    }

    /// Returns what errors call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Opens the database again if it is closed after a failure. Fails if it is closed for good.
    pub(super) fn ensure_open(&self) -> std::result::Result<(), StoreError> {
        let reopening = self.reopening.lock();
        match &*self.state.read() {
            Access::Open(_) => return Ok(()),
            Access::Ended(error) => return Err(error.clone()),
            Access::Closed(_) => {}
        }
        self.reopen_alone(&reopening).map(drop).map_err(refusing)
    }

    /// Closes the database and opens it again.
    pub(super) fn reopen(&self) -> std::result::Result<Found, StoreError> {
        self.reopen_alone(&self.reopening.lock())
    }

    fn reopen_alone(&self, _reopening: &MutexGuard<'_, ()>) -> std::result::Result<Found, StoreError> {
        // Drop the old database first, so that the file can be locked again.
        self.set(Access::Closed(format!("{} is being opened", self.name)));
        let opened = catch_panic(|| {
            let opened = (self.opener)()?;
            let found = prepare(&self.name, &opened.database)?;
            Ok((opened, found))
        });
        match opened {
            Ok((opened, found)) => {
                self.set(Access::Open(opened));
                Ok(found)
            }
            Err(error) => {
                let error = self.explain(error);
                self.set(Access::Closed(error.to_string()));
                Err(error)
            }
        }
    }

    /// Closes the file until the process ends. Every later call fails with `error`.
    pub(super) fn end(&self, error: StoreError) {
        self.set(Access::Ended(error));
    }

    /// Closes the file.
    pub(super) fn close(&self) {
        self.end(StoreError::Unavailable(format!("{} was closed", self.name)));
    }

    /// Reads a snapshot.
    pub(super) fn read<R>(
        &self,
        read: impl FnOnce(ReadTransaction) -> Result<R>,
    ) -> std::result::Result<R, StoreError> {
        let txn = match &*self.state.read() {
            Access::Open(opened) => opened.database.begin_read(),
            Access::Closed(reason) => return Err(StoreError::Unavailable(reason.clone())),
            Access::Ended(error) => return Err(error.clone()),
        };
        catch_panic(|| read(txn?)).map_err(|error| self.explain(error))
    }

    /// Fails if the file is open but its path leads elsewhere, because it was deleted or replaced.
    pub(super) fn check_place(&self) -> std::result::Result<(), StoreError> {
        match &*self.state.read() {
            Access::Open(Opened { place: Some(place), .. }) => place.check(),
            _ => Ok(()),
        }
    }

    /// Begins a write transaction. The file has one at a time.
    pub(super) fn begin_write(&self) -> std::result::Result<Result<WriteTransaction>, StoreError> {
        match &*self.state.read() {
            Access::Open(opened) => Ok(opened.database.begin_write().map_err(redb::Error::from)),
            Access::Closed(reason) => Err(StoreError::Unavailable(reason.clone())),
            Access::Ended(error) => Err(error.clone()),
        }
    }

    /// Finds out whether redb still uses the file, by a transaction that it gives up.
    pub(super) fn check_usable(&self) -> std::result::Result<(), StoreError> {
        let txn = self.begin_write()?;
        let checked = catch_panic(|| {
            let txn = txn?;
            for table in Table::ALL {
                txn.open_table(table.definition())?;
            }
            Ok(txn.abort()?)
        });
        checked.map_err(|error| self.explain(error))
    }

    /// Returns whether the file is open.
    pub(super) fn is_open(&self) -> bool {
        matches!(*self.state.read(), Access::Open(_))
    }

    /// Returns whether the file is closed for good.
    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.state.read(), Access::Ended(_))
    }

    /// Converts an error of redb into one of the store.
    pub(super) fn explain(&self, error: redb::Error) -> StoreError {
        let name = &self.name;
        match error {
            redb::Error::DatabaseAlreadyOpen => StoreError::Unavailable(format!("another coordinator has {name} open")),
            redb::Error::Corrupted(reason) => StoreError::Corrupt(format!("{name} is damaged: {reason}")),
            redb::Error::Io(error) if is_full(&error) => StoreError::Full(format!("{name}: {error}")),
            // From the opener or from `prepare`.
            redb::Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<Unusable>()) => {
                StoreError::Unusable(error.to_string())
            }
            redb::Error::UpgradeRequired(format) => {
                StoreError::Corrupt(format!("{name} is in the file format {format}, which is too old"))
            }
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                StoreError::Corrupt(format!("{name} is not a store, or is damaged: {error}"))
            }
            redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                StoreError::Corrupt(format!("{name} is cut short: {error}"))
            }
            error => StoreError::Unavailable(format!("{name}: {error}")),
        }
    }

    fn set(&self, state: Access) {
        let old = {
            let mut current = self.state.write();
            if matches!(*current, Access::Ended(_)) {
                return;
            }
            std::mem::replace(&mut *current, state)
        };
        // Closing commits, so do it outside the lock, where no reader waits. After redb panicked once, it panics here
        // again.
        let closed = catch_panic(|| {
            drop(old);
            Ok(())
        });
        if let Err(error) = closed {
            tracing::error!(error = %self.explain(error), "the store could not be closed cleanly");
        }
    }
}

/// Why this program must not use the file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

impl From<Unusable> for redb::Error {
    fn from(unusable: Unusable) -> Self {
        Self::Io(io::Error::other(unusable))
    }
}

/// Marks the error of a commit that was certainly not applied.
pub(super) fn refusing(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(reason) => StoreError::Refusing(reason),
        error => error,
    }
}

/// Returns whether a disk is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Runs code that reads the file. redb panics on some kinds of damage; that becomes an error.
fn catch_panic<R>(run: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(redb::Error::Corrupted(message(&*panic).to_owned())))
}

/// Returns what a panic said.
pub(super) fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "no reason given",
    }
}

/// Creates the tables of a new file, or reads the facts of an existing one. `name` is the file's, for errors.
fn prepare(name: &str, database: &Database) -> Result<Found> {
    let txn = database.begin_write()?;
    let mut facts = txn.open_table(FACTS)?;
    let fact = |name| -> Result<Option<u64>> { Ok(facts.get(name)?.map(|number| number.value())) };
    let known = |name| -> Result<u64> { Ok(fact(name)?.unwrap_or(0)) };
    let found = Found {
        facts: Facts { version: known(VERSION)?, clock_ms: known(CLOCK_MS)?, logged: known(LOGGED)? },
        log: known(LOG)?,
    };
    let format = fact(FORMAT)?;
    let written_by = fact(WRITTEN_BY)?.map(release_name);
    match format {
        Some(FORMAT_KNOWN) => {
            drop(facts);
            txn.abort()?;
        }
        Some(newer) => return Err(Unusable(newer_format(name, newer, written_by.as_deref())).into()),
        None => {
            facts.insert(FORMAT, FORMAT_KNOWN)?;
            facts.insert(WRITTEN_BY, RELEASE)?;
            drop(facts);
            for table in Table::ALL {
                txn.open_table(table.definition())?;
            }
            txn.commit()?;
        }
    }
    Ok(found)
}

/// This release: a thousand to the power of two times its major version, and so on.
const RELEASE: u64 = {
    let (major, minor, patch) = (
        number(env!("CARGO_PKG_VERSION_MAJOR")),
        number(env!("CARGO_PKG_VERSION_MINOR")),
        number(env!("CARGO_PKG_VERSION_PATCH")),
    );
    (major * 1_000 + minor) * 1_000 + patch
};

const fn number(digits: &str) -> u64 {
    let (digits, mut number, mut at) = (digits.as_bytes(), 0, 0);
    while at < digits.len() {
        number = number * 10 + (digits[at] - b'0') as u64;
        at += 1;
    }
    number
}

fn release_name(release: u64) -> String {
    format!("{}.{}.{}", release / 1_000_000, release / 1_000 % 1_000, release % 1_000)
}

/// Returns an opener for the file at `path`, which waits up to `grace` for another process to release it. It creates a
/// missing file, unless the reserve shows that there was one.
pub(super) fn on_disk(path: &Path, grace: Duration, reserve: Reserve) -> Opener {
    let path = path.to_owned();
    Box::new(move || {
        let asked = Instant::now();
        if let Some(loss) = reserve.find_loss() {
            return Err(io::Error::other(Unusable(loss)).into());
        }
        loop {
            let file = create(&path)?;
            let place = Some(Place::of(&path, &file)?);
            match empty_if_unfinished(&file).and_then(|()| builder(&path).create_file(file)) {
                Err(DatabaseError::DatabaseAlreadyOpen) if asked.elapsed() < grace => thread::sleep(RELEASE_POLL),
                database => return Ok(Opened { database: database?, place }),
            }
        }
    })
}

/// Returns an opener for a database in memory, which succeeds once.
pub(super) fn in_memory() -> Opener {
    let opened = AtomicBool::new(false);
    Box::new(move || {
        if opened.swap(true, Ordering::Relaxed) {
            return Err(io::Error::other("a store in memory cannot be reopened").into());
        }
        Builder::new().create_with_backend(backends::InMemoryBackend::new()).map(Opened::from)
    })
}

fn builder(path: &Path) -> Builder {
    let path: PathBuf = path.to_owned();
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES_MAX).set_repair_callback(move |repair| {
        if repair.progress() == 0.0 {
            tracing::info!(path = %path.display(), "checking the store, which was not closed cleanly");
        }
    });
    builder
}

/// Empties a file whose creation was interrupted: redb would take it for damaged. Locks such a file for as long as it is
/// open, because another process may be about to finish it.
fn empty_if_unfinished(file: &File) -> std::result::Result<(), DatabaseError> {
    if is_finished(file)? {
        return Ok(());
    }
    match file.try_lock() {
        Ok(()) if is_finished(file)? => Ok(()),
        Ok(()) => Ok(file.set_len(0)?),
        Err(TryLockError::WouldBlock) => Err(DatabaseError::DatabaseAlreadyOpen),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Returns whether a file is empty or may hold a store. redb first gives a new file its size and a header without the
/// magic number, and writes the magic number when that is on the disk.
fn is_finished(file: &File) -> io::Result<bool> {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let mut magic = [0; MAGIC_BYTES];
    let length = file.metadata()?.len();
    if length == 0 || file.read_at(&mut magic, 0)? == 0 || !is_zero(&magic) {
        return Ok(true);
    }
    let (mut at, mut bytes) = (HEADER_BYTES, vec![0; 64 * 1024]);
    while at < length {
        let read = file.read_at(&mut bytes, at)?;
        if read == 0 {
            break;
        }
        if !is_zero(&bytes[..read]) {
            return Ok(true);
        }
        at += read as u64;
    }
    Ok(false)
}

/// Opens or creates a file of the store, with access for this user only, and flushes it and its directory to the disk.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    flush(path, &file)?;
    // Without this, a power failure could lose a new file entirely, including everything flushed to it.
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        flush(directory, &File::open(directory)?)?;
    }
    Ok(file)
}

/// Flushes a file or a directory to the disk. Says so if its file system cannot do that.
fn flush(path: &Path, file: &File) -> io::Result<()> {
    file.sync_all().map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EINVAL | Errno::ENOSYS | Errno::ENOTTY | Errno::EOPNOTSUPP) => io::Error::other(Unusable(format!(
            "the file system of {} cannot flush to a disk ({error}), so a power failure could lose confirmed changes: \
                 choose a directory on a local disk with --state-dir or --store",
            path.display()
        ))),
        _ => error,
    })
}
