//! Tests of the embedded store: the store contract, in memory and on disk, and failures specific to files.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::FutureExt;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redb::{Builder, StorageBackend, backends, backends::FileBackend};
use tempfile::TempDir;

use super::*;
use crate::store::{
    Check, Write,
    conformance::{Harness, append, for_each_promise, namespace, put, remember, weighed},
};

fn harness(store: Arc<EmbeddedStore>, keeps: impl Send + Sync + 'static) -> Harness {
    let raw = store.clone();
    Harness {
        store: store.clone(),
        second: store,
        raw_keys: Box::new(move |namespace| std::future::ready(raw_keys(&raw, &namespace)).boxed()),
        _keeps: Box::new(keeps),
    }
}

fn raw_keys(store: &EmbeddedStore, namespace: &Namespace) -> Vec<String> {
    let (prefix, mut keys) = (tables::prefix(namespace), Vec::new());
    let list = |view: &View<'_>| {
        for table in Table::ALL {
            for found in view.range(table, Bound::Unbounded, Bound::Unbounded, false)? {
                let key = found?.0.bytes().to_vec();
                if key.starts_with(&prefix) || key.get(8..).is_some_and(|key| key.starts_with(&prefix)) {
                    keys.push(format!("{table:?}: {}", key.escape_ascii()));
                }
            }
        }
        Ok(())
    };
    store.read_inline(list).unwrap();
    keys
}

mod in_memory {
    use super::*;

    async fn open() -> Option<Harness> {
        Some(harness(EmbeddedStore::in_memory().unwrap(), ()))
    }

    for_each_promise!(open);
}

mod on_disk {
    use super::*;

    async fn open() -> Option<Harness> {
        let directory = tempfile::tempdir().unwrap();
        Some(harness(EmbeddedStore::open(&directory.path().join("store")).unwrap(), directory))
    }

    for_each_promise!(open);
}

/// On a disk with a log so small that nearly every commit makes a checkpoint.
mod with_small_log {
    use super::*;

    async fn open() -> Option<Harness> {
        let directory = tempfile::tempdir().unwrap();
        Some(harness(EmbeddedStore::with_small_log(&directory.path().join("store")), directory))
    }

    for_each_promise!(open);
}

async fn commit(store: &EmbeddedStore, writes: Vec<Write>) -> Result<crate::store::Commit, StoreError> {
    match store.commit(&namespace("a"), &Txn { checks: vec![], writes, ..Txn::default() }).await? {
        Outcome::Committed(commit) => Ok(commit),
        Outcome::Refused(failed) => panic!("refused: {failed:?}"),
    }
}

async fn sequences(store: &EmbeddedStore) -> Vec<u64> {
    let found = store.range(&namespace("a"), "s", Range::after(0, 10_000)).await.unwrap();
    found.into_iter().map(|entry| entry.sequence).collect()
}

fn file() -> (TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    (directory, path)
}

#[tokio::test]
async fn reopened_store_has_everything() {
    let (_directory, path) = file();
    let key = Key::new("member", "x");
    let store = EmbeddedStore::open(&path).unwrap();
    let writes = vec![put(&key, "kept"), append("s", "1"), append("s", "2"), remember("k", "seen")];
    let first = commit(&store, writes).await.unwrap();
    assert_eq!(first.durability, Durability::Fsynced);
    let lease = Write::Lease { name: "l".to_owned(), ttl: Duration::from_secs(60) };
    let second =
        commit(&store, vec![Write::Remove { stream: "s".to_owned(), sequences: vec![1] }, lease]).await.unwrap();
    drop(store);

    let store = EmbeddedStore::open(&path).unwrap();
    let read = store.read(&namespace("a"), std::slice::from_ref(&key)).await.unwrap().remove(0).unwrap();
    assert_eq!((read.version, &read.data[..]), (first.version, &b"kept"[..]));
    assert_eq!(sequences(&store).await, [2]);
    assert_eq!(store.leases(&namespace("a")).await.unwrap().until_ms["l"], second.at_ms + 60_000);
    let txn = Txn { checks: vec![Check::KeyUnused { key: "k".to_owned() }], ..Txn::default() };
    assert!(matches!(store.commit(&namespace("a"), &txn).await.unwrap(), Outcome::Refused(_)));
    let third = commit(&store, vec![put(&key, "again"), append("s", "3")]).await.unwrap();
    assert!(third.version > second.version && third.at_ms >= second.at_ms);
    assert_eq!(third.appended, [Some(3)]);
}

