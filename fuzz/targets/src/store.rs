//! The files of the embedded store, when the coordinator opens what a disk or a person has made of them.

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::{Once, OnceLock},
    time::Duration,
};

use teamwire_proto::name::Name;
use teamwire_server::store::{
    Durability, Key, Namespace, Outcome, Range, Store, StoreError, Txn, Write, embedded::EmbeddedStore,
};

/// How many commits the file has.
const COMMITS: u64 = 12;

/// What redb keeps of which state is the last one, and of whether the file was closed, is before this. So is the header of
/// the write-ahead log.
const HEADER_BYTES: usize = 4096;

/// How many bytes make a change.
const CHANGE_BYTES: usize = 7;

/// No script makes the file longer than by this.
const GROWTH_BYTES_MAX: usize = 1 << 20;

const KIND: &str = "number";

/// A valid file, as it is while it is open, and as it is once it was closed; and the write-ahead log while it is open.
struct Files {
    open: Vec<u8>,
    log: Vec<u8>,
    closed: Vec<u8>,
}

/// A script of changes, made to a valid file or log before that is opened. What opens is a state that was committed once,
/// or at least nothing that breaks the coordinator; what does not is refused with a reason.
pub(crate) fn open(input: &[u8]) {
    let Some((first, script)) = input.split_first() else { return };
    let files = files();
    let (valid, was_open, other) = match first % 4 {
        0 => (&files.closed, false, None),
        1 => (&files.log, true, Some(("store", &files.open))),
        _ => (&files.open, true, Some(("store.wal", &files.log))),
    };
    let mut file = valid.clone();
    let touches_header = change(&mut file, script);
    let directory = tempfile::tempdir_in(memory()).expect("a directory");
    let path = directory.path().join("store");
    let changed = if first % 4 == 1 { "store.wal" } else { "store" };
    fs::write(directory.path().join(changed), &file).expect("a file");
    if let Some((name, contents)) = other {
        fs::write(directory.path().join(name), contents).expect("a file");
    }
    // Of a file that was closed, nothing is checked before it is needed: what is in it may then be anything.
    let is_checked = was_open && !touches_header && file.len() >= valid.len();
    let is_whole = file == *valid;
    if let Err(panicked) = panic::catch_unwind(AssertUnwindSafe(|| look(&path, is_checked, is_whole))) {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        panic!("{}", text.or(panicked.downcast_ref::<&str>().copied()).unwrap_or("it broke without a word"));
    }
}

/// Where files need no disk.
fn memory() -> &'static Path {
    let shared = Path::new("/dev/shm");
    static TEMPORARY: OnceLock<std::path::PathBuf> = OnceLock::new();
    if shared.is_dir() { shared } else { TEMPORARY.get_or_init(std::env::temp_dir) }
}

fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    static QUIET: Once = Once::new();
    // The store contains redb's panics, of which there are many on a damaged file. libFuzzer would end with the first.
    QUIET.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let file = panic.location().map_or("", |location| location.file());
            if !file.contains("/registry/src/") && !file.contains("/rustc/") {
                usual(panic);
            }
        }));
    });
    FILES.get_or_init(|| {
        let directory = tempfile::tempdir_in(memory()).expect("a directory");
        let path = directory.path().join("store");
        let store = EmbeddedStore::open(&path).expect("a new file");
        runtime().block_on(async {
            for number in 1..=COMMITS {
                let writes = vec![
                    Write::Put { key: Key::new(KIND, "last"), data: number.to_string().into() },
                    Write::Append { stream: "s".to_owned(), data: entry(number).into(), weight: 1, bound: None },
                    Write::Lease { name: "l".to_owned(), ttl: Duration::from_secs(60) },
                ];
                commit(&*store, writes).await.expect("a commit");
                if number == COMMITS / 2 {
                    // Half of the commits are in the file, the others in the log.
                    let drop = Txn { writes: vec![Write::DropNamespace], ..Txn::default() };
                    store.commit(&Namespace::directory(), &drop).await.expect("a checkpoint");
                }
            }
        });
        let open = fs::read(&path).expect("the file");
        let log = fs::read(directory.path().join("store.wal")).expect("the log");
        drop(store);
        Files { open, log, closed: fs::read(&path).expect("the file") }
    })
}

/// Returns an entry that is long enough for the tree to have several pages.
fn entry(number: u64) -> Vec<u8> {
    number.to_string().repeat(400).into_bytes()
}

