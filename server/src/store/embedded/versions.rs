//! The versions of namespaces. They are not stored, because only this process changes the store.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::store::{Namespace, Txn, Write};

/// The version of each namespace.
#[derive(Debug)]
pub(super) struct Versions(Mutex<VersionMap>);

#[derive(Debug)]
struct VersionMap {
    /// That of every namespace that is not in the map.
    others: u64,
    changed: HashMap<Namespace, u64>,
}

impl Versions {
    /// Begins with what the file holds: nothing in it is newer than this version.
    pub(super) fn starting_at(version: u64) -> Self {
        Self(Mutex::new(VersionMap { others: version, changed: HashMap::new() }))
    }

    /// Returns the version of a namespace.
    pub(super) fn of(&self, namespace: &Namespace) -> u64 {
        let known = self.0.lock();
        known.changed.get(namespace).copied().unwrap_or(known.others)
    }

    /// Notes a commit, unless it changed nothing but leases.
    pub(super) fn note(&self, namespace: &Namespace, txn: &Txn, version: u64) {
        if txn.changes_leases_only() {
            return;
        }
        let mut known = self.0.lock();
        if txn.writes.contains(&Write::DropNamespace) {
            known.changed.remove(namespace);
            known.others = version;
        } else {
            known.changed.insert(namespace.clone(), version);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Key;

    #[test]
    fn a_version_follows_its_namespace() {
        let versions = Versions::starting_at(10);
        let [a, b] = ["a", "b"].map(Namespace::from_stored);
        let txn = |write| Txn { writes: vec![write], ..Txn::default() };
        let delete = txn(Write::Delete { key: Key::new("task", "1") });
        versions.note(&a, &delete, 11);
        assert_eq!((versions.of(&a), versions.of(&b)), (11, 10));
        versions.note(&b, &txn(Write::Lease { name: "l".to_owned(), ttl: Duration::from_secs(1) }), 12);
        assert_eq!((versions.of(&a), versions.of(&b)), (11, 10));
        versions.note(&a, &txn(Write::DropNamespace), 13);
        assert_eq!(versions.of(&a), 13);
    }
}
