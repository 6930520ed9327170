//! How the namespaces are laid out in the tables of the file.
//!
//! Every key begins with its namespace (after the day, in the ledger), every part of a key but the last ends with a zero
//! byte, and numbers are big-endian. So what belongs together lies together: the entries of a stream in their order,
//! and the ledger's keys of one day, which end up side by side when they begin with a time.

use std::collections::HashMap;

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::store::{Extent, Namespace};

pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;
pub(super) type Open<'txn> = Table<'txn, &'static [u8], &'static [u8]>;
pub(super) type Result<T> = std::result::Result<T, redb::Error>;

/// `namespace 0 kind 0 id` -> version, data.
pub(super) const RECORDS: Definition = TableDefinition::new("records");
/// `namespace 0 stream` -> next, entries, weight.
pub(super) const STREAMS: Definition = TableDefinition::new("streams");
/// `namespace 0 stream 0 sequence` -> weight, data.
pub(super) const ENTRIES: Definition = TableDefinition::new("entries");
/// `namespace 0 name` -> milliseconds since 1970.
pub(super) const LEASES: Definition = TableDefinition::new("leases");
/// `day namespace 0 key` -> data.
pub(super) const LEDGER: Definition = TableDefinition::new("ledger");
/// The names below -> a number.
pub(super) const FACTS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("facts");

/// The layout of the file, [`FORMAT_KNOWN`].
pub(super) const FORMAT: &str = "format";
/// The last version that was given to a record.
pub(super) const VERSION: &str = "version";
/// The clock at the last commit.
pub(super) const CLOCK_MS: &str = "clock_ms";

/// The layout that this module describes.
pub(super) const FORMAT_KNOWN: u64 = 1;

/// The days of the ledger are this long.
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// The tables of a write transaction.
pub(super) struct Tables<'txn> {
    pub(super) records: Open<'txn>,
    pub(super) streams: Open<'txn>,
    pub(super) entries: Open<'txn>,
    pub(super) leases: Open<'txn>,
    pub(super) ledger: Open<'txn>,
    pub(super) facts: Table<'txn, &'static str, u64>,
    /// The extents that the batch has changed. Busy streams change with every transaction of it, but are written once.
    extents: HashMap<Vec<u8>, Extent>,
}

impl<'txn> Tables<'txn> {
    /// Opens all of them, and makes those that are missing.
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Self> {
        Ok(Self {
            records: txn.open_table(RECORDS)?,
            streams: txn.open_table(STREAMS)?,
            entries: txn.open_table(ENTRIES)?,
            leases: txn.open_table(LEASES)?,
            ledger: txn.open_table(LEDGER)?,
            facts: txn.open_table(FACTS)?,
            extents: HashMap::new(),
        })
    }

    /// Reads the extent of a stream.
    pub(super) fn extent(&self, namespace: &Namespace, stream: &str) -> Result<Extent> {
        let key = named(namespace, stream);
        match self.extents.get(&key) {
            Some(extent) => Ok(*extent),
            None => stored_extent(&self.streams, &key),
        }
    }

    /// Changes the extent of a stream.
    pub(super) fn set_extent(&mut self, namespace: &Namespace, stream: &str, extent: Extent) {
        self.extents.insert(named(namespace, stream), extent);
    }

    /// Removes all that begins with the prefix of a namespace, the ledger excepted.
    pub(super) fn clear_namespace(&mut self, prefix: &[u8]) -> Result<()> {
        self.extents.retain(|key, _| !key.starts_with(prefix));
        for table in [&mut self.records, &mut self.streams, &mut self.entries, &mut self.leases] {
            clear(table, prefix)?;
        }
        Ok(())
    }

    /// Writes the extents that have changed.
    pub(super) fn flush(&mut self) -> Result<()> {
        let mut changed: Vec<_> = self.extents.drain().collect();
        // Neighbours one after the other.
        changed.sort_unstable_by(|(key, _), (other, _)| key.cmp(other));
        for (key, extent) in changed {
            let value = [extent.next, extent.entries, extent.weight].map(u64::to_be_bytes);
            self.streams.insert(key.as_slice(), value.as_flattened())?;
        }
        Ok(())
    }
}

/// Removes all that begins with `prefix`, which ends with a zero byte.
pub(super) fn clear(table: &mut Open<'_>, prefix: &[u8]) -> Result<()> {
    let end = end_of(prefix);
    Ok(table.retain_in(prefix..end.as_slice(), |_, _| false)?)
}

/// Returns the key of what `name` names in a namespace, or the first part of longer keys.
pub(super) fn named(namespace: &Namespace, name: &str) -> Vec<u8> {
    let mut key = prefix(namespace);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Returns what every key of a namespace begins with.
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

/// Returns the key under which the ledger knows `key` on a day.
pub(super) fn seen(day: u64, namespace: &Namespace, key: &str) -> Vec<u8> {
    let mut full = day.to_be_bytes().to_vec();
    full.extend_from_slice(&named(namespace, key));
    full
}

/// Returns the first key after all that begin with `prefix`, which ends with a zero byte.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    end
}

/// Puts a number before data.
pub(super) fn numbered(number: u64, data: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + data.len());
    value.extend_from_slice(&number.to_be_bytes());
    value.extend_from_slice(data);
    value
}

/// Takes the number from before data.
pub(super) fn split_number(value: &[u8]) -> Result<(u64, &[u8])> {
    match value.split_first_chunk::<8>() {
        Some((number, data)) => Ok((u64::from_be_bytes(*number), data)),
        None => Err(redb::Error::Corrupted(format!("a value of {} bytes where a number belongs", value.len()))),
    }
}

/// Reads the extent of a stream under its key.
pub(super) fn stored_extent(streams: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Extent> {
    let Some(value) = streams.get(key)? else {
        return Ok(Extent { next: 1, entries: 0, weight: 0 });
    };
    let (next, rest) = split_number(value.value())?;
    let (entries, rest) = split_number(rest)?;
    let (weight, _) = split_number(rest)?;
    Ok(Extent { next, entries, weight })
}
