//! The layout of namespaces in the tables of the file.
//!
//! Every key starts with its namespace (preceded by the day in [`REPLIES`]). Every part of a key except the last ends
//! with a zero byte, and numbers are big-endian. Related data is therefore adjacent: the entries of a stream in order,
//! and the idempotency keys of one day, which end up next to each other if they start with a time.

use redb::{Table as OpenTable, TableDefinition};

use crate::store::{
    Extent, Namespace,
    usage::{self, Usage},
};

pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;
pub(super) type Open<'txn> = OpenTable<'txn, &'static [u8], &'static [u8]>;
pub(super) type Result<T> = std::result::Result<T, redb::Error>;

/// The tables that transactions change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// `namespace 0 kind 0 id` -> version, data.
    Records,
    /// `namespace 0 stream` -> next, entries, weight.
    Streams,
    /// `namespace 0 stream 0 sequence` -> weight, data.
    Entries,
    /// `namespace 0 name` -> milliseconds since 1970.
    Leases,
    /// `day namespace 0 idempotency key` -> reply.
    Replies,
    /// `namespace 0` -> the bytes of records and entries, the day of the last reply, the bytes of the replies of that
    /// day, and of the day before.
    Usage,
}

/// The number of tables.
pub(super) const TABLES: usize = 6;

impl Table {
    /// All tables, in the order of their numbers.
    pub(super) const ALL: [Self; TABLES] =
        [Self::Records, Self::Streams, Self::Entries, Self::Leases, Self::Replies, Self::Usage];

    /// Returns the table's number, by which the write-ahead log knows it.
    pub(super) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the table with a number.
    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the table in the file.
    pub(super) fn definition(self) -> Definition {
        TableDefinition::new(match self {
            Self::Records => "records",
            Self::Streams => "streams",
            Self::Entries => "entries",
            Self::Leases => "leases",
            Self::Replies => "replies",
            Self::Usage => "usage",
        })
    }
}

/// One of the names below -> a number.
pub(super) const FACTS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("facts");

/// The format of the store, [`FORMAT_KNOWN`](crate::store::FORMAT_KNOWN).
pub(super) const FORMAT: &str = "format";
/// The last version given to a record.
pub(super) const VERSION: &str = "version";
/// The clock at the last commit.
pub(super) const CLOCK_MS: &str = "clock_ms";
/// The sequence of the last record of the write-ahead log that the tables contain.
pub(super) const LOGGED: &str = "logged";
/// The id of the write-ahead log that may continue the tables. Zero if they are complete.
pub(super) const LOG: &str = "log";
/// The release that created the file.
pub(super) const WRITTEN_BY: &str = "written_by";

/// The length of a day, by which idempotency keys are grouped and purged.
pub(super) const DAY_MS: u64 = usage::DAY_MS;

/// Returns the key of `name` in a namespace. Longer keys start with it.
pub(super) fn named(namespace: &Namespace, name: &str) -> Vec<u8> {
    let mut key = prefix(namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns the prefix of every key of a namespace.
pub(super) fn prefix(namespace: &Namespace) -> Vec<u8> {
    let namespace = namespace.as_str().as_bytes();
    let mut key = Vec::with_capacity(namespace.len() + 64);
    key.extend_from_slice(namespace);
    key.push(0);
    key
}

/// Returns the key of a record.
pub(super) fn record(namespace: &Namespace, kind: &str, id: &str) -> Vec<u8> {
    let mut key = named(namespace, kind);
    key.push(0);
    key.extend_from_slice(id.as_bytes());
    key
}

/// Returns the key of an entry.
pub(super) fn entry(namespace: &Namespace, stream: &str, sequence: u64) -> Vec<u8> {
    let mut key = named(namespace, stream);
    key.push(0);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// Returns the key of the reply to an idempotency key used on a day.
pub(super) fn reply(day: u64, namespace: &Namespace, key: &str) -> Vec<u8> {
    let mut full = day.to_be_bytes().to_vec();
    full.extend_from_slice(&named(namespace, key));
    full
}

/// Returns the first key after all keys with this prefix, which must end with a zero byte.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    end
}

/// Prepends a number to data.
pub(super) fn numbered(number: u64, data: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + data.len());
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(data);
    value
}

/// Splits the number off the front of data.
pub(super) fn split_number(value: &[u8]) -> Result<(u64, &[u8])> {
    match value.split_first_chunk::<8>() {
        Some((number, data)) => Ok((u64::from_be_bytes(*number), data)),
        None => Err(redb::Error::Corrupted(format!("a value of {} bytes is too short for its number", value.len()))),
    }
}

/// Reads the extent of a stream. `value`: what is stored under its key.
pub(super) fn extent(value: Option<&[u8]>) -> Result<Extent> {
    let Some(value) = value else {
        return Ok(Extent { next: 1, entries: 0, weight: 0 });
    };
    let [next, entries, weight] = numbers(value)?;
    Ok(Extent { next, entries, weight })
}

/// Reads the usage of a namespace. `value`: what is stored under its prefix.
pub(super) fn usage(value: Option<&[u8]>) -> Result<Usage> {
    let Some(value) = value else { return Ok(Usage::default()) };
    let [kept, day, replies, replies_before] = numbers(value)?;
    Ok(Usage { kept, day, replies, replies_before })
}

fn numbers<const N: usize>(mut value: &[u8]) -> Result<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        (*number, value) = split_number(value)?;
    }
    Ok(numbers)
}

/// Joins numbers to a value.
pub(super) fn joined<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.map(u64::to_be_bytes).concat()
}
