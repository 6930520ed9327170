//! The coordinator's storage contract: mini-transactions over records, plus ordered streams.
//!
//! A store knows nothing about teams or messages. It holds isolated *namespaces*. Each namespace contains:
//! - *records*: bytes under a kind and an id, with a version that no other state of that record ever has;
//! - *streams*: entries with dense sequences from 1, removed one by one; a sequence is never reused;
//! - *leases*: names that are alive until an instant on the store's own clock;
//! - *idempotency keys*: each used once, with the reply it produced, kept for at least [`IDEMPOTENCY_KEY_TTL`].
//!
//! [`Store::commit`] is the only way to change anything. If every check of a transaction holds, all of its writes
//! apply, in order; otherwise none do. Commits to one namespace are linearizable, and a read sees every commit
//! acknowledged before the read began. An acknowledged commit is as durable as [`Commit::durability`] says.
//!
//! A store counts the bytes that each namespace holds ([`Store::usage`]), as part of each commit, and a transaction can
//! state how many there may be ([`Txn::bytes_max`]). `usage.rs` defines what counts how much.
//!
//! Architecture invariant: stores contain no product rules, and no other module knows which store it runs on.

pub mod backup;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod differential;
pub mod embedded;
mod error;
mod export;
mod layer;
pub mod model;
mod open;
pub mod redis;
mod usage;
mod when_full;
#[cfg(test)]
use teamwire_test_redis as test_redis;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use teamwire_proto::name::Name;
use tokio::sync::broadcast;

use self::error::{FORMAT_KNOWN, newer_format};
pub use self::{
    error::StoreError,
    export::{Export, Item},
    layer::StoreLayer,
    open::open,
};

/// The minimum time a store keeps an idempotency key.
pub const IDEMPOTENCY_KEY_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of notifications that a receiver of [`Store::notifications`] may lag behind. A receiver that lags further
/// must treat the gap as [`Notification::All`].
pub const NOTIFICATIONS_MAX: usize = 4096;

/// The number of losses that a receiver of [`Store::losses`] may lag behind.
pub const LOSSES_MAX: usize = 1_024;

/// An isolated part of the store: one team, or the directory of teams.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// Returns the namespace of the team with this name.
    pub fn team(name: &Name) -> Self {
        Self(name.folded().into())
    }

    /// Returns the namespace that lists the teams. It cannot collide with a team's, because team names cannot contain
    /// `~`.
    pub fn directory() -> Self {
        Self("~directory".into())
    }

    /// Returns the namespace of the audit log. It cannot collide with a team's either.
    pub fn audit() -> Self {
        Self("~audit".into())
    }

    /// Returns whether it is a team's.
    pub fn is_team(&self) -> bool {
        !self.0.starts_with('~')
    }

    /// Returns the namespace's name: 1 to 63 visible ASCII characters, without braces, colons or slashes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Restores a namespace from the name that [`Namespace::as_str`] returned.
    pub(crate) fn from_stored(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies a record within a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind of record: a few lower-case letters.
    pub kind: &'static str,
    /// The record's id within its kind: up to 200 visible ASCII characters.
    pub id: String,
}

impl Key {
    /// Makes the key of the record `id` of a kind.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// A record as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// An opaque version. It differs from the version of every other state that this record ever had or will have, even
    /// if the whole namespace is dropped in between.
    pub version: u64,
    /// The record's contents.
    pub data: Bytes,
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry's position in the stream, from 1.
    pub sequence: u64,
    /// The entry's contents.
    pub data: Bytes,
}

/// Selects entries of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest sequence, inclusive.
    pub first: u64,
    /// The highest sequence, inclusive.
    pub last: u64,
    /// The maximum number of entries; `usize::MAX` for all.
    pub limit: usize,
    /// Whether to start at the highest sequence and go down.
    pub newest_first: bool,
}

impl Range {
    /// Selects the oldest `limit` entries above `sequence`.
    pub fn after(sequence: u64, limit: usize) -> Self {
        Self { first: sequence.saturating_add(1), last: u64::MAX, limit, newest_first: false }
    }
}

/// The size of a stream. An unused stream has `next` = 1 and zeros otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The sequence that the next entry will get.
    pub next: u64,
    /// The number of entries.
    pub entries: u64,
    /// The sum of the entries' weights.
    pub weight: u64,
}

