//! Changes to the tables that are not in the file yet.

use std::{
    collections::{BTreeMap, HashSet},
    hash::BuildHasher as _,
    ops::Bound,
};

use bytes::Bytes;
use foldhash::fast::FixedState;

use super::tables::{TABLES, Table};

/// What the store continues from after a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The last version given to a record.
    pub(super) version: u64,
    /// The clock at the last commit.
    pub(super) clock_ms: u64,
    /// The sequence of the last record of the write-ahead log.
    pub(super) logged: u64,
}

/// What a commit leaves under a key: a value, or `None` if it removes the key.
pub(super) type Change = Option<Bytes>;

/// The changes of one commit, or of several that follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    tables: [BTreeMap<Box<[u8]>, Change>; TABLES],
    /// The hashes of all keys. Most keys that are looked up have not changed lately, and this shows it at once.
    hashes: HashSet<u64, FixedState>,
}

fn hash(table: Table, key: &[u8]) -> u64 {
    FixedState::default().hash_one((table.number(), key))
}

impl Changes {
    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// Returns the change of a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<&Change> {
        if self.hashes.contains(&hash(table, key)) { self.tables[table as usize].get(key) } else { None }
    }

    /// Notes a change.
    pub(super) fn set(&mut self, table: Table, key: &[u8], change: Change) {
        self.hashes.insert(hash(table, key));
        self.tables[table as usize].insert(key.into(), change);
    }

    /// Adds later changes.
    pub(super) fn extend(&mut self, later: Self) {
        self.hashes.extend(later.hashes);
        for (table, later) in self.tables.iter_mut().zip(later.tables) {
            table.extend(later);
        }
    }

    /// Returns the changes of a table, in the order of the keys.
    pub(super) fn of(&self, table: Table) -> impl Iterator<Item = (&[u8], &Change)> {
        self.tables[table as usize].iter().map(|(key, change)| (&**key, change))
    }

    /// Returns the changes between two keys, in their order. `from` must not be greater than `to`.
    pub(super) fn range(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &Change)> {
        self.tables[table as usize].range::<[u8], _>((from, to)).map(|(key, change)| (&**key, change))
    }
}
