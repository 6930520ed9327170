//! The layout of namespaces in the tables of the file.
//!
//! Every key starts with its namespace (preceded by the day in [`REPLIES`]). Every part of a key except the last ends
//! with a zero byte, and numbers are big-endian. Related data is therefore adjacent: the entries of a stream in order,
//! and the idempotency keys of one day, which end up next to each other if they start with a time.

use std::collections::HashMap;

use redb::{ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::store::{
    Extent, Namespace,
    usage::{self, Usage},
};

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
/// `day namespace 0 idempotency key` -> reply.
pub(super) const REPLIES: Definition = TableDefinition::new("replies");
/// `namespace 0` -> the bytes of records and entries, the day of the last reply, the bytes of the replies of that day,
/// and of the day before.
pub(super) const USAGE: Definition = TableDefinition::new("usage");
/// One of the names below -> a number.
pub(super) const FACTS: TableDefinition<'static, &'static str, u64> = TableDefinition::new("facts");

/// The format of the store, [`FORMAT_KNOWN`](crate::store::FORMAT_KNOWN).
pub(super) const FORMAT: &str = "format";
/// The last version given to a record.
pub(super) const VERSION: &str = "version";
/// The last version at a commit that counted. If it is not [`VERSION`], a release that does not count has written
/// since.
pub(super) const COUNTED: &str = "counted";
/// The clock at the last commit.
pub(super) const CLOCK_MS: &str = "clock_ms";

/// The release that created the file.
pub(super) const WRITTEN_BY: &str = "written_by";

/// The length of a day, by which idempotency keys are grouped and purged.
pub(super) const DAY_MS: u64 = usage::DAY_MS;

/// The tables of a write transaction.
pub(super) struct Tables<'txn> {
    pub(super) records: Open<'txn>,
    pub(super) streams: Open<'txn>,
    pub(super) entries: Open<'txn>,
    pub(super) leases: Open<'txn>,
    pub(super) replies: Open<'txn>,
    pub(super) usage: Open<'txn>,
    pub(super) facts: Table<'txn, &'static str, u64>,
    /// The usages that the batch has changed.
    usages: HashMap<Vec<u8>, Usage>,
    /// The extents that the batch has changed. A busy stream changes with every transaction of the batch, but is
    /// written once.
    extents: HashMap<Vec<u8>, Extent>,
}