#[tokio::test]
async fn versions_continue_after_everything_was_dropped() {
    let (_directory, path) = file();
    let mut last = 0;
    for _ in 0..3 {
        let store = EmbeddedStore::open(&path).unwrap();
        let version = commit(&store, vec![put(&Key::new("member", "x"), "")]).await.unwrap().version;
        assert!(version > last);
        last = commit(&store, vec![Write::DropNamespace]).await.unwrap().version;
    }
}

#[tokio::test]
async fn second_coordinator_learns_that_the_file_is_in_use() {
    let (_directory, path) = file();
    let _first = EmbeddedStore::open(&path).unwrap();
    let error = EmbeddedStore::open_within(&path, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("another coordinator has"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_cannot_be_flushed_is_refused_with_advice() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let error = EmbeddedStore::open_within(&path, Duration::ZERO).unwrap_err();
    let StoreError::Unusable(text) = error else { panic!("{error}") };
    let begins = format!("the file system of {} cannot flush to a disk", path.display());
    assert!(text.starts_with(&begins) && text.contains("choose a directory on a local disk"), "{text}");
}

#[tokio::test]
async fn opening_waits_for_a_file_about_to_be_released() {
    let (_directory, path) = file();
    let first = EmbeddedStore::open(&path).unwrap();
    let second = tokio::task::spawn_blocking(move || EmbeddedStore::open_within(&path, Duration::from_secs(60)));
    drop(first);
    commit(&second.await.unwrap().unwrap(), vec![append("s", "")]).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let (_directory, path) = file();
    let _store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn missing_directory_is_named() {
    let (directory, _) = file();
    let error = EmbeddedStore::open(&directory.path().join("missing/store")).unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(reason) if reason.contains("missing/store")), "{error}");
}

#[tokio::test]
async fn file_that_is_not_a_store_is_left_alone() {
    let (_directory, path) = file();
    let text = "not a store at all\n".repeat(1_000);
    fs::write(&path, &text).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn file_of_a_newer_version_is_refused_and_said_to_be_newer() {
    let (_directory, path) = file();
    drop(EmbeddedStore::open(&path).unwrap());
    let database = redb::Database::create(&path).unwrap();
    let txn = database.begin_write().unwrap();
    txn.open_table(tables::FACTS).unwrap().insert(tables::FORMAT, 2).unwrap();
    txn.open_table(tables::FACTS).unwrap().insert(tables::WRITTEN_BY, 9_008_007).unwrap();
    txn.commit().unwrap();
    drop(database);
    let error = EmbeddedStore::open(&path).unwrap_err();
    let StoreError::Unusable(text) = &error else { panic!("{error:?}") };
    for part in ["written by teamwire 9.8.7 in format 2", "up to format 1", "Upgrade teamwire"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn file_that_is_gone_is_not_replaced_by_an_empty_one() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(&path).unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("is missing")), "{error}");
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("is empty")), "{error}");
    fs::write(&path, whole).unwrap();
    assert_eq!(sequences(&EmbeddedStore::open(&path).unwrap()).await, [1]);
}

