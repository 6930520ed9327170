//! Cached records, which are probably current.

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    domain::{
        records::{ActivityRecord, NoticesRecord, RecordType, SessionRecord, TeamRecord},
        task::board::BoardRecord,
        tx::{CachedRecord, Snapshot},
    },
    store::{Key, Namespace, Record, Txn, Write},
};

/// How many records are kept; the least recently used ones are dropped first.
const RECORDS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");

/// Keeps the records that nearly every call reads, rosters and sessions; and boards, lists of notices and what members
/// have used, which the coordinator that changed them last mostly changes next.
pub(super) struct Cache {
    records: Mutex<LruCache<(Namespace, Key), Arc<CachedRecord>>>,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { records: Mutex::new(LruCache::new(RECORDS_MAX)) }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<(Namespace, Key), Arc<CachedRecord>>> {
        self.records.lock()
    }

    /// Adds the cached records among `keys` to the snapshot. Returns whether there were any.
    pub(super) fn fill(&self, namespace: &Namespace, keys: &[Key], snapshot: &mut Snapshot) -> bool {
        let mut records = self.lock();
        let mut any = false;
        for key in keys.iter().filter(|key| is_kept(key)) {
            if let Some(loaded) = records.get(&(namespace.clone(), key.clone())) {
                snapshot.records.insert(key.clone(), Arc::clone(loaded));
                any = true;
            }
        }
        any
    }

    /// Keeps a record as read. Missing records are not kept, or guessed names would fill the cache.
    pub(super) fn put(&self, namespace: &Namespace, key: &Key, loaded: &Arc<CachedRecord>) {
        if !is_kept(key) {
            return;
        }
        let place = (namespace.clone(), key.clone());
        match loaded.version() {
            Some(_) => drop(self.lock().put(place, Arc::clone(loaded))),
            None => drop(self.lock().pop(&place)),
        }
    }

    /// Keeps the records that a transaction has put.
    pub(super) fn apply(&self, namespace: &Namespace, txn: &Txn, version: u64) {
        for write in &txn.writes {
            match write {
                Write::Put { key, data } if is_kept(key) => {
                    let record = Record { version, data: data.clone() };
                    self.put(namespace, key, &CachedRecord::new(Some(record)));
                }
                Write::Delete { key } => self.put(namespace, key, &CachedRecord::new(None)),
                Write::DropNamespace => {
                    let mut records = self.lock();
                    let gone: Vec<_> =
                        records.iter().map(|(place, _)| place).filter(|place| place.0 == *namespace).cloned().collect();
                    for place in gone {
                        records.pop(&place);
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_kept(key: &Key) -> bool {
    [TeamRecord::KIND, SessionRecord::KIND, BoardRecord::KIND, NoticesRecord::KIND, ActivityRecord::KIND]
        .contains(&key.kind)
}
