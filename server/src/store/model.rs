//! The model store: plain maps behind one lock. It is the specification of a store in the fewest words, used to compare
//! other stores with and to simulate.
//!
//! It never waits and has no background work, so under simulated time its behavior depends only on the order of the
//! calls. Any number of coordinators in one process can share it. Nothing outlives it. It keeps idempotency keys
//! forever and never frees memory, so do not use it for anything else.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};

use super::{
    Check, Commit, Durability, Entry, Export, Extent, Failed, Item, Key, Leases, NOTIFICATIONS_MAX, Namespace,
    Notification, Outcome, Range, Record, Store, StoreError, Txn, WhenFull, Write, export,
    usage::{DAY_MS, Growth, Usage, record_bytes},
};

/// The store in plain maps. See the [module](self).
#[derive(Debug)]
pub struct ModelStore {
    state: Mutex<Everything>,
    notifications: broadcast::Sender<Notification>,
}

#[derive(Debug, Default)]
struct Everything {
    namespaces: BTreeMap<Namespace, Contents>,
    version: u64,
    clock_ms: u64,
}

/// The contents of a namespace.
#[derive(Debug, Default)]
struct Contents {
    records: BTreeMap<(&'static str, String), Record>,
    streams: BTreeMap<String, Stream>,
    leases: BTreeMap<String, u64>,
    replies: BTreeMap<String, Bytes>,
    usage: Usage,
    version: u64,
}

#[derive(Debug)]
struct Stream {
    extent: Extent,
    /// Sequence to weight and data.
    entries: BTreeMap<u64, (u64, Bytes)>,
}

/// A change to a stream, recorded for rollback.
enum Done<'t> {
    Appended(&'t str),
    Removed(&'t str, u64, (u64, Bytes)),
    /// From this next sequence.
    Skipped(&'t str, u64),
}

impl ModelStore {
    /// Creates an empty store.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), notifications: broadcast::channel(NOTIFICATIONS_MAX).0 })
    }

    /// Runs `read` on a namespace's contents. Returns the default if the namespace is empty.
    fn with_contents<T: Default>(&self, namespace: &Namespace, read: impl FnOnce(&Contents) -> T) -> T {
        self.state.lock().namespaces.get(namespace).map(read).unwrap_or_default()
    }
}

impl Everything {
    fn now_ms(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.clock_ms = self.clock_ms.max(u64::try_from(now).unwrap_or(u64::MAX));
        self.clock_ms
    }

    fn commit(&mut self, namespace: &Namespace, txn: &Txn) -> Result<Commit, Failed> {
        let at_ms = self.now_ms();
        let contents = self.namespaces.entry(namespace.clone()).or_default();
        txn.checks.iter().try_for_each(|check| contents.check(check, at_ms))?;
        let (appended, removed) = contents.write_streams(txn, at_ms)?;
        self.version += 1;
        let version = self.version;
        if !txn.changes_leases_only() {
            contents.version = version;
        }
        for write in &txn.writes {
            contents.write(write, version, at_ms);
            if let Write::Raise { version, clock_ms } = write {
                self.version = self.version.max(*version);
                self.clock_ms = self.clock_ms.max(*clock_ms);
            }
        }
        if txn.writes.contains(&Write::DropNamespace) {
            self.namespaces.remove(namespace);
        }
        Ok(Commit { version, at_ms, durability: Durability::Applied, appended, removed })
    }
}

impl Contents {
    fn check(&self, check: &Check, now_ms: u64) -> Result<(), Failed> {
        match check {
            Check::Version { key, version } => {
                let current = self.record(key);
                if current.as_ref().map(|record| record.version) != *version {
                    return Err(Failed::Version { key: key.clone(), current });
                }
            }
            Check::KeyUnused { key } => {
                if let Some(data) = self.replies.get(key) {
                    return Err(Failed::KeyUsed { data: data.clone() });
                }
            }
            Check::Lease { name, alive } => {
                if self.leases.get(name).is_some_and(|until_ms| *until_ms > now_ms) != *alive {
                    return Err(Failed::Lease { name: name.clone() });
                }
            }
        }
        Ok(())
    }

    fn record(&self, key: &Key) -> Option<Record> {
        self.records.get(&(key.kind, key.id.clone())).cloned()
    }

    /// Applies all changes to streams, or none, and counts what the whole transaction adds and frees. Returns the
    /// sequence of each append, and the number of removed entries.
    fn write_streams(&mut self, txn: &Txn, now_ms: u64) -> Result<(Vec<Option<u64>>, u64), Failed> {
        let (mut done, mut appended, mut removed) = (Vec::new(), Vec::new(), 0);
        let mut growth = Growth::default();
        for write in &txn.writes {
            growth.write(write, |key| {
                Ok::<_, Failed>(self.record(key).map_or(0, |record| record_bytes(&key.id, record.data.len())))
            })?;
            match write {
                Write::Append { stream: name, data, weight, bound } => {
                    let stream = self.streams.entry(name.clone()).or_default();
                    let Extent { entries, weight: heavy, .. } = stream.extent;
                    let full = bound.filter(|it| entries >= it.entries_max || heavy + weight > it.weight_max);
                    match full.map(|bound| bound.when_full) {
                        Some(WhenFull::Refuse) => {
                            done.into_iter().rev().for_each(|done| self.undo(done));
                            return Err(Failed::Full { stream: name.clone() });
                        }
                        Some(WhenFull::Skip) => appended.push(None),
                        None => {
                            appended.push(Some(stream.extent.next));
                            growth.append(data.len());
                            stream.put(stream.extent.next, (*weight, data.clone()));
                            stream.extent.next += 1;
                            done.push(Done::Appended(name));
                        }
                    }
                }
                Write::Remove { stream: name, sequences } => {
                    for sequence in sequences {
                        if let Some(entry) = self.streams.get_mut(name).and_then(|stream| stream.take(*sequence)) {
                            removed += 1;
                            growth.remove(entry.1.len());
                            done.push(Done::Removed(name, *sequence, entry));
                        }
                    }
                }
                Write::SkipTo { stream: name, next } => {
                    let stream = self.streams.entry(name.clone()).or_default();
                    done.push(Done::Skipped(name, stream.extent.next));
                    stream.extent.next = stream.extent.next.max(*next);
                }
                _ => {}
            }
        }
        let before = self.usage.on(now_ms / DAY_MS);
        let after = before.after(&growth);
        if !txn.fits(before, after) {
            done.into_iter().rev().for_each(|done| self.undo(done));
            return Err(Failed::OverQuota { held: before.bytes() });
        }
        self.usage = after;
        Ok((appended, removed))
    }

    fn undo(&mut self, done: Done<'_>) {
        match done {
            Done::Appended(name) => {
                let stream = self.streams.entry(name.to_owned()).or_default();
                stream.extent.next -= 1;
                stream.take(stream.extent.next);
            }
            Done::Removed(name, sequence, entry) => {
                self.streams.entry(name.to_owned()).or_default().put(sequence, entry);
            }
            Done::Skipped(name, next) => self.streams.entry(name.to_owned()).or_default().extent.next = next,
        }
    }

    /// Applies a change to anything but streams.
    fn write(&mut self, write: &Write, version: u64, now_ms: u64) {
        match write {
            Write::Put { key, data } => {
                self.records.insert((key.kind, key.id.clone()), Record { version, data: data.clone() });
            }
            Write::Delete { key } => {
                self.records.remove(&(key.kind, key.id.clone()));
            }
            Write::RememberReply { key, data } => {
                self.replies.insert(key.clone(), data.clone());
            }
            Write::Lease { name, ttl } => {
                let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                self.leases.insert(name.clone(), now_ms.saturating_add(ttl_ms));
            }
            Write::EndLease { name } => {
                self.leases.remove(name);
            }
            Write::Append { .. }
            | Write::Remove { .. }
            | Write::SkipTo { .. }
            | Write::Raise { .. }
            | Write::Notify { .. }
            | Write::DropNamespace => {}
        }
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self { extent: Extent { next: 1, entries: 0, weight: 0 }, entries: BTreeMap::new() }
    }
}

impl Stream {
    fn put(&mut self, sequence: u64, entry: (u64, Bytes)) {
        self.extent.entries += 1;
        self.extent.weight += entry.0;
        self.entries.insert(sequence, entry);
    }

    fn take(&mut self, sequence: u64) -> Option<(u64, Bytes)> {
        let entry = self.entries.remove(&sequence)?;
        self.extent.entries -= 1;
        self.extent.weight -= entry.0;
        Some(entry)
    }

    fn range(&self, range: Range) -> Vec<Entry> {
        if range.first > range.last {
            return Vec::new();
        }
        let found = self.entries.range(range.first..=range.last);
        let entry = |(sequence, (_, data)): (&u64, &(u64, Bytes))| Entry { sequence: *sequence, data: data.clone() };
        match range.newest_first {
            true => found.rev().take(range.limit).map(entry).collect(),
            false => found.take(range.limit).map(entry).collect(),
        }
    }
}

#[async_trait]
impl Store for ModelStore {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        let state = self.state.lock();
        let contents = state.namespaces.get(namespace);
        Ok(keys.iter().map(|key| contents?.record(key)).collect())
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        Ok(self.with_contents(namespace, |contents| {
            let all = contents.records.iter().filter(|((of, id), _)| *of == kind && id.as_str() > after);
            all.take(limit).map(|((_, id), record)| (id.clone(), record.clone())).collect()
        }))
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        Ok(self.with_contents(namespace, |contents| {
            contents.streams.get(stream).map(|it| it.range(range)).unwrap_or_default()
        }))
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        let state = self.state.lock();
        let contents = state.namespaces.get(namespace);
        let extent =
            |name| contents.and_then(|it| it.streams.get(name)).map_or(Stream::default().extent, |it| it.extent);
        Ok(streams.iter().map(extent).collect())
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let until_ms = self.with_contents(namespace, |contents| contents.leases.clone());
        Ok(Leases { now_ms: self.state.lock().now_ms(), until_ms })
    }

    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let usage = self.with_contents(namespace, |contents| contents.usage);
        Ok(usage.on(self.state.lock().now_ms() / DAY_MS).bytes())
    }

