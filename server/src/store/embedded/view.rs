//! What the tables hold at one instant: those of the file, and the changes that are not in it yet.

use std::{cell::OnceCell, cmp::Ordering, ops::Bound, sync::Arc};

use bytes::Bytes;
use itertools::{EitherOrBoth, Itertools as _};
use parking_lot::{RwLock, RwLockReadGuard};
use redb::{AccessGuard, ReadOnlyTable, ReadTransaction};

use super::{
    changes::{Change, Changes},
    tables::{Result, TABLES, Table},
};
use crate::store::Record;

/// Changes on top of the file, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    /// The changes of the log's current segment.
    pub(super) active: Arc<Changes>,
    /// The changes of its other segment, which are being written to the file.
    pub(super) frozen: Option<Arc<Changes>>,
    /// At least the version of the last commit.
    pub(super) version: u64,
}

impl Layers {
    /// Returns what they say of the keys between two. `from` must not be greater than `to`.
    pub(super) fn within(&self, table: Table, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Self {
        let within = |changes: &Changes| {
            let mut found = Changes::default();
            changes.range(table, from, to).for_each(|(key, change)| found.set(table, key, change.clone()));
            Arc::new(found)
        };
        let frozen = self.frozen.as_deref().map(within);
        Self { active: within(&self.active), frozen, version: self.version }
    }

    fn get(&self, table: Table, key: &[u8]) -> Option<&Change> {
        let frozen = || self.frozen.as_ref()?.get(table, key);
        self.active.get(table, key).or_else(frozen)
    }
}

/// The layers, shared by readers, the writer and the checkpointer.
#[derive(Debug, Default)]
pub(super) struct Recent(RwLock<Layers>);

impl Recent {
    /// Starts with these layers.
    pub(super) fn starting_with(layers: Layers) -> Self {
        Self(RwLock::new(layers))
    }

    /// Returns the layers. Commits wait while the guard lives.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Layers> {
        self.0.read()
    }

    /// Shows readers a commit.
    pub(super) fn publish(&self, changes: Changes, version: u64) {
        let mut layers = self.0.write();
        Arc::make_mut(&mut layers.active).extend(changes);
        layers.version = version;
    }

    /// Announces a commit that is going to be written to the file.
    pub(super) fn announce(&self, version: u64) {
        self.0.write().version = version;
    }

    /// Freezes the active layer. No layer may be frozen.
    pub(super) fn freeze(&self) {
        let mut layers = self.0.write();
        layers.frozen = Some(std::mem::take(&mut layers.active));
    }

    /// Removes the frozen layer once the file contains it.
    pub(super) fn thaw(&self) {
        // Drop it outside the lock.
        let _frozen = self.0.write().frozen.take();
    }
}

type Reading = ReadOnlyTable<&'static [u8], &'static [u8]>;
type Guard = AccessGuard<'static, &'static [u8]>;

/// The tables at one instant.
pub(super) struct View<'v> {
    layers: &'v Layers,
    txn: ReadTransaction,
    open: [OnceCell<Reading>; TABLES],
}

/// A value.
pub(super) enum Value<'v> {
    Changed(&'v Bytes),
    Stored(Guard),
}

impl Value<'_> {
    /// Returns its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Changed(bytes) => bytes,
            Self::Stored(guard) => guard.value(),
        }
    }

    /// Returns the number at its front, and the data after it.
    pub(super) fn split_number(&self) -> Result<(u64, Bytes)> {
        let (number, data) = super::tables::split_number(self.bytes())?;
        Ok((
            number,
            match self {
                Self::Changed(bytes) => bytes.slice_ref(data),
                Self::Stored(_) => Bytes::copy_from_slice(data),
            },
        ))
    }

    /// Returns the record that it holds.
    pub(super) fn record(&self) -> Result<Record> {
        let (version, data) = self.split_number()?;
        Ok(Record { version, data })
    }
}

/// A key.
pub(super) enum Key<'v> {
    Changed(&'v [u8]),
    Stored(Guard),
}

impl Key<'_> {
    /// Returns its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Changed(bytes) => bytes,
            Self::Stored(guard) => guard.value(),
        }
    }
}

/// What a range finds.
pub(super) type Found<'v> = Box<dyn Iterator<Item = Result<(Key<'v>, Value<'v>)>> + 'v>;

impl<'v> View<'v> {
    /// Views the file through these layers. Take the transaction after the layers: what leaves them is in the file.
    pub(super) fn new(layers: &'v Layers, txn: ReadTransaction) -> Self {
        Self { layers, txn, open: Default::default() }
    }

    fn table(&self, table: Table) -> Result<&Reading> {
        let cell = &self.open[table as usize];
        match cell.get() {
            Some(open) => Ok(open),
            None => {
                let open = self.txn.open_table(table.definition())?;
                Ok(cell.get_or_init(|| open))
            }
        }
    }

    /// Returns a version that is at least that of every commit in it.
    pub(super) fn version(&self) -> u64 {
        self.layers.version
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value<'v>>> {
        match self.layers.get(table, key) {
            Some(change) => Ok(change.as_ref().map(Value::Changed)),
            None => Ok(self.table(table)?.get(key)?.map(Value::Stored)),
        }
    }

    /// Returns what a table holds between two keys, in their order, or in reverse.
    pub(super) fn range<'s>(
        &'s self,
        table: Table,
        from: Bound<&'s [u8]>,
        to: Bound<&'s [u8]>,
        is_reverse: bool,
    ) -> Result<Found<'s>> {
        if is_empty(from, to) {
            return Ok(Box::new(std::iter::empty()));
        }
        let ordered = move |ordering: Ordering| if is_reverse { ordering.reverse() } else { ordering };
        let frozen = self.layers.frozen.as_deref().map(|frozen| frozen.range(table, from, to));
        let active = directed(self.layers.active.range(table, from, to), is_reverse);
        let frozen = directed(frozen.into_iter().flatten(), is_reverse);
        let stored = directed(self.table(table)?.range::<&[u8]>((from, to))?, is_reverse);
        let changed = active
            .merge_join_by(frozen, move |(active, _), (frozen, _)| ordered(active.cmp(frozen)))
            .map(|either| either.reduce(|active, _| active));
        let all = changed.merge_join_by(stored, move |(changed, _), stored| match stored {
            Ok((stored, _)) => ordered((*changed).cmp(stored.value())),
            Err(_) => Ordering::Greater,
        });
        Ok(Box::new(all.filter_map(|found| match found {
            EitherOrBoth::Left((key, change)) | EitherOrBoth::Both((key, change), _) => {
                change.as_ref().map(|value| Ok((Key::Changed(key), Value::Changed(value))))
            }
            EitherOrBoth::Right(Ok((key, value))) => Some(Ok((Key::Stored(key), Value::Stored(value)))),
            EitherOrBoth::Right(Err(error)) => Some(Err(error.into())),
        })))
    }

    /// Returns everything whose key starts with `prefix`, which must end with a zero byte.
    pub(super) fn prefixed<'s>(&'s self, table: Table, prefix: &'s [u8], end: &'s [u8]) -> Result<Found<'s>> {
        self.range(table, Bound::Included(prefix), Bound::Excluded(end), false)
    }
}

fn directed<'i, I: DoubleEndedIterator + 'i>(iterator: I, is_reverse: bool) -> Box<dyn Iterator<Item = I::Item> + 'i> {
    if is_reverse { Box::new(iterator.rev()) } else { Box::new(iterator) }
}

fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}