#[tokio::test]
async fn file_deleted_or_replaced_while_open_takes_no_commits_until_it_is_back() {
    let (directory, path) = file();
    let store = EmbeddedStore::open(&path).unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    let away = directory.path().join("away");
    for state in ["was deleted", "was replaced"] {
        fs::rename(&path, &away).unwrap();
        if state == "was replaced" {
            fs::copy(&away, &path).unwrap();
        }
        let refused = commit(&store, vec![append("s", "y")]).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unusable(text) if text.contains(state)), "{refused}");
        assert_eq!(store.check_writable().await.unwrap_err(), refused);
        assert_eq!(sequences(&store).await.len(), if state == "was deleted" { 1 } else { 2 });
        fs::rename(&away, &path).unwrap();
        store.check_writable().await.unwrap();
        commit(&store, vec![append("s", "z")]).await.unwrap();
    }
    assert_eq!(sequences(&store).await, [1, 2, 3]);
    fs::remove_dir_all(&directory).unwrap();
    assert!(matches!(commit(&store, vec![append("s", "y")]).await, Err(StoreError::Unusable(_))));
    assert!(!path.exists());
}

#[tokio::test]
async fn expired_idempotency_keys_are_purged() {
    let store = EmbeddedStore::in_memory().unwrap();
    let now_ms = store.clock.now_ms();
    let txn = store.file.begin_write().unwrap().unwrap();
    let old = tables::reply(now_ms / tables::DAY_MS - 2, &namespace("a"), "old");
    let yesterday = tables::reply(now_ms / tables::DAY_MS - 1, &namespace("a"), "yesterday");
    for key in [&old, &yesterday] {
        txn.open_table(Table::Replies.definition()).unwrap().insert(key.as_slice(), b"".as_slice()).unwrap();
    }
    txn.commit().unwrap();
    // Dropping a namespace makes a checkpoint.
    let drop = Txn { writes: vec![Write::DropNamespace], ..Txn::default() };
    store.commit(&namespace("b"), &drop).await.unwrap();
    let keys = raw_keys(&store, &namespace("a"));
    assert!(keys.iter().any(|key| key.ends_with("yesterday")), "{keys:?}");
    assert!(!keys.iter().any(|key| key.ends_with("old")), "{keys:?}");
}

