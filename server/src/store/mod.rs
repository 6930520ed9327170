//! What the coordinator asks of a store: mini-transactions over records, and ordered streams.
//!
//! A store knows nothing of teams or messages. It keeps *namespaces*, which share nothing, and in each namespace:
//! - *records*: a kind and an id, bytes, and a version that no other state of that record ever had;
//! - *streams*: entries under dense sequences from 1, each removed by itself; a sequence is never given out twice;
//! - *leases*: a name that is alive until an instant on the store's own clock;
//! - a *ledger*: keys seen once, with what was remembered for them, for [`IDEMPOTENCY_KEY_TTL`] or longer.
//!
//! [`Store::commit`] is the only way to change anything: when every check of a transaction holds, all of its writes
//! happen, in order; otherwise none does. Commits to one namespace are linearizable, and a read sees every commit that was
//! answered before it began. An answered commit is as durable as the answer says.
//!
//! Architecture invariant: no rule of the product is in a store; no other module knows which store it runs on.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod differential;
pub mod embedded;
pub mod model;
mod open;
pub mod redis;
#[cfg(test)]
use teamwire_test_redis as test_redis;

use std::{collections::BTreeMap, fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use teamwire_proto::name::Name;
use tokio::sync::broadcast;

pub use self::open::open;

/// How long a ledger keeps a key at least.
pub const IDEMPOTENCY_KEY_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How many notifications a receiver of [`Store::notifications`] may fall behind. What it missed then counts as [`Notification::All`].
pub const NOTIFICATIONS_MAX: usize = 4096;

/// How many losses a receiver of [`Store::losses`] may fall behind.
pub const LOSSES_MAX: usize = 1_024;

/// A part of the store that shares nothing with any other part: one team, or the directory of teams.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(String);

impl Namespace {
    /// The namespace of the team with this name.
    pub fn team(name: &Name) -> Self {
        Self(name.folded().to_owned())
    }

    /// The namespace that lists the teams. Its name is no team's, since `~` cannot stand in a name.
    pub fn directory() -> Self {
        Self("~directory".to_owned())
    }

    /// Returns the name of the namespace: 1 to 63 visible ASCII characters without braces, colons or slashes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a namespace out of the name that [`Namespace::as_str`] gave.
    pub(crate) fn from_stored(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a record within a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// What sort of record it is: a few lower-case letters.
    pub kind: &'static str,
    /// Which one: up to 200 visible ASCII characters.
    pub id: String,
}

impl Key {
    /// Names the record `id` of a kind.
    pub fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Differs from that of every other state that this record ever had or will have, deletion of the whole namespace
    /// between them included. Says nothing else.
    pub version: u64,
    /// What was put.
    pub data: Bytes,
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place, from 1.
    pub sequence: u64,
    /// What was appended.
    pub data: Bytes,
}

/// Which entries of a stream to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest sequence.
    pub first: u64,
    /// The highest sequence.
    pub last: u64,
    /// How many entries at most; any number, `usize::MAX` for all.
    pub limit: usize,
    /// True: from the highest sequence downwards.
    pub newest_first: bool,
}

impl Range {
    /// The oldest `limit` entries with a sequence above `sequence`.
    pub fn after(sequence: u64, limit: usize) -> Self {
        Self { first: sequence.saturating_add(1), last: u64::MAX, limit, newest_first: false }
    }
}

/// The extent of a stream. All zero, but for `next` = 1, where nothing was ever appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The sequence that the next entry will have.
    pub next: u64,
    /// How many entries there are.
    pub entries: u64,
    /// The sum of their weights.
    pub weight: u64,
}

/// The leases of a namespace at one instant of the store's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// The store's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// When each lease runs out or ran out, in milliseconds since 1970.
    pub until_ms: BTreeMap<String, u64>,
}

/// What must hold for a transaction to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The record is in this state. `None`: there is no such record.
    Version {
        /// The record.
        key: Key,
        /// The version that was read.
        version: Option<u64>,
    },
    /// The ledger does not know the key.
    KeyUnused {
        /// Up to 200 visible ASCII characters.
        key: String,
    },
    /// The lease is alive, or is not (run out, ended, or never set).
    Lease {
        /// The lease.
        name: String,
        /// Which of the two.
        alive: bool,
    },
}

/// What to do when an append would take a stream over its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The whole transaction fails with [`Failed::Full`].
    Refuse,
    /// This entry alone is left out.
    Skip,
}

/// The most that a stream may hold after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// How many entries.
    pub entries_max: u64,
    /// How much weight.
    pub weight_max: u64,
    /// What to do with an append that would go over it.
    pub when_full: WhenFull,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Makes or replaces a record.
    Put {
        /// The record.
        key: Key,
        /// What it holds from now on.
        data: Bytes,
    },
    /// Removes a record. No harm when there is none.
    Delete {
        /// The record.
        key: Key,
    },
    /// Adds an entry to the end of a stream.
    Append {
        /// The stream: up to 200 visible ASCII characters.
        stream: String,
        /// What it holds.
        data: Bytes,
        /// What it counts for against the bound's weight, up to 2^40.
        weight: u64,
        /// `None`: no bound.
        bound: Option<Bound>,
    },
    /// Removes entries of a stream. No harm where there is no such entry.
    Remove {
        /// The stream.
        stream: String,
        /// The entries.
        sequences: Vec<u64>,
    },
    /// Adds a key to the ledger. The transaction must check it with [`Check::KeyUnused`].
    RememberReply {
        /// The key.
        key: String,
        /// What [`Failed::KeyUsed`] will return.
        data: Bytes,
    },
    /// Lets a lease live for `ttl` from now on the store's clock.
    Lease {
        /// The lease: up to 200 visible ASCII characters.
        name: String,
        /// How long.
        ttl: Duration,
    },
    /// Ends a lease and forgets it.
    EndLease {
        /// The lease.
        name: String,
    },
    /// Wakes whoever listens, on every coordinator; see [`Store::notifications`].
    Notify {
        /// About what: up to 200 visible ASCII characters.
        topic: String,
        /// Who says so: a number by which it knows its own notifications, since they reach it, too.
        by: u64,
    },
    /// Removes everything in the namespace: records, streams with their counters, leases, ledger. The last write but for
    /// notifications.
    DropNamespace,
}

