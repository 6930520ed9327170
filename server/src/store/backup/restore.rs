//! Writes a backup into an empty store.
//!
//! Everything goes through [`Store::commit`], so a restored store is like any other. The restored state is a new state
//! of each record: its version is higher than any that the record had in the store that the backup is from.
//!
//! While a restore is under way, a marker is in the store. A coordinator does not serve a store with a marker, and the
//! next restore starts over.

use std::{collections::BTreeSet, io::BufRead, sync::LazyLock, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{BackupError, Counts, Reader};
use crate::store::{Check, Failed, Item, Key, Namespace, Outcome, Store, StoreError, Txn, Write};

/// How long a lease that was alive stays alive at least: its holder must first find the restored store.
const LEASE_MIN: Duration = Duration::from_secs(60);

/// The most writes of a transaction, and about the most bytes.
const WRITES_MAX: usize = 256;
const BYTES_MAX: usize = 1024 * 1024;

/// The highest version or sequence that every store can count to.
const NUMBER_MAX: u64 = 1 << 53;

/// How many kinds of records there may be.
const KINDS_MAX: usize = 1_000;

/// The kind of the marker.
const MARKER: &str = "restore";

/// The namespace of the marker. No team can have this name.
fn marker_namespace() -> Namespace {
    Namespace::from_stored("~restore")
}

/// Returns whether a restore into the store began, and has not ended.
pub async fn is_unfinished(store: &dyn Store) -> Result<bool, StoreError> {
    let found = store.read(&marker_namespace(), &[Key::new(MARKER, "")]).await?;
    Ok(found.iter().any(Option::is_some))
}

/// Writes a backup into an empty store. Check the backup first: this finds damage only when it gets there. If it fails,
/// or ends early, restore again: that removes what this has written. `progress` learns what has been read so far.
pub async fn restore<R: BufRead>(
    store: &dyn Store,
    mut from: Reader<R>,
    mut progress: impl FnMut(Counts),
) -> Result<Counts, BackupError> {
    make_room(store).await?;
    let mut batch = Batch::new(store);
    while let Some(item) = from.next_item()? {
        batch.add(item).await?;
        progress(from.counts());
    }
    batch.commit().await?;
    let done = Txn { writes: vec![Write::DropNamespace], ..Txn::default() };
    store.commit(&marker_namespace(), &done).await?;
    Ok(from.counts())
}

/// Fails unless the store is empty, or holds only what a restore has left. Puts the marker.
async fn make_room(store: &dyn Store) -> Result<(), BackupError> {
    let found = store.namespaces().await?;
    if is_unfinished(store).await? {
        for namespace in found.iter().filter(|namespace| **namespace != marker_namespace()) {
            let drop = Txn { writes: vec![Write::DropNamespace], ..Txn::default() };
            store.commit(namespace, &drop).await?;
        }
        return Ok(());
    }
    let teams: Vec<&str> = found.iter().map(Namespace::as_str).filter(|name| !name.starts_with('~')).collect();
    if !found.is_empty() {
        let holds = match &teams[..] {
            [] => "it was used before".to_owned(),
            [team] => format!("it holds the team {team}"),
            [team, ..] => format!("it holds {} teams, such as {team}", teams.len()),
        };
        return Err(BackupError::NotEmpty(format!(
            "the store is not empty: {holds}. Restore into a new file, or into an empty database of Redis"
        )));
    }
    let key = Key::new(MARKER, "");
    let begin = Txn {
        checks: vec![Check::Version { key: key.clone(), version: None }],
        writes: vec![Write::Put { key, data: Bytes::from_static(b"{}") }],
        ..Txn::default()
    };
    match store.commit(&marker_namespace(), &begin).await? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Refused(_) => Err(BackupError::NotEmpty("another restore into this store has just begun".to_owned())),
    }
}

/// What is to be written next.
struct Batch<'s> {
    store: &'s dyn Store,
    /// `None` before the first namespace.
    namespace: Option<Namespace>,
    txn: Txn,
    bytes: usize,
    /// The sequences that the appends must get.
    expected: Vec<u64>,
    /// The stream that entries are appended to, and its next sequence.
    stream: String,
    next: u64,
}

impl<'s> Batch<'s> {
    fn new(store: &'s dyn Store) -> Self {
        Self {
            store,
            namespace: None,
            txn: Txn::default(),
            bytes: 0,
            expected: Vec::new(),
            stream: String::new(),
            next: 1,
        }
    }