/// The files of a store, by their suffixes, copied while it is open, as a kill might leave them: 40 commits, some of them
/// in the store's file, some in each segment of the log.
struct Killed {
    directory: TempDir,
    files: [(&'static str, Vec<u8>); 2],
}

const KILLED_COMMITS: usize = 40;

impl Killed {
    async fn new() -> Self {
        let (directory, path) = file();
        let store = EmbeddedStore::with_small_log(&path);
        for _ in 0..KILLED_COMMITS {
            let writes = vec![append("s", "some data that is there to be torn"), put(&Key::new("m", "x"), "y")];
            commit(&store, writes).await.unwrap();
        }
        while store.recent.read().frozen.is_some() {
            tokio::task::yield_now().await;
        }
        let files = ["", ".wal"].map(|suffix| (suffix, fs::read(place::beside(&path, suffix)).unwrap()));
        Self { directory, files }
    }

    /// Opens the files, after a change to the one with this suffix.
    async fn open_after(&self, suffix: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<usize, StoreError> {
        let path = self.directory.path().join("torn");
        let mut change = Some(change);
        for (of, contents) in &self.files {
            let mut contents = contents.clone();
            if *of == suffix {
                change.take().unwrap()(&mut contents);
            }
            fs::write(place::beside(&path, of), contents).unwrap();
        }
        let store = EmbeddedStore::open(&path)?;
        let found = sequences(&store).await;
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>());
        let record = store.read(&namespace("a"), &[Key::new("m", "x")]).await?.remove(0);
        assert_eq!(record.is_some(), !found.is_empty());
        commit(&store, vec![append("s", "")]).await.unwrap();
        drop(store);
        let store = EmbeddedStore::open(&path)?;
        assert_eq!(sequences(&store).await.len(), found.len() + 1);
        Ok(found.len())
    }
}

#[tokio::test]
async fn killed_store_opens_at_its_last_commit() {
    let killed = Killed::new().await;
    assert_eq!(killed.open_after("", |_| {}).await.unwrap(), KILLED_COMMITS);
}

#[tokio::test]
async fn truncated_file_opens_intact_or_reports_the_damage() {
    let killed = Killed::new().await;
    let mut opened = 0;
    for (suffix, contents) in &killed.files {
        let step = contents.len() / 40;
        for length in (0..contents.len()).step_by(step).chain([1, 8, 63, 64, 320, 512, 4095, contents.len() - 1]) {
            match killed.open_after(suffix, |contents| contents.truncate(length)).await {
                Ok(_) => opened += 1,
                Err(StoreError::Corrupt(reason)) => assert!(reason.contains("torn"), "{length} bytes: {reason}"),
                Err(StoreError::Unusable(reason)) if length == 0 => assert!(reason.contains("is empty"), "{reason}"),
                Err(error) => panic!("{length} bytes of {suffix}: {error}"),
            }
        }
    }
    assert!(opened >= 1);
}

#[tokio::test]
async fn torn_file_opens_without_what_was_torn_or_is_reported() {
    let killed = Killed::new().await;
    let mut outcomes = std::collections::BTreeMap::new();
    for (suffix, contents) in &killed.files {
        let step = if suffix.is_empty() { 4096 } else { 512 };
        for offset in (0..contents.len() - 511).step_by(step) {
            let torn = |contents: &mut Vec<u8>| contents[offset..offset + 512].fill(0xa5);
            let outcome = match killed.open_after(suffix, torn).await {
                Ok(found) => {
                    // Nothing shows that the last record was complete.
                    assert!(found >= KILLED_COMMITS - 1, "{suffix} at {offset}: {found} entries");
                    if found == KILLED_COMMITS { "whole" } else { "without the last commit" }
                }
                Err(StoreError::Corrupt(reason)) => {
                    assert!(reason.contains("torn"), "{suffix} at {offset}: {reason}");
                    "refused"
                }
                Err(error) => panic!("{suffix} at {offset}: {error}"),
            };
            *outcomes.entry((*suffix, outcome)).or_insert(0) += 1;
        }
    }
    for seen in [("", "refused"), (".wal", "refused"), (".wal", "whole"), (".wal", "without the last commit")] {
        assert!(outcomes.contains_key(&seen), "{seen:?}: {outcomes:?}");
    }
}

#[tokio::test]
async fn missing_log_is_reported_and_an_empty_one_stands_for_its_loss() {
    let (_directory, path) = file();
    let log = place::beside(&path, ".wal");
    let killed = Killed::new().await;
    let [(_, store), _] = &killed.files;
    fs::write(&path, store).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("store.wal, which is missing")), "{error}");
    assert!(!log.exists());
    fs::write(&log, "").unwrap();
    let found = sequences(&EmbeddedStore::open(&path).unwrap()).await;
    assert!(!found.is_empty() && found.len() < KILLED_COMMITS, "{found:?}");
}

#[tokio::test]
async fn log_of_another_store_or_of_a_later_state_is_refused() {
    let [first, second] = [Killed::new().await, Killed::new().await];
    let error = first.open_after(".wal", |log| log.clone_from(&second.files[1].1)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unusable(text) if text.contains("log of another store")), "{error}");

    let (_directory, path) = file();
    let store = EmbeddedStore::with_small_log(&path);
    commit(&store, vec![append("s", "first")]).await.unwrap();
    let early = fs::read(&path).unwrap();
    for _ in 0..KILLED_COMMITS {
        commit(&store, vec![append("s", "some data that makes checkpoints")]).await.unwrap();
    }
    let log = fs::read(place::beside(&path, ".wal")).unwrap();
    let [restored, restored_log] = ["", ".wal"].map(|suffix| place::beside(&path.with_extension("old"), suffix));
    fs::write(&restored, early).unwrap();
    fs::write(restored_log, log).unwrap();
    let error = EmbeddedStore::open(&restored).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(text) if text.contains("is missing or cannot be read")), "{error}");
}

#[tokio::test]
async fn closed_store_is_complete_without_its_log() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(&path).unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    store.close().await;
    drop(store);
    fs::remove_file(place::beside(&path, ".wal")).unwrap();
    assert_eq!(sequences(&EmbeddedStore::open(&path).unwrap()).await, [1]);
}