/// Checks and writes that go together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Looked at in this order; the first that fails is reported. The bounds of appends come after all of them.
    pub checks: Vec<Check>,
    /// Carried out in this order.
    pub writes: Vec<Write>,
}

/// How durable an answered commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// In the store's memory.
    Applied,
    /// On the store's disk.
    Fsynced,
    /// On as many replicas as were asked for.
    Replicated,
}

/// A transaction that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The version of every record that it put.
    pub version: u64,
    /// The store's clock, in milliseconds since 1970. Never goes backwards within a namespace, as far as the store can help.
    pub at_ms: u64,
    /// How durable it is.
    pub durability: Durability,
    /// The sequence of each append, in order. `None`: left out, because the stream was full.
    pub appended: Vec<Option<u64>>,
    /// How many entries the removals removed in all.
    pub removed: u64,
}

/// Why a transaction was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// A record was in another state.
    Version {
        /// The record.
        key: Key,
        /// As it is. `None`: there is none.
        current: Option<Record>,
    },
    /// The ledger knows the key.
    KeyUsed {
        /// What was remembered.
        data: Bytes,
    },
    /// A lease was alive, or not, against the check.
    Lease {
        /// The lease.
        name: String,
    },
    /// A stream has no room.
    Full {
        /// The stream.
        stream: String,
    },
}

/// The answer to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every write happened.
    Committed(Commit),
    /// Nothing happened.
    Refused(Failed),
}

/// A wake-up. May be lost, repeated or late; whoever waits for one also polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Something happened to a topic.
    Topic {
        /// Where.
        namespace: Namespace,
        /// To what.
        topic: String,
        /// Who said so, as [`Write::Notify`] did.
        by: u64,
    },
    /// Notifications may have been lost: everyone should look.
    All,
}

/// Commits to a namespace that were answered and are not there any more, all or some of them, as after a failover to a replica
/// that did not have them yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The namespace.
    pub namespace: Namespace,
    /// The version of the last commit that this coordinator was answered before.
    pub acknowledged: u64,
    /// The version of the last commit that was kept; 0 where none was.
    pub found: u64,
    /// Which loss of the namespace this is, from 1, as the store itself counts: the same at every coordinator that finds out.
    /// 0 where nothing is left of the namespace.
    pub generation: u64,
}

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, or did not answer in time. A commit may have been carried out.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store takes no writes just now, for lack of room or because it is not the one to write to. A commit was not
    /// carried out. Where memory is what lacks, a transaction still succeeds if it neither appends nor remembers, and
    /// either removes or ends something or puts nothing.
    #[error("the store takes no writes: {0}")]
    Refusing(String),
    /// A transaction was carried out, or was before, but is not as durable yet as this store was opened to make it. Repeated
    /// under a key of the ledger, it succeeds once it is.
    #[error("not as many replicas have it as are wanted: {0}")]
    DurabilityNotReached(String),
    /// What the store holds cannot be read. Needs a person.
    #[error("the store holds what this coordinator cannot read: {0}")]
    Corrupt(String),
}

/// A durable store. See the [module](self) for what it promises.
///
/// Once begun, a call must be driven to its end or dropped: one that is put aside half way may hold what all others wait
/// for, such as the making of a connection.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Returns the records, in the order of the keys. They are of one instant.
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError>;

    /// Returns up to `limit` records of a kind, in the order of their ids, whose ids are greater than `after`. May cost
    /// as much as all records of that kind.
    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError>;

    /// Returns entries of a stream.
    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError>;

    /// Returns the extents of streams, in their order.
    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError>;

    /// Returns the leases of a namespace that were set and not ended, those that have run out included.
    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError>;

    /// Returns the store's clock, in milliseconds since 1970. Fails when the store cannot be reached.
    async fn now_ms(&self) -> Result<u64, StoreError>;

    /// Carries out a transaction, or nothing of it.
    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError>;

    /// Subscribes to the notifications of every commit made from now on, by this coordinator or another. A receiver that falls
    /// more than [`NOTIFICATIONS_MAX`] behind is told so, and should then take it for [`Notification::All`].
    fn notifications(&self) -> broadcast::Receiver<Notification>;

    /// Subscribes to the losses that will be found in namespaces that this coordinator has written to. A receiver that falls
    /// more than [`LOSSES_MAX`] behind misses some. Of a store that cannot lose what it has answered, it is closed.
    fn losses(&self) -> broadcast::Receiver<Loss> {
        broadcast::channel(1).1
    }
}