    async fn add(&mut self, item: Item) -> Result<(), BackupError> {
        match item {
            Item::Namespace { namespace, version, clock_ms } => {
                self.commit().await?;
                self.namespace = Some(namespace);
                (self.stream, self.next) = (String::new(), 1);
                bounded(version.max(clock_ms.saturating_mul(1_000)))?;
                self.push(Write::Raise { version, clock_ms }, 0);
                // Only later commits have higher versions.
                self.commit().await?;
            }
            Item::Record { kind, id, data } => {
                let bytes = id.len() + data.len();
                self.push(Write::Put { key: Key::new(interned(&kind)?, id), data }, bytes);
            }
            Item::Entry { stream, sequence, weight, data } => {
                self.turn_to(&stream);
                self.skip_to(sequence)?;
                let bytes = data.len();
                self.expected.push(sequence);
                self.next = sequence + 1;
                self.push(Write::Append { stream, data, weight, bound: None }, bytes);
            }
            Item::Stream { stream, next } => {
                self.turn_to(&stream);
                self.skip_to(next)?;
            }
            Item::Lease { name, left_ms } => {
                let left = Duration::from_millis(left_ms);
                let ttl = if left.is_zero() { left } else { left.max(LEASE_MIN) };
                self.push(Write::Lease { name, ttl }, 0);
            }
            Item::Reply { key, data } => {
                self.txn.checks.push(Check::KeyUnused { key: key.clone() });
                let bytes = key.len() + data.len();
                self.push(Write::RememberReply { key, data }, bytes);
            }
        }
        if self.txn.writes.len() >= WRITES_MAX || self.bytes >= BYTES_MAX { self.commit().await } else { Ok(()) }
    }

    fn push(&mut self, write: Write, bytes: usize) {
        self.txn.writes.push(write);
        self.bytes += bytes;
    }

    fn turn_to(&mut self, stream: &str) {
        if self.stream != stream {
            (self.stream, self.next) = (stream.to_owned(), 1);
        }
    }

    /// Raises the next sequence of the current stream.
    fn skip_to(&mut self, next: u64) -> Result<(), BackupError> {
        bounded(next)?;
        if next < self.next {
            return Err(BackupError::Damaged(format!("the entries of the stream {} are not in order", self.stream)));
        }
        if next > self.next {
            self.next = next;
            self.push(Write::SkipTo { stream: self.stream.clone(), next }, 0);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), BackupError> {
        let (txn, expected) = (std::mem::take(&mut self.txn), std::mem::take(&mut self.expected));
        self.bytes = 0;
        let Some(namespace) = self.namespace.as_ref().filter(|_| !txn.writes.is_empty()) else { return Ok(()) };
        match self.store.commit(namespace, &txn).await? {
            Outcome::Committed(commit) => {
                let as_expected = commit.appended.iter().copied().eq(expected.into_iter().map(Some));
                if as_expected { Ok(()) } else { Err(disturbed()) }
            }
            Outcome::Refused(Failed::KeyUsed { .. }) => self.commit_one_by_one(namespace, txn).await,
            Outcome::Refused(_) => Err(disturbed()),
        }
    }

    /// Commits each write of a transaction whose idempotency keys are partly there already, because a backup may have
    /// one twice.
    async fn commit_one_by_one(&self, namespace: &Namespace, txn: Txn) -> Result<(), BackupError> {
        for write in txn.writes {
            let remembered = match &write {
                Write::RememberReply { key, data } => Some((key.clone(), data.clone())),
                _ => None,
            };
            let checks = remembered.iter().map(|(key, _)| Check::KeyUnused { key: key.clone() }).collect();
            let txn = Txn { checks, writes: vec![write], ..Txn::default() };
            match (self.store.commit(namespace, &txn).await?, remembered) {
                (Outcome::Committed(_), _) => {}
                (Outcome::Refused(Failed::KeyUsed { data }), Some((_, same))) if data == same => {}
                (Outcome::Refused(_), _) => return Err(disturbed()),
            }
        }
        Ok(())
    }
}

fn disturbed() -> BackupError {
    BackupError::NotEmpty(
        "another program wrote to the store during the restore. Stop its coordinators, and restore again".to_owned(),
    )
}

fn bounded(number: u64) -> Result<(), BackupError> {
    match number <= NUMBER_MAX {
        true => Ok(()),
        false => Err(BackupError::Damaged(format!("the backup is damaged: no store counts to {number}"))),
    }
}

/// Returns a kind of records for a [`Key`], which holds only kinds that stay. There are few.
fn interned(kind: &str) -> Result<&'static str, BackupError> {
    static KINDS: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut kinds = KINDS.lock();
    if let Some(known) = kinds.get(kind) {
        return Ok(known);
    }
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    if kinds.len() >= KINDS_MAX || !(1..=63).contains(&kind.len()) || !kind.bytes().all(is_name) {
        return Err(BackupError::Damaged(format!("the backup is damaged: \"{kind}\" is no kind of records")));
    }
    let kind: &'static str = kind.to_owned().leak();
    kinds.insert(kind);
    Ok(kind)
}
