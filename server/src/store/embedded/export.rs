//! Reads the whole file, as of one instant.
//!
//! All of it is read at one instant. Meanwhile, the file keeps the pages that checkpoints replace, so it grows by as much
//! as is written, and reuses the space afterwards.

use std::{collections::BTreeSet, ops::Bound};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    EmbeddedStore,
    tables::{self, DAY_MS, Result as ReadResult, Table},
    view::{Layers, View},
};
use crate::store::{
    Export, Item, Namespace, StoreError,
    export::{abandoned, in_order},
};

/// Why an export ended early.
enum Ended {
    Failed(redb::Error),
    Abandoned,
}

impl<E: Into<redb::Error>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

#[async_trait]
impl Export for EmbeddedStore {
    fn kind(&self) -> &'static str {
        "embedded"
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        let today = self.clock.now_ms() / DAY_MS;
        self.read_elsewhere(Layers::clone, move |view| namespaces(view, today)).await
    }

    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        let (to, clock) = (to.clone(), self.clock.clone());
        let finished = self.read_elsewhere(Layers::clone, move |view| {
            // Read after the snapshot was taken, so that no commit in it is later.
            let export = Exporting { view, to, now_ms: clock.now_ms() };
            match export.run() {
                Ok(()) => Ok(true),
                Err(Ended::Abandoned) => Ok(false),
                Err(Ended::Failed(error)) => Err(error),
            }
        });
        if finished.await? { Ok(()) } else { Err(abandoned()) }
    }
}

struct Exporting<'t> {
    view: &'t View<'t>,
    to: mpsc::Sender<Item>,
    now_ms: u64,
}

impl Exporting<'_> {
    fn run(&self) -> Result<(), Ended> {
        let version = self.view.version();
        for namespace in namespaces(self.view, self.now_ms / DAY_MS)? {
            let prefix = tables::prefix(&namespace);
            self.send(Item::Namespace { namespace, version, clock_ms: self.now_ms })?;
            self.records(&prefix)?;
            self.streams(&prefix)?;
            self.each(Table::Leases, &prefix, |name, value| {
                let (until_ms, _) = tables::split_number(value)?;
                Ok(Item::Lease { name: text(name), left_ms: until_ms.saturating_sub(self.now_ms) })
            })?;
            for day in valid_days(self.now_ms / DAY_MS) {
                let mut keys = day.to_be_bytes().to_vec();
                keys.extend_from_slice(&prefix);
                self.each(Table::Replies, &keys, |key, value| {
                    Ok(Item::Reply { key: text(key), data: Bytes::copy_from_slice(value) })
                })?;
            }
        }
        Ok(())
    }

    fn records(&self, prefix: &[u8]) -> Result<(), Ended> {
        self.each(Table::Records, prefix, |key, value| {
            let (kind, id) = split_name(key)?;
            let (_, data) = tables::split_number(value)?;
            Ok(Item::Record { kind: text(kind), id: text(id), data: Bytes::copy_from_slice(data) })
        })
    }

    fn streams(&self, prefix: &[u8]) -> Result<(), Ended> {
        for found in self.view.prefixed(Table::Streams, prefix, &tables::end_of(prefix))? {
            let (key, value) = found?;
            let name = key.bytes().get(prefix.len()..).unwrap_or_default();
            let extent = tables::extent(Some(value.bytes()))?;
            let mut entries = key.bytes().to_vec();
            entries.push(0);
            self.each(Table::Entries, &entries, |sequence, value| {
                let (sequence, _) = tables::split_number(sequence)?;
                let (weight, data) = tables::split_number(value)?;
                Ok(Item::Entry { stream: text(name), sequence, weight, data: Bytes::copy_from_slice(data) })
            })?;
            self.send(Item::Stream { stream: text(name), next: extent.next })?;
        }
        Ok(())
    }

    /// Sends one item for each key of a table that starts with `prefix`. `item` gets the remaining key, and the value.
    fn each(&self, table: Table, prefix: &[u8], item: impl Fn(&[u8], &[u8]) -> ReadResult<Item>) -> Result<(), Ended> {
        for found in self.view.prefixed(table, prefix, &tables::end_of(prefix))? {
            let (key, value) = found?;
            self.send(item(key.bytes().get(prefix.len()..).unwrap_or_default(), value.bytes())?)?;
        }
        Ok(())
    }

    fn send(&self, item: Item) -> Result<(), Ended> {
        self.to.blocking_send(item).map_err(|_| Ended::Abandoned)
    }
}

/// Returns the days whose idempotency keys still count.
fn valid_days(today: u64) -> [u64; 2] {
    [today.saturating_sub(1), today]
}

/// Returns the namespaces that hold anything. Jumps from each one to the next, so it does not read what is in them.
fn namespaces(view: &View<'_>, today: u64) -> ReadResult<Vec<Namespace>> {
    let mut found = BTreeSet::new();
    for table in [Table::Records, Table::Streams, Table::Leases] {
        jump(view, table, &[], &mut found)?;
    }
    for day in valid_days(today) {
        jump(view, Table::Replies, &day.to_be_bytes(), &mut found)?;
    }
    Ok(in_order(found.into_iter().collect()))
}

/// Adds the namespaces whose keys in a table start with `before`.
fn jump(view: &View<'_>, table: Table, before: &[u8], found: &mut BTreeSet<Namespace>) -> ReadResult<()> {
    let mut from = before.to_vec();
    loop {
        let next = view.range(table, Bound::Included(&from), Bound::Unbounded, false)?.next();
        let Some(next) = next.transpose()? else { return Ok(()) };
        let Some(rest) = next.0.bytes().strip_prefix(before) else { return Ok(()) };
        let (namespace, _) = split_name(rest)?;
        found.insert(Namespace::from_stored(&text(namespace)));
        from = [before, namespace, &[1]].concat();
    }
}

/// Splits a key at its first zero byte.
fn split_name(key: &[u8]) -> ReadResult<(&[u8], &[u8])> {
    let at = key.iter().position(|byte| *byte == 0);
    let at = at.ok_or_else(|| redb::Error::Corrupted("a key has no zero byte".to_owned()))?;
    Ok((&key[..at], &key[at + 1..]))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
