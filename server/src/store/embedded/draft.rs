//! A batch of transactions that is being carried out: the tables as the batch's earlier transactions leave them.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    changes::Changes,
    tables::{self, Result, Table},
    view::{Value, View},
};
use crate::store::{Extent, Namespace, usage::Usage};

/// The changes of a batch, on top of the tables before it.
pub(super) struct Draft<'v> {
    view: &'v View<'v>,
    changes: Changes,
    /// The usages that the batch has changed.
    usages: HashMap<Vec<u8>, Usage>,
    /// The extents that the batch has changed. A busy stream changes with every transaction of the batch, but is
    /// logged once.
    extents: HashMap<Vec<u8>, Extent>,
    /// About how many bytes of log the changes need.
    bytes: usize,
}

impl<'v> Draft<'v> {
    /// Begins a batch.
    pub(super) fn on(view: &'v View<'v>) -> Self {
        Self { view, changes: Changes::default(), usages: HashMap::new(), extents: HashMap::new(), bytes: 0 }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Value<'_>>> {
        match self.changes.get(table, key) {
            Some(change) => Ok(change.as_ref().map(Value::Changed)),
            None => self.view.get(table, key),
        }
    }

    /// Stores a value.
    pub(super) fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        self.changes.set(table, key, Some(Bytes::from(value)));
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, table: Table, key: &[u8]) {
        self.bytes += key.len();
        self.changes.set(table, key, None);
    }

    /// Returns about how many bytes of log the changes need.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the extent of a stream.
    pub(super) fn extent(&self, namespace: &Namespace, stream: &str) -> Result<Extent> {
        let key = tables::named(namespace, stream);
        match self.extents.get(&key) {
            Some(extent) => Ok(*extent),
            None => tables::extent(self.get(Table::Streams, &key)?.as_ref().map(Value::bytes)),
        }
    }

    /// Changes the extent of a stream.
    pub(super) fn set_extent(&mut self, namespace: &Namespace, stream: &str, extent: Extent) {
        self.extents.insert(tables::named(namespace, stream), extent);
    }

    /// Reads the usage of a namespace.
    pub(super) fn usage(&self, namespace: &Namespace) -> Result<Usage> {
        let key = tables::prefix(namespace);
        match self.usages.get(&key) {
            Some(usage) => Ok(*usage),
            None => tables::usage(self.get(Table::Usage, &key)?.as_ref().map(Value::bytes)),
        }
    }

    /// Changes the usage of a namespace.
    pub(super) fn set_usage(&mut self, namespace: &Namespace, usage: Usage) {
        self.usages.insert(tables::prefix(namespace), usage);
    }

    /// Returns the changes of the batch.
    pub(super) fn finish(mut self) -> Changes {
        for (key, Usage { kept, day, replies, replies_before }) in std::mem::take(&mut self.usages) {
            self.put(Table::Usage, &key, tables::joined([kept, day, replies, replies_before]));
        }
        for (key, extent) in std::mem::take(&mut self.extents) {
            self.put(Table::Streams, &key, tables::joined([extent.next, extent.entries, extent.weight]));
        }
        self.changes
    }
}