impl<'txn> Tables<'txn> {
    /// Opens all tables, and creates missing ones.
    pub(super) fn open(txn: &'txn WriteTransaction) -> Result<Self> {
        Ok(Self {
            records: txn.open_table(RECORDS)?,
            streams: txn.open_table(STREAMS)?,
            entries: txn.open_table(ENTRIES)?,
            leases: txn.open_table(LEASES)?,
            replies: txn.open_table(REPLIES)?,
            usage: txn.open_table(USAGE)?,
            facts: txn.open_table(FACTS)?,
            usages: HashMap::new(),
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

    /// Reads the usage of a namespace.
    pub(super) fn usage(&self, namespace: &Namespace) -> Result<Usage> {
        let key = prefix(namespace);
        match self.usages.get(&key) {
            Some(usage) => Ok(*usage),
            None => stored_usage(&self.usage, &key),
        }
    }

    /// Changes the usage of a namespace.
    pub(super) fn set_usage(&mut self, namespace: &Namespace, usage: Usage) {
        self.usages.insert(prefix(namespace), usage);
    }

    /// Counts everything, after a release that does not count has written. `day`: the last day on which it may have
    /// written.
    pub(super) fn recount(&mut self, day: u64) -> Result<()> {
        fn usage_of<'u>(usages: &'u mut HashMap<Vec<u8>, Usage>, key: &[u8], day: u64) -> &'u mut Usage {
            usages.entry(first_part(key).to_vec()).or_insert(Usage { day, ..Usage::default() })
        }
        let mut usages = HashMap::new();
        for found in self.records.iter()? {
            let (key, value) = found?;
            let (key, value) = (key.value(), value.value());
            let rest = key.get(first_part(key).len()..).unwrap_or_default();
            let id = String::from_utf8_lossy(rest.get(first_part(rest).len()..).unwrap_or_default());
            usage_of(&mut usages, key, day).kept += usage::record_bytes(&id, split_number(value)?.1.len());
        }
        for found in self.entries.iter()? {
            let (key, value) = found?;
            usage_of(&mut usages, key.value(), day).kept += usage::entry_bytes(split_number(value.value())?.1.len());
        }
        for found in self.replies.iter()? {
            let (key, value) = found?;
            let (used, key) = split_number(key.value())?;
            let name = key.get(first_part(key).len()..).unwrap_or_default();
            let bytes = usage::reply_bytes(&String::from_utf8_lossy(name), value.value().len());
            match day.saturating_sub(used) {
                0 => usage_of(&mut usages, key, day).replies += bytes,
                1 => usage_of(&mut usages, key, day).replies_before += bytes,
                _ => {}
            }
        }
        self.usage.retain(|_, _| false)?;
        self.usages = usages;
        self.flush()
    }

    /// Removes everything with a namespace's prefix, except replies.
    pub(super) fn clear_namespace(&mut self, prefix: &[u8]) -> Result<()> {
        self.extents.retain(|key, _| !key.starts_with(prefix));
        self.usages.remove(prefix);
        let Self { records, streams, entries, leases, usage, .. } = self;
        for table in [records, streams, entries, leases, usage] {
            clear(table, prefix)?;
        }
        Ok(())
    }

    /// Writes the extents and usages that have changed.
    pub(super) fn flush(&mut self) -> Result<()> {
        for (key, Usage { kept, day, replies, replies_before }) in self.usages.drain() {
            let value = [kept, day, replies, replies_before].map(u64::to_be_bytes);
            self.usage.insert(key.as_slice(), value.as_flattened())?;
        }
        let mut changed: Vec<_> = self.extents.drain().collect();
        // Write neighbors one after the other.
        changed.sort_unstable_by(|(key, _), (other, _)| key.cmp(other));
        for (key, extent) in changed {
            let value = [extent.next, extent.entries, extent.weight].map(u64::to_be_bytes);
            self.streams.insert(key.as_slice(), value.as_flattened())?;
        }
        Ok(())
    }
}

/// Removes everything with this prefix, which must end with a zero byte.
pub(super) fn clear(table: &mut Open<'_>, prefix: &[u8]) -> Result<()> {
    let end = end_of(prefix);
    Ok(table.retain_in(prefix..end.as_slice(), |_, _| false)?)
}

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

/// Reads the extent of the stream with this key.
pub(super) fn stored_extent(streams: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Extent> {
    let Some(value) = streams.get(key)? else {
        return Ok(Extent { next: 1, entries: 0, weight: 0 });
    };
    let (next, rest) = split_number(value.value())?;
    let (entries, rest) = split_number(rest)?;
    let (weight, _) = split_number(rest)?;
    Ok(Extent { next, entries, weight })
}

/// Reads the usage of the namespace with this prefix.
pub(super) fn stored_usage(usages: &impl ReadableTable<&'static [u8], &'static [u8]>, key: &[u8]) -> Result<Usage> {
    let Some(value) = usages.get(key)? else { return Ok(Usage::default()) };
    let (kept, rest) = split_number(value.value())?;
    let (day, rest) = split_number(rest)?;
    let (replies, rest) = split_number(rest)?;
    let (replies_before, _) = split_number(rest)?;
    Ok(Usage { kept, day, replies, replies_before })
}

/// Returns the first part of a key, with the zero byte that ends it.
fn first_part(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|byte| *byte == 0).map_or(key.len(), |zero| zero + 1);
    key.get(..end).unwrap_or(key)
}