    async fn version(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        Ok(self.with_contents(namespace, |contents| contents.version))
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        Ok(self.state.lock().now_ms())
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let commit = match self.state.lock().commit(namespace, txn) {
            Ok(commit) => commit,
            Err(failed) => return Ok(Outcome::Refused(failed)),
        };
        for write in &txn.writes {
            if let Write::Notify { topic, by } = write {
                // There may be no receivers.
                let _ = self.notifications.send(Notification::Topic {
                    namespace: namespace.clone(),
                    topic: topic.clone(),
                    by: *by,
                });
            }
        }
        Ok(Outcome::Committed(commit))
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }
}

#[async_trait]
impl Export for ModelStore {
    fn kind(&self) -> &'static str {
        "model"
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        Ok(export::in_order(self.state.lock().namespaces.keys().cloned().collect()))
    }

    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        let items = self.state.lock().items();
        for item in items {
            export::send(to, item).await?;
        }
        Ok(())
    }
}

impl Everything {
    /// Copies everything: the model need not bound its memory.
    fn items(&mut self) -> Vec<Item> {
        let (clock_ms, version) = (self.now_ms(), self.version);
        let mut items = Vec::new();
        for namespace in export::in_order(self.namespaces.keys().cloned().collect()) {
            let contents = &self.namespaces[&namespace];
            items.push(Item::Namespace { namespace, version, clock_ms });
            for ((kind, id), record) in &contents.records {
                items.push(Item::Record { kind: (*kind).to_owned(), id: id.clone(), data: record.data.clone() });
            }
            for (stream, Stream { extent, entries }) in &contents.streams {
                items.extend(entries.iter().map(|(sequence, (weight, data))| Item::Entry {
                    stream: stream.clone(),
                    sequence: *sequence,
                    weight: *weight,
                    data: data.clone(),
                }));
                items.push(Item::Stream { stream: stream.clone(), next: extent.next });
            }
            items.extend(contents.leases.iter().map(|(name, until_ms)| Item::Lease {
                name: name.clone(),
                left_ms: until_ms.saturating_sub(clock_ms),
            }));
            items.extend(
                contents.replies.iter().map(|(key, data)| Item::Reply { key: key.clone(), data: data.clone() }),
            );
        }
        items
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::store::conformance::{Harness, for_each_promise};

    async fn open() -> Option<Harness> {
        let store = ModelStore::new();
        let raw = Arc::clone(&store);
        let raw_keys = move |namespace| {
            let keys = raw.state.lock().namespaces.get(&namespace).map(|contents| format!("{contents:?}"));
            std::future::ready(keys.into_iter().collect()).boxed()
        };
        let second = Arc::clone(&store) as Arc<dyn Store>;
        Some(Harness { store, second, raw_keys: Box::new(raw_keys), _keeps: Box::new(()) })
    }

    for_each_promise!(open);
}