/// A log reuses the space of an earlier one, whatever became of that.
#[tokio::test]
async fn log_that_was_cut_while_the_store_was_closed_is_extended_again() {
    let (_directory, path) = file();
    drop(EmbeddedStore::open(&path).unwrap());
    let log = place::beside(&path, ".wal");
    for length in [0, 1, 4_096, 5_000, 9_000] {
        fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(length).unwrap();
        let store = EmbeddedStore::open(&path).unwrap();
        let sequence = commit(&store, vec![append("s", "x")]).await.unwrap().appended[0].unwrap();
        let copy = path.with_extension(length.to_string());
        for suffix in ["", ".wal"] {
            fs::copy(place::beside(&path, suffix), place::beside(&copy, suffix)).unwrap();
        }
        drop(store);
        assert_eq!(sequences(&EmbeddedStore::open(&copy).unwrap()).await.last(), Some(&sequence), "{length} bytes");
    }
}

#[tokio::test]
async fn transaction_that_is_larger_than_the_log_is_committed() {
    let (_directory, path) = file();
    let store = EmbeddedStore::open(&path).unwrap();
    let large: &'static str = "x".repeat(3 << 20).leak();
    commit(&store, vec![append("s", "1")]).await.unwrap();
    commit(&store, vec![append("s", large), append("s", "3")]).await.unwrap();
    commit(&store, vec![append("s", "4")]).await.unwrap();
    assert_eq!(sequences(&store).await, [1, 2, 3, 4]);
    drop(store);
    assert_eq!(sequences(&EmbeddedStore::open(&path).unwrap()).await, [1, 2, 3, 4]);
}

/// A disk that can be full or broken.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    faults: Arc<Faults>,
    /// Its space was allocated when it was extended.
    is_log: bool,
}

#[derive(Debug, Default)]
struct Faults {
    full: AtomicBool,
    broken: AtomicBool,
    panics: AtomicBool,
    unreadable: AtomicBool,
}

impl Faults {
    fn check(&self) -> std::io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        if !self.is_log && self.faults.unreadable.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the disk cannot be read"));
        }
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.faults.check()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        if self.faults.broken.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the flush failed"));
        }
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        if !self.is_log {
            assert!(!self.faults.panics.load(Ordering::Relaxed), "what redb makes of a damaged file");
            self.faults.check()?;
        }
        self.file.write(offset, data)
    }
}

fn on_faulty_disk(path: &Path) -> (Arc<EmbeddedStore>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let disk = |path: std::path::PathBuf, is_log| {
        let faults = faults.clone();
        move || {
            let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            let file = FileBackend::new(file).map_err(std::io::Error::other)?;
            std::io::Result::Ok(Disk { file, faults: faults.clone(), is_log })
        }
    };
    let (base, log) = (disk(path.to_owned(), false), disk(place::beside(path, ".wal"), true));
    let opener: Opener =
        Box::new(move || redb::Builder::new().set_cache_size(0).create_with_backend(base()?).map(file::Opened::from));
    let log: log_file::LogOpener = Box::new(move |_| Ok(log_file::Opened { disk: Box::new(log()?), place: None }));
    let log = LogFile { opener: log, segment_bytes: 2 * 1024 };
    (EmbeddedStore::start("the store".to_owned(), opener, log, None, Durability::Fsynced).unwrap(), faults)
}

/// An operation on a disk.
#[derive(Clone, Debug)]
enum Step {
    Wrote(u64, Vec<u8>),
    Resized(u64),
    Flushed,
}

/// A disk that records its operations.
#[derive(Debug)]
struct RecordingDisk {
    disk: backends::InMemoryBackend,
    /// The store's other disk has the same list.
    steps: Arc<Mutex<Vec<(usize, Step)>>>,
    number: usize,
}

impl RecordingDisk {
    fn note(&self, step: Step) {
        self.steps.lock().push((self.number, step));
    }
}

impl StorageBackend for RecordingDisk {
    fn len(&self) -> std::io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.note(Step::Resized(len));
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> std::io::Result<()> {
        self.note(Step::Flushed);
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.note(Step::Wrote(offset, data.to_vec()));
        self.disk.write(offset, data)
    }
}

