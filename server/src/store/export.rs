//! Reading everything that a store holds, for backups.
//!
//! An export knows no kind of record, no stream and no key in particular, so new ones need no change here. It goes
//! through a bounded channel: the store reads on only as fast as the receiver takes items, so an export of any size
//! needs little memory.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Namespace, StoreError};

/// How many items may wait in the channel of an export. An item is as large as a record.
pub(super) const ITEMS_MAX: usize = 64;

/// One thing that a store holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A namespace. The items up to the next one are in it.
    Namespace {
        /// The namespace.
        namespace: Namespace,
        /// No record in it has a higher version, or ever had.
        version: u64,
        /// The clock at the instant that the export shows, in milliseconds since 1970.
        clock_ms: u64,
    },
    /// A record. Its version is left out: another store gives its own. The same one may come again.
    Record {
        /// Its kind.
        kind: String,
        /// Its id.
        id: String,
        /// Its contents.
        data: Bytes,
    },
    /// An entry of a stream. The entries of a stream come in order, without another stream's in between.
    Entry {
        /// The stream.
        stream: String,
        /// The entry's sequence.
        sequence: u64,
        /// Its weight.
        weight: u64,
        /// Its contents.
        data: Bytes,
    },
    /// A stream that was ever used. Comes after its entries.
    Stream {
        /// The stream.
        stream: String,
        /// The sequence that the next entry will get.
        next: u64,
    },
    /// A lease that was set and not ended.
    Lease {
        /// Its name.
        name: String,
        /// In how many milliseconds it expires. Zero if it has expired.
        left_ms: u64,
    },
    /// A used idempotency key. The same one may come again.
    Reply {
        /// The key.
        key: String,
        /// The remembered reply.
        data: Bytes,
    },
}

/// A store whose contents can be read as a whole.
#[async_trait]
pub trait Export {
    /// Returns the kind of the store: `embedded`, `redis`, or `model`.
    fn kind(&self) -> &'static str;

    /// Returns the namespaces that hold anything, in order, with the directory last.
    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError>;

    /// Sends everything that the store holds, without stopping commits. Fails if the receiver is gone.
    ///
    /// Each namespace is shown as of one instant after the call began. If the store [is
    /// exclusive](super::Store::is_exclusive), the instant is the same for all. The directory comes last, and shows an
    /// instant before all others; namespaces created after it are left out.
    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError>;
}

/// Returns the namespaces in order, with the directory last.
pub(super) fn in_order(mut namespaces: Vec<Namespace>) -> Vec<Namespace> {
    namespaces.sort_unstable_by_key(|namespace| (*namespace == Namespace::directory(), namespace.clone()));
    namespaces
}

/// Sends an item.
pub(super) async fn send(to: &mpsc::Sender<Item>, item: Item) -> Result<(), StoreError> {
    to.send(item).await.map_err(|_| abandoned())
}

/// Returns the error of an export whose receiver is gone.
pub(super) fn abandoned() -> StoreError {
    StoreError::Unavailable("the export was abandoned".to_owned())
}