/// Makes the changes that a script names. Returns whether the file's header is among what it changes.
fn change(file: &mut Vec<u8>, script: &[u8]) -> bool {
    let mut touches_header = false;
    let length_max = file.len() + GROWTH_BYTES_MAX;
    for change in script.chunks_exact(CHANGE_BYTES).take(64) {
        let (what, value) = (change[0], change[4]);
        let place = usize::from(change[1]) << 16 | usize::from(change[2]) << 8 | usize::from(change[3]);
        let other = usize::from(change[5]) << 8 | usize::from(change[6]);
        if file.is_empty() {
            break;
        }
        // Half of all changes go where it hurts most.
        let place = if what & 1 == 0 { place % 512.min(file.len()) } else { place % file.len() };
        let (mut from, mut to) = (place, place + 1);
        match what >> 1 & 7 {
            0 => file[place] = value,
            1 => file[place] ^= value | 1,
            2 => {
                (from, to) = (place / 512 * 512, (place / 512 * 512 + 512).min(file.len()));
                file[from..to].fill(value);
            }
            3 => {
                file.truncate(place);
                to = usize::MAX;
            }
            4 => {
                let length = (file.len() + other * 16).min(length_max);
                file.resize(length, value);
            }
            5 => {
                // A page that was written to another place, or an old one.
                let (page, source) = (place / 4096 * 4096, other * 4096 % file.len() / 4096 * 4096);
                let length = 4096.min(file.len() - page.max(source));
                file.copy_within(source..source + length, page);
                (from, to) = (page, page + length);
            }
            6 => {
                to = (place + 8).min(file.len());
                file[from..to].fill(0xff);
            }
            _ => {
                to = (place + 2).min(file.len());
                let bytes = &change[5..5 + (to - place)];
                file[from..to].copy_from_slice(bytes);
            }
        }
        touches_header |= from.min(to) < HEADER_BYTES;
    }
    touches_header
}

/// Opens a file, reads all that there is, writes, and opens it again.
fn look(path: &Path, is_checked: bool, is_whole: bool) {
    let store = match EmbeddedStore::open(path) {
        Ok(store) => store,
        Err(error) => {
            assert!(!is_whole, "{error}");
            let is_refused =
                matches!(error, StoreError::Corrupt(_) | StoreError::Unavailable(_) | StoreError::Unusable(_));
            assert!(is_refused, "{error}");
            return;
        }
    };
    runtime().block_on(async {
        let found = read(&*store).await;
        if is_checked {
            let (last, entries) = found.expect("what was checked can be read");
            assert!(!is_whole || last == COMMITS);
            assert_eq!(entries, (1..=last).collect::<Vec<_>>(), "half a commit");
        }
        let appended = commit(
            &*store,
            vec![Write::Append { stream: "s".to_owned(), data: "after".into(), weight: 1, bound: None }],
        );
        let appended = appended.await;
        assert!(!is_checked || appended.is_ok(), "what was opened takes no writes: {appended:?}");
    });
}

/// Returns the number in the record, and the places of the entries, each with what it must hold.
async fn read(store: &dyn Store) -> Result<(u64, Vec<u64>), StoreError> {
    let namespace = namespace();
    let record = store.read(&namespace, &[Key::new(KIND, "last")]).await?.remove(0);
    store.scan(&namespace, KIND, "", 100).await?;
    store.leases(&namespace).await?;
    store.extents(&namespace, &["s".to_owned()]).await?;
    let few = store.range(&namespace, "s", Range::after(0, 10)).await?;
    let all = store.range(&namespace, "s", Range::after(0, 1_000)).await?;
    assert!(few.len() <= 10 && all.len() <= 1_000);
    let number = record.and_then(|record| std::str::from_utf8(&record.data).ok()?.parse().ok()).unwrap_or(0);
    let sound = all.iter().filter(|found| found.data == entry(found.sequence));
    Ok((number, sound.map(|found| found.sequence).collect()))
}

fn namespace() -> Namespace {
    Namespace::team(&Name::parse("alpha", "name").expect("a name"))
}

async fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<Durability, StoreError> {
    match store.commit(&namespace(), &Txn { checks: Vec::new(), writes, ..Txn::default() }).await? {
        Outcome::Committed(commit) => Ok(commit.durability),
        Outcome::Refused(failed) => panic!("nothing was checked, and yet: {failed:?}"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}