/// The leases of a namespace at one instant of the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The store's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// When each lease expires or expired, in milliseconds since 1970.
    pub until_ms: BTreeMap<String, u64>,
}

/// A condition that must hold for a transaction to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The record has this version.
    Version {
        /// The record.
        key: Key,
        /// The expected version. `None` if the record must not exist.
        version: Option<u64>,
    },
    /// The idempotency key is unused.
    KeyUnused {
        /// The key: up to 200 visible ASCII characters.
        key: String,
    },
    /// The lease is alive, or is not. A lease is not alive if it expired, was ended or was never set.
    Lease {
        /// The lease.
        name: String,
        /// The expected state.
        alive: bool,
    },
}

/// What happens when an append would exceed a stream's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The whole transaction fails with [`Failed::Full`].
    Refuse,
    /// Only this append is skipped.
    Skip,
}

/// The size that a stream must not exceed after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The maximum number of entries.
    pub entries_max: u64,
    /// The maximum total weight.
    pub weight_max: u64,
    /// What to do with an append that would exceed either.
    pub when_full: WhenFull,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Creates or replaces a record.
    Put {
        /// The record.
        key: Key,
        /// The record's new contents.
        data: Bytes,
    },
    /// Deletes a record. Does nothing if there is none.
    Delete {
        /// The record.
        key: Key,
    },
    /// Appends an entry to a stream.
    Append {
        /// The stream: up to 200 visible ASCII characters.
        stream: String,
        /// The entry's contents.
        data: Bytes,
        /// The entry's weight, which counts against the bound: up to 2^40.
        weight: u64,
        /// The stream's bound. `None` means unbounded.
        bound: Option<Bound>,
    },
    /// Removes entries from a stream. Ignores sequences that have no entry.
    Remove {
        /// The stream.
        stream: String,
        /// The entries' sequences.
        sequences: Vec<u64>,
    },
    /// Raises the sequence that the next entry of a stream gets, at least to `next`. The sequences in between are never
    /// used.
    SkipTo {
        /// The stream.
        stream: String,
        /// The sequence: up to 2^53.
        next: u64,
    },
    /// Raises the namespace's version and clock: later commits have higher versions, and are no earlier. Needs no other
    /// write.
    Raise {
        /// The version: up to 2^53.
        version: u64,
        /// The clock, in milliseconds since 1970.
        clock_ms: u64,
    },
    /// Uses an idempotency key. The transaction must also contain [`Check::KeyUnused`] for that key.
    RememberReply {
        /// The key.
        key: String,
        /// The reply that [`Failed::KeyUsed`] returns to later transactions.
        data: Bytes,
    },
    /// Sets a lease to expire `ttl` from now on the store's clock.
    Lease {
        /// The lease: up to 200 visible ASCII characters.
        name: String,
        /// The time until it expires.
        ttl: Duration,
    },
    /// Ends a lease and forgets it.
    EndLease {
        /// The lease.
        name: String,
    },
    /// Notifies the subscribers on every coordinator; see [`Store::notifications`].
    Notify {
        /// What changed: up to 200 visible ASCII characters.
        topic: String,
        /// A number by which the sender recognizes its own notifications, which it receives too.
        by: u64,
    },
    /// Removes the whole namespace: records, streams and their counters, leases, idempotency keys. Only
    /// [`Write::Notify`] may follow it.
    DropNamespace,
}

/// Checks and writes that apply together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The checks, evaluated in this order. The store reports the first that fails. Append bounds are evaluated after
    /// all checks.
    pub checks: Vec<Check>,
    /// The writes, applied in this order.
    pub writes: Vec<Write>,
    /// Whether the transaction ends something that it cannot end a second time, so that a full store applies it
    /// whatever it writes; see [`Txn::applies_when_full`].
    pub ends_something: bool,
    /// The most bytes that the namespace may hold afterwards, if the transaction adds to them; see [`Store::usage`].
    /// Evaluated last, with all writes. `None` means unbounded.
    pub bytes_max: Option<u64>,
}

/// How durable an acknowledged commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the store's memory.
    Applied,
    /// On the store's disk.
    Fsynced,
    /// On the configured number of replicas.
    Replicated,
}

/// A transaction that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The version of every record that the transaction put.
    pub version: u64,
    /// The store's clock, in milliseconds since 1970. Never goes backwards within a namespace, unless the store itself
    /// lost commits.
    pub at_ms: u64,
    /// How durable the commit is.
    pub durability: Durability,
    /// The sequence of each append, in order. `None` means skipped, because the stream was full.
    pub appended: Vec<Option<u64>>,
    /// The total number of entries that the removals removed.
    pub removed: u64,
}

