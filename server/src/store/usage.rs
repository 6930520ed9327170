//! How many bytes a namespace holds, and what a transaction adds to them.
//!
//! A record counts as the size of its id and its data, an entry as that of its data, and a remembered reply as that of
//! its key and its data, each plus [`ITEM_BYTES`]. A record without data counts as nothing. Replies are counted by the
//! day of their use, so that they stop counting without being read. Every store counts alike, so that a quota means the
//! same on each.

use std::collections::HashMap;

use super::{Key, Txn, Write};

/// What is added to the size of an item's contents: about what stores need to keep it.
const ITEM_BYTES: u64 = 64;

/// The length of a day, by which replies are counted.
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Returns what a record counts. Zero for one without data, so that a store can ask for its length alone.
pub(super) fn record_bytes(id: &str, data: usize) -> u64 {
    if data == 0 { 0 } else { reply_bytes(id, data) }
}

/// Returns what a reply counts.
pub(super) fn reply_bytes(key: &str, data: usize) -> u64 {
    key.len() as u64 + data as u64 + ITEM_BYTES
}

/// Returns what an entry of a stream counts.
pub(super) fn entry_bytes(data: usize) -> u64 {
    data as u64 + ITEM_BYTES
}

/// How many bytes a namespace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The bytes of records and entries.
    pub(super) kept: u64,
    /// The day on which the last reply was remembered, since 1970.
    pub(super) day: u64,
    /// The bytes of the replies of that day.
    pub(super) replies: u64,
    /// The bytes of the replies of the day before.
    pub(super) replies_before: u64,
}

impl Usage {
    /// Returns the usage as of a day. Forgets replies that are older than the day before.
    pub(super) fn on(self, day: u64) -> Self {
        match day.saturating_sub(self.day) {
            0 => self,
            1 => Self { day, replies: 0, replies_before: self.replies, ..self },
            _ => Self { day, replies: 0, replies_before: 0, ..self },
        }
    }

    /// Returns the total.
    pub(super) fn bytes(self) -> u64 {
        self.kept.saturating_add(self.replies).saturating_add(self.replies_before)
    }

    /// Returns the usage after a transaction.
    pub(super) fn after(self, growth: &Growth<'_>) -> Self {
        Self {
            kept: self.kept.saturating_add(growth.added).saturating_sub(growth.freed),
            replies: self.replies.saturating_add(growth.replies),
            ..self
        }
    }
}

/// What the writes of a transaction add and free, in order.
#[derive(Debug, Default)]
pub(super) struct Growth<'t> {
    added: u64,
    freed: u64,
    replies: u64,
    /// What the records that the transaction has written count now.
    records: HashMap<&'t Key, u64>,
}

impl<'t> Growth<'t> {
    /// Counts a put or deleted record, or a remembered reply. `stored`: what the record counted before the transaction,
    /// or zero if there was none. Other writes count nothing here.
    pub(super) fn write<E>(&mut self, write: &'t Write, stored: impl FnOnce(&Key) -> Result<u64, E>) -> Result<(), E> {
        let (key, bytes) = match write {
            Write::Put { key, data } => (key, record_bytes(&key.id, data.len())),
            Write::Delete { key } => (key, 0),
            Write::RememberReply { key, data } => {
                self.replies += reply_bytes(key, data.len());
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.freed += match self.records.insert(key, bytes) {
            Some(before) => before,
            None => stored(key)?,
        };
        self.added += bytes;
        Ok(())
    }

    /// Counts an appended entry.
    pub(super) fn append(&mut self, data: usize) {
        self.added += entry_bytes(data);
    }

    /// Counts a removed entry.
    pub(super) fn remove(&mut self, data: usize) {
        self.freed += entry_bytes(data);
    }
}

impl Txn {
    /// Returns whether the namespace may hold `after` bytes. A transaction that adds nothing always may.
    pub(super) fn fits(&self, before: Usage, after: Usage) -> bool {
        after.bytes() <= before.bytes() || self.bytes_max.is_none_or(|max| after.bytes() <= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_count_until_the_end_of_the_next_day() {
        let usage = Usage { kept: 100, day: 5, replies: 10, replies_before: 1 };
        assert_eq!([5, 6, 7, 9].map(|day| usage.on(day).bytes()), [111, 110, 100, 100]);
        // A clock that is behind another one frees nothing.
        assert_eq!(usage.on(4), usage);
    }
}