/// Returns possible contents of a disk whose power failed after these steps: everything flushed, and a random subset of
/// the sectors written later.
fn after_power_failed(steps: &[(usize, Step)], number: usize, random: &mut StdRng) -> Vec<u8> {
    const SECTOR: usize = 512;
    let steps: Vec<&Step> = steps.iter().filter(|(of, _)| *of == number).map(|(_, step)| step).collect();
    let flushed = steps.iter().rposition(|step| matches!(step, Step::Flushed)).map_or(0, |at| at + 1);
    let mut disk = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let mut stays = || at < flushed || random.random_bool(0.5);
        match step {
            Step::Wrote(offset, data) => {
                let offset = usize::try_from(*offset).unwrap();
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    let from = offset + number * SECTOR;
                    if stays() {
                        disk.resize(disk.len().max(from + sector.len()), 0);
                        disk[from..from + sector.len()].copy_from_slice(sector);
                    }
                }
            }
            Step::Resized(len) if stays() => disk.resize(usize::try_from(*len).unwrap(), 0),
            _ => {}
        }
    }
    disk
}

#[tokio::test]
async fn power_failure_keeps_acknowledged_commits_and_tears_none() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let disk = |number| {
        let steps = steps.clone();
        move || RecordingDisk { disk: backends::InMemoryBackend::new(), steps: steps.clone(), number }
    };
    let (base, log) = (disk(0), disk(1));
    let opener: Opener = Box::new(move || Builder::new().create_with_backend(base()).map(file::Opened::from));
    let log: log_file::LogOpener = Box::new(move |_| Ok(log_file::Opened { disk: Box::new(log()), place: None }));
    // A transaction may or may not be larger than a segment.
    let log = LogFile { opener: log, segment_bytes: 30_000 };
    let store = EmbeddedStore::start("the store".to_owned(), opener, log, None, Durability::Fsynced).unwrap();
    // The number of steps after which each commit was acknowledged.
    let mut answered = Vec::new();
    let mut random = StdRng::seed_from_u64(1);
    for number in 0..60 {
        let data: &str = "x".repeat(random.random_range(0..20_000)).leak();
        let twice = [append("s", data), append("t", data), put(&Key::new("m", format!("{}", number % 7)), data)];
        commit(&store, twice.to_vec()).await.unwrap();
        answered.push(steps.lock().len());
    }
    let steps = steps.lock().clone();
    // Every moment while the file was made, and some later ones.
    let cuts = (0..steps.len()).filter(|cut| *cut <= answered[0] || random.random_bool(0.04)).collect::<Vec<_>>();
    for cut in cuts {
        let (_directory, path) = file();
        for (number, suffix) in ["", ".wal"].into_iter().enumerate() {
            let contents = after_power_failed(&steps[..cut], number, &mut random);
            if !contents.is_empty() {
                fs::write(place::beside(&path, suffix), contents).unwrap();
            }
        }
        let opened = EmbeddedStore::open(&path).unwrap_or_else(|error| panic!("after {cut} steps: {error}"));
        let found = sequences(&opened).await;
        assert_eq!(found, (1..=found.len() as u64).collect::<Vec<_>>(), "after {cut} steps");
        let promised = answered.iter().filter(|at| **at <= cut).count();
        assert!((promised..=promised + 1).contains(&found.len()), "after {cut} steps: {} of {promised}", found.len());
        let others = opened.range(&namespace("a"), "t", Range::after(0, usize::MAX)).await.unwrap();
        assert_eq!(others.len(), found.len(), "after {cut} steps");
    }
}