/// Why a transaction was not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// A record had another version.
    Version {
        /// The record.
        key: Key,
        /// The record's current state. `None` if it does not exist.
        current: Option<Record>,
    },
    /// The idempotency key was used before.
    KeyUsed {
        /// The reply that the first use remembered.
        data: Bytes,
    },
    /// A lease was not in the expected state.
    Lease {
        /// The lease.
        name: String,
    },
    /// A stream was full.
    Full {
        /// The stream.
        stream: String,
    },
    /// The transaction adds bytes, and the namespace would hold more than [`Txn::bytes_max`].
    OverQuota {
        /// How many bytes the namespace holds.
        held: u64,
    },
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every write applied.
    Committed(Commit),
    /// Nothing changed.
    Refused(Failed),
}

/// A wake-up. It may be lost, repeated or late, so its receivers must also poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something changed.
    Topic {
        /// The namespace.
        namespace: Namespace,
        /// What changed, as in [`Write::Notify`].
        topic: String,
        /// The sender, as in [`Write::Notify`].
        by: u64,
    },
    /// Notifications may have been lost: anything may have changed.
    All,
}

/// Acknowledged commits to a namespace that the store has lost, for example in a failover to a replica that lagged
/// behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The namespace.
    pub namespace: Namespace,
    /// The version of the last commit that the store had acknowledged to this coordinator before the loss.
    pub acknowledged: u64,
    /// The version of the last commit that survived; 0 if none did.
    pub found: u64,
    /// The number of this loss within the namespace, from 1. The store counts, so every coordinator that detects the
    /// loss reports the same number. 0 if nothing is left of the namespace.
    pub generation: u64,
}

/// A durable store. The [module docs](self) state its guarantees.
///
/// Poll a call to completion, or drop it. A call that is set aside half-way can hold resources that all other calls
/// wait for, such as a connection attempt.
#[async_trait]
pub trait Store: Export + fmt::Debug + Send + Sync + 'static {
    /// Returns the records in the order of the keys, all as of one instant.
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Returns up to `limit` records of a kind whose ids are greater than `after`, ordered by id. May cost as much as
    /// reading every record of the kind.
    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError>;

    /// Returns the selected entries of a stream.
    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError>;

    /// Returns the extents of the streams, in the same order.
    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError>;

    /// Returns all leases of a namespace that were set and not ended, including expired ones.
    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError>;

    /// Returns how many bytes a namespace holds: its records, the entries of its streams, and the replies that were
    /// remembered on this day or the one before (UTC). Leases do not count. A namespace that was written by a version
    /// without this count is counted once; the size of its very large parts may be estimated.
    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError>;

    /// Returns a version of what a namespace holds apart from its leases. If it is unchanged, so are the
    /// contents. The version may also change
    /// for no reason.
    async fn version(&self, namespace: &Namespace) -> Result<u64, StoreError>;

    /// Returns the store's clock, in milliseconds since 1970. Fails if the store is unreachable.
    async fn now_ms(&self) -> Result<u64, StoreError>;

    /// Applies a transaction completely or not at all.
    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError>;

    /// Checks that the store would apply a commit that adds something, and leaves nothing behind.
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns whether the store has lost everything in a namespace that this coordinator has written to, so that its
    /// absence does not mean that it was dropped. False once the namespace is written to again.
    async fn has_lost(&self, _namespace: &Namespace) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns whether no other process can use the store while this one does.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Closes the store once the commits that were begun have ended. Every later call fails. Does nothing if the store
    /// need not be closed.
    async fn close(&self) {}

    /// Subscribes to the notifications of every later commit by any coordinator. A receiver that lags more than
    /// [`NOTIFICATIONS_MAX`] behind gets an error, and must treat it as [`Notification::All`].
    fn notifications(&self) -> broadcast::Receiver<Notification>;

    /// Subscribes to losses detected from now on in namespaces that this coordinator has written to. A receiver that
    /// lags more than [`LOSSES_MAX`] behind misses some. If the store cannot lose acknowledged commits, the receiver is
    /// closed.
    fn losses(&self) -> broadcast::Receiver<Loss> {
        broadcast::channel(1).1
    }
}