#[tokio::test]
async fn full_disk_refuses_commits_until_there_is_room_again() {
    let (_directory, path) = file();
    let (store, faults) = on_faulty_disk(&path);
    let mut committed = 0;
    commit(&store, vec![append("s", "before")]).await.unwrap();
    committed += 1;
    faults.full.store(true, Ordering::Relaxed);
    // The log still has room for some.
    let error = loop {
        match commit(&store, vec![append("s", "full")]).await {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    let error = commit(&store, vec![append("s", "still full")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(matches!(store.check_writable().await, Err(StoreError::Full(_))));
    faults.full.store(false, Ordering::Relaxed);
    let commit = loop {
        match commit(&store, vec![append("s", "after")]).await {
            Ok(commit) => break commit,
            Err(StoreError::Full(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(commit.appended, [Some(committed + 1)]);
    assert_eq!(sequences(&store).await, (1..=committed + 1).collect::<Vec<_>>());
    while let Err(error) = store.check_writable().await {
        assert!(matches!(error, StoreError::Full(_)), "{error}");
        tokio::task::yield_now().await;
    }
    drop(store);
    assert_eq!(sequences(&EmbeddedStore::open(&path).unwrap()).await, (1..=committed + 1).collect::<Vec<_>>());
}

/// redb stops using a file that it could not read once.
#[tokio::test]
async fn file_that_could_not_be_read_for_a_moment_is_used_again() {
    for is_found_by_reader in [true, false] {
        let (_directory, path) = file();
        let long: &'static str = "x".repeat(1 << 20).leak();
        let (store, faults) = on_faulty_disk(&path);
        for _ in 0..3 {
            commit(&store, vec![append("s", long), put(&Key::new("m", "x"), "y")]).await.unwrap();
        }
        faults.unreadable.store(true, Ordering::Relaxed);
        let key = Key::new("m", "x");
        match is_found_by_reader {
            true => drop(store.range(&namespace("a"), "s", Range::after(0, 10)).await.unwrap_err()),
            false => drop(
                commit(&store, vec![Write::Remove { stream: "s".to_owned(), sequences: vec![1] }]).await.unwrap_err(),
            ),
        }
        faults.unreadable.store(false, Ordering::Relaxed);
        while is_found_by_reader && store.read(&namespace("a"), std::slice::from_ref(&key)).await.is_err() {
            tokio::task::yield_now().await;
        }
        while commit(&store, vec![append("s", "after"), put(&key, "z")]).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(sequences(&store).await, [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn failed_flush_stops_the_store_until_restart() {
    let (_directory, path) = file();
    let (store, faults) = on_faulty_disk(&path);
    commit(&store, vec![append("s", "before")]).await.unwrap();
    faults.broken.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let error = commit(&store, vec![append("s", "lost")]).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(reason) if reason.contains("restarted")), "{error}");
    }
    faults.broken.store(false, Ordering::Relaxed);
    assert!(store.range(&namespace("a"), "s", Range::after(0, 1)).await.is_err());
    drop(store);
    let store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(sequences(&store).await.first(), Some(&1));
}

/// Found by fuzzing: a panic poisoned redb's locks, so that closing the database panicked too, in the thread that
/// dropped it.
#[tokio::test]
async fn store_whose_writer_panicked_fails_calls_and_closes_without_a_panic() {
    // More than fits into the file.
    let long: &'static str = "x".repeat(1 << 20).leak();
    let (_directory, path) = file();
    let (store, faults) = on_faulty_disk(&path);
    commit(&store, vec![append("s", "before")]).await.unwrap();
    faults.panics.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let error = commit(&store, vec![append("s", long)]).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(reason) if reason.contains("restarted")), "{error}");
    }
    drop(store);
    let store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(sequences(&store).await, [1]);
}

#[tokio::test]
async fn transaction_sees_earlier_ones_of_its_batch() {
    let store = EmbeddedStore::in_memory().unwrap();
    let bound = crate::store::Bound { entries_max: 10, weight_max: 100, when_full: crate::store::WhenFull::Refuse };
    let commits = (0..64).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let txn = Txn { checks: vec![], writes: vec![weighed("s", "", 1, Some(bound))], ..Txn::default() };
            matches!(store.commit(&namespace("a"), &txn).await.unwrap(), Outcome::Committed(_))
        })
    });
    let committed = futures::future::join_all(commits.collect::<Vec<_>>()).await;
    assert_eq!(committed.into_iter().filter(|committed| *committed.as_ref().unwrap()).count(), 10);
}
