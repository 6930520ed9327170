//! The store contract as tests. Every backend runs all of them; see [`for_each_promise`] and [`every_promise`].

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use teamwire_proto::name::Name;

use super::{
    Bound, Check, Commit, Entry, Extent, Failed, Key, Namespace, Notification, Outcome, Range, Record, Store, Txn,
    WhenFull, Write,
};

/// A store under test.
pub(super) struct Harness {
    pub(super) store: Arc<dyn Store>,
    /// A second handle to the same data, as another coordinator has. The same handle if the backend allows only one.
    pub(super) second: Arc<dyn Store>,
    /// Lists the backend's own keys for a namespace.
    pub(super) raw_keys: Box<dyn Fn(Namespace) -> BoxFuture<'static, Vec<String>> + Send + Sync>,
    /// Whatever must outlive the store, such as its server.
    pub(super) _keeps: Box<dyn std::any::Any + Send + Sync>,
}

/// Passes the names of all promises to a macro, after its other arguments.
macro_rules! with_promises {
    ($macro:ident! $($first:tt)*) => {
        $crate::store::conformance::$macro! { $($first)*
            commit_reports_the_first_failed_check
            failed_version_check_returns_the_current_record
            refused_transaction_changes_nothing
            writes_apply_in_order
            every_record_of_a_commit_gets_its_version
            versions_are_never_reused
            read_returns_records_in_key_order
            scan_returns_records_in_id_order
            sequences_are_dense_and_start_at_one
            sequences_are_never_reused
            full_stream_refuses_the_whole_transaction
            full_stream_skips_only_that_append
            weight_is_bounded_and_removal_frees_it
            bounds_count_earlier_writes_of_the_same_transaction
            removing_what_does_not_exist_is_harmless
            one_commit_can_remove_thousands_of_entries
            range_reads_in_both_directions_within_its_bounds
            unused_stream_has_an_empty_extent
            used_idempotency_key_returns_the_remembered_reply
            lease_is_alive_until_it_expires_or_is_ended
            leases_include_expired_ones_but_not_ended_ones
            dropping_a_namespace_leaves_nothing_behind
            namespaces_are_isolated
            notifications_reach_every_subscriber
            data_can_be_any_bytes
            names_can_contain_any_visible_character
            clock_never_goes_backwards
            concurrent_commits_are_never_lost
            concurrent_appends_get_distinct_sequences
            read_sees_every_acknowledged_commit
        }
    };
}
pub(super) use with_promises;

/// Makes one test per promise, on the harness that the async function `$open` returns. `None` skips the test.
macro_rules! for_each_promise {
    ($open:path) => {
        $crate::store::conformance::with_promises! { promises_apart! $open: }
    };
}
pub(super) use for_each_promise;

/// Checks all promises one after the other, for backends that take long to start. `$open` makes a harness from each promise's
/// name. Use it in an async function.
macro_rules! every_promise {
    ($open:expr) => {
        $crate::store::conformance::with_promises! { promises_in_turn! $open; }
    };
}
pub(super) use every_promise;

macro_rules! promises_apart {
    ($open:path: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                if let Some(harness) = $open().await {
                    $crate::store::conformance::$promise(harness).await;
                }
            }
        )*
    };
}
pub(super) use promises_apart;

macro_rules! promises_in_turn {
    ($open:expr; $($promise:ident)*) => {
        $(
            // Names the promise if the test fails.
            println!("{}", stringify!($promise));
            $crate::store::conformance::$promise($open(stringify!($promise)).await).await;
        )*
    };
}
pub(super) use promises_in_turn;

pub(super) fn namespace(name: &str) -> Namespace {
    Namespace::team(&Name::parse(name, "name").unwrap())
}

pub(super) fn put(key: &Key, data: &'static str) -> Write {
    Write::Put { key: key.clone(), data: Bytes::from_static(data.as_bytes()) }
}

pub(super) fn delete(key: &Key) -> Write {
    Write::Delete { key: key.clone() }
}

pub(super) fn append(stream: &str, data: &'static str) -> Write {
    weighed(stream, data, 1, None)
}

pub(super) fn weighed(stream: &str, data: &'static str, weight: u64, bound: Option<Bound>) -> Write {
    Write::Append { stream: stream.to_owned(), data: Bytes::from_static(data.as_bytes()), weight, bound }
}

pub(super) fn remove(stream: &str, sequences: &[u64]) -> Write {
    Write::Remove { stream: stream.to_owned(), sequences: sequences.to_vec() }
}

pub(super) fn remember(key: &str, data: &'static str) -> Write {
    Write::RememberReply { key: key.to_owned(), data: Bytes::from_static(data.as_bytes()) }
}

fn lease(name: &str, ttl: Duration) -> Write {
    Write::Lease { name: name.to_owned(), ttl }
}

fn notification(topic: &str) -> Write {
    Write::Notify { topic: topic.to_owned(), by: 7 }
}

fn at(key: &Key, version: Option<u64>) -> Check {
    Check::Version { key: key.clone(), version }
}

fn key_unused(key: &str) -> Check {
    Check::KeyUnused { key: key.to_owned() }
}

fn lease_alive(name: &str, alive: bool) -> Check {
    Check::Lease { name: name.to_owned(), alive }
}

fn bound(entries_max: u64, weight_max: u64, when_full: WhenFull) -> Option<Bound> {
    Some(Bound { entries_max, weight_max, when_full })
}

const LONG: Duration = Duration::from_secs(600);

impl Harness {
    async fn commit(&self, namespace: &Namespace, writes: Vec<Write>) -> Commit {
        self.commit_if(namespace, vec![], writes).await
    }

    async fn commit_if(&self, namespace: &Namespace, checks: Vec<Check>, writes: Vec<Write>) -> Commit {
        match self.store.commit(namespace, &Txn { checks, writes }).await.unwrap() {
            Outcome::Committed(commit) => commit,
            Outcome::Refused(failed) => panic!("refused: {failed:?}"),
        }
    }

    async fn refused(&self, namespace: &Namespace, checks: Vec<Check>, writes: Vec<Write>) -> Failed {
        match self.store.commit(namespace, &Txn { checks, writes }).await.unwrap() {
            Outcome::Refused(failed) => failed,
            Outcome::Committed(commit) => panic!("committed: {commit:?}"),
        }
    }

    async fn read(&self, namespace: &Namespace, key: &Key) -> Option<Record> {
        self.store.read(namespace, std::slice::from_ref(key)).await.unwrap().remove(0)
    }

    async fn entries(&self, namespace: &Namespace, stream: &str) -> Vec<(u64, Bytes)> {
        let entries = self.store.range(namespace, stream, Range::after(0, 10_000)).await.unwrap();
        entries.into_iter().map(|entry| (entry.sequence, entry.data)).collect()
    }

    async fn extent(&self, namespace: &Namespace, stream: &str) -> Extent {
        self.store.extents(namespace, &[stream.to_owned()]).await.unwrap()[0]
    }

    /// Waits until the store's clock has passed `ms`.
    async fn clock_passes(&self, ms: u64) {
        while self.store.now_ms().await.unwrap() <= ms {
            tokio::task::yield_now().await;
        }
    }

    /// Returns everything that can be read from a namespace.
    async fn everything(
        &self,
        namespace: &Namespace,
        kinds: &[&'static str],
        streams: &[&str],
    ) -> impl PartialEq + std::fmt::Debug {
        let mut records = Vec::new();
        for kind in kinds {
            records.extend(self.store.scan(namespace, kind, "", 10_000).await.unwrap());
        }
        let mut entries = Vec::new();
        for stream in streams {
            entries.push((self.extent(namespace, stream).await, self.entries(namespace, stream).await));
        }
        (records, entries, self.store.leases(namespace).await.unwrap().until_ms)
    }
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub(super) async fn commit_reports_the_first_failed_check(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    harness.commit_if(&namespace, vec![key_unused("k")], vec![remember("k", "old"), lease("l", LONG)]).await;
    let wrong = [at(&key, Some(7)), key_unused("k"), lease_alive("l", false)];
    let failures = [
        Failed::Version { key: key.clone(), current: None },
        Failed::KeyUsed { data: text("old") },
        Failed::Lease { name: "l".to_owned() },
    ];
    for (first, failed) in failures.into_iter().enumerate() {
        let mut checks = vec![at(&key, None), key_unused("other"), lease_alive("l", true)];
        checks.extend_from_slice(&wrong[first..]);
        // The bound is checked last.
        let full = weighed("s", "", 1, bound(0, 0, WhenFull::Refuse));
        assert_eq!(harness.refused(&namespace, checks, vec![full]).await, failed);
    }
}

pub(super) async fn failed_version_check_returns_the_current_record(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let version = harness.commit(&namespace, vec![put(&key, "as it is")]).await.version;
    let current = Some(Record { version, data: text("as it is") });
    for wrong in [None, Some(version + 1), Some(0)] {
        let failed = harness.refused(&namespace, vec![at(&key, wrong)], vec![delete(&key)]).await;
        assert_eq!(failed, Failed::Version { key: key.clone(), current: current.clone() });
    }
    harness.commit_if(&namespace, vec![at(&key, Some(version))], vec![delete(&key)]).await;
    harness.commit_if(&namespace, vec![at(&key, None)], vec![]).await;
}

pub(super) async fn refused_transaction_changes_nothing(harness: Harness) {
    let (namespace, old, new) = (namespace("a"), Key::new("member", "old"), Key::new("task", "new"));
    let first = vec![put(&old, "1"), append("s", "1"), append("full", "1"), remember("k", ""), lease("l", LONG)];
    harness.commit_if(&namespace, vec![key_unused("k")], first).await;
    let before = harness.everything(&namespace, &["member", "task"], &["s", "full", "t"]).await;
    let writes = || {
        vec![
            put(&old, "2"),
            put(&new, "2"),
            append("s", "2"),
            append("t", "2"),
            remove("s", &[1]),
            remember("k2", ""),
            lease("l2", LONG),
            Write::EndLease { name: "l".to_owned() },
            delete(&old),
            weighed("full", "2", 1, bound(1, 100, WhenFull::Refuse)),
        ]
    };
    for check in
        [at(&new, Some(1)), key_unused("k"), lease_alive("l", false), lease_alive("l2", true), key_unused("k3")]
    {
        harness.refused(&namespace, vec![check], writes()).await;
        assert_eq!(harness.everything(&namespace, &["member", "task"], &["s", "full", "t"]).await, before);
    }
    harness.commit_if(&namespace, vec![key_unused("k2"), lease_alive("l2", false)], vec![]).await;
    // The refused transactions used up no sequence either.
    assert_eq!(harness.commit(&namespace, vec![append("s", "3"), append("t", "3")]).await.appended, [Some(2), Some(1)]);
}

pub(super) async fn writes_apply_in_order(harness: Harness) {
    let (namespace, a, b) = (namespace("a"), Key::new("member", "a"), Key::new("member", "b"));
    let commit = harness
        .commit(
            &namespace,
            vec![put(&a, "1"), delete(&a), delete(&b), put(&b, "1"), put(&b, "2"), append("s", "x"), remove("s", &[1])],
        )
        .await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(1)], 1));
    assert_eq!(harness.read(&namespace, &a).await, None);
    assert_eq!(harness.read(&namespace, &b).await.unwrap().data, "2");
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 2, entries: 0, weight: 0 });
    assert_eq!(harness.entries(&namespace, "s").await, []);
}

pub(super) async fn every_record_of_a_commit_gets_its_version(harness: Harness) {
    let (namespace, a, b) = (namespace("a"), Key::new("member", "a"), Key::new("task", "b"));
    let commit = harness.commit(&namespace, vec![put(&a, "1"), put(&b, "2")]).await;
    let read = harness.store.read(&namespace, &[a.clone(), b.clone()]).await.unwrap();
    let versions: Vec<_> = read.into_iter().map(|record| record.unwrap().version).collect();
    assert_eq!(versions, [commit.version, commit.version]);
    let scanned = harness.store.scan(&namespace, "task", "", 10).await.unwrap();
    assert_eq!(scanned, [("b".to_owned(), Record { version: commit.version, data: text("2") })]);
}

pub(super) async fn versions_are_never_reused(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let mut versions = std::collections::BTreeSet::new();
    for _ in 0..5 {
        for last in [delete(&key), Write::DropNamespace] {
            assert!(versions.insert(harness.commit(&namespace, vec![put(&key, "same")]).await.version));
            assert!(versions.insert(harness.commit(&namespace, vec![put(&key, "same")]).await.version));
            harness.commit(&namespace, vec![last]).await;
            assert_eq!(harness.read(&namespace, &key).await, None);
        }
    }
    assert_eq!(versions.len(), 20);
}

pub(super) async fn read_returns_records_in_key_order(harness: Harness) {
    let namespace = namespace("a");
    let keys = ["c", "a", "missing", "b", "a"].map(|id| Key::new("member", id));
    harness.commit(&namespace, vec![put(&keys[0], "c"), put(&keys[1], "a"), put(&keys[3], "b")]).await;
    harness.commit(&namespace, vec![put(&Key::new("task", "a"), "task")]).await;
    let mixed = [&keys[..], &[Key::new("task", "a"), Key::new("none", "a")]].concat();
    let read = harness.store.read(&namespace, &mixed).await.unwrap();
    let data: Vec<_> = read.iter().map(|record| record.as_ref().map(|record| &record.data[..])).collect();
    let expected: [Option<&[u8]>; 7] = [Some(b"c"), Some(b"a"), None, Some(b"b"), Some(b"a"), Some(b"task"), None];
    assert_eq!(data, expected);
    assert_eq!(harness.store.read(&namespace, &[]).await.unwrap(), []);
}

pub(super) async fn scan_returns_records_in_id_order(harness: Harness) {
    let namespace = namespace("a");
    let ids = ["10", "2", "a", "a/b", "ab", "b", "~"];
    for id in ["b", "ab", "~", "2", "a", "10", "a/b"] {
        harness
            .commit(&namespace, vec![put(&Key::new("member", id), "m"), put(&Key::new("me", id), "other kind")])
            .await;
    }
    let scan = async |after: &'static str, limit| {
        let found = harness.store.scan(&namespace, "member", after, limit).await.unwrap();
        assert!(found.iter().all(|(_, record)| record.data == "m"));
        found.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(scan("", 100).await, ids);
    assert_eq!(scan("", 3).await, ids[..3]);
    assert_eq!(scan("a", 2).await, ["a/b", "ab"]);
    assert_eq!(scan("aa", 2).await, ["ab", "b"]);
    assert_eq!(scan("~", 2).await, [""; 0]);
    assert_eq!(scan("", 0).await, [""; 0]);
    assert_eq!(harness.store.scan(&namespace, "memb", "", 10).await.unwrap(), []);
}

pub(super) async fn sequences_are_dense_and_start_at_one(harness: Harness) {
    let namespace = namespace("a");
    let commit = harness.commit(&namespace, vec![append("s", "1"), append("t", "1"), append("s", "2")]).await;
    assert_eq!(commit.appended, [Some(1), Some(1), Some(2)]);
    assert_eq!(harness.commit(&namespace, vec![append("s", "3")]).await.appended, [Some(3)]);
    assert_eq!(harness.entries(&namespace, "s").await, [(1, text("1")), (2, text("2")), (3, text("3"))]);
}

pub(super) async fn sequences_are_never_reused(harness: Harness) {
    let namespace = namespace("a");
    harness.commit(&namespace, vec![append("s", "1"), append("s", "2")]).await;
    harness.commit(&namespace, vec![remove("s", &[2])]).await;
    assert_eq!(harness.commit(&namespace, vec![append("s", "3")]).await.appended, [Some(3)]);
    harness.commit(&namespace, vec![remove("s", &[1, 3])]).await;
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 4, entries: 0, weight: 0 });
    assert_eq!(harness.commit(&namespace, vec![append("s", "4")]).await.appended, [Some(4)]);
    harness.commit(&namespace, vec![Write::DropNamespace]).await;
    // Dropping the namespace resets its counters.
    assert_eq!(harness.commit(&namespace, vec![append("s", "1")]).await.appended, [Some(1)]);
}

pub(super) async fn full_stream_refuses_the_whole_transaction(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let three = || weighed("s", "", 1, bound(3, 100, WhenFull::Refuse));
    harness.commit(&namespace, vec![three(), three()]).await;
    let failed = harness.refused(&namespace, vec![], vec![put(&key, ""), append("t", ""), three(), three()]).await;
    assert_eq!(failed, Failed::Full { stream: "s".to_owned() });
    assert_eq!(harness.read(&namespace, &key).await, None);
    assert_eq!(harness.extent(&namespace, "t").await.next, 1);
    assert_eq!(harness.commit(&namespace, vec![three()]).await.appended, [Some(3)]);
    // Without a bound there is no limit.
    assert_eq!(harness.commit(&namespace, vec![append("s", "")]).await.appended, [Some(4)]);
}

pub(super) async fn full_stream_skips_only_that_append(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let two = || weighed("s", "", 1, bound(2, 100, WhenFull::Skip));
    let commit = harness.commit(&namespace, vec![two(), two(), two(), put(&key, "put"), append("t", "")]).await;
    assert_eq!(commit.appended, [Some(1), Some(2), None, Some(1)]);
    assert_eq!(harness.read(&namespace, &key).await.unwrap().data, "put");
    harness.commit(&namespace, vec![remove("s", &[1])]).await;
    // The skipped append used up no sequence.
    assert_eq!(harness.commit(&namespace, vec![two()]).await.appended, [Some(3)]);
}

pub(super) async fn weight_is_bounded_and_removal_frees_it(harness: Harness) {
    let namespace = namespace("a");
    let heavy = |weight| weighed("s", "", weight, bound(100, 10, WhenFull::Refuse));
    harness.commit(&namespace, vec![heavy(4), heavy(6), heavy(0)]).await;
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 4, entries: 3, weight: 10 });
    harness.refused(&namespace, vec![], vec![heavy(1)]).await;
    harness.commit(&namespace, vec![remove("s", &[1])]).await;
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 4, entries: 2, weight: 6 });
    harness.refused(&namespace, vec![], vec![heavy(5)]).await;
    harness.commit(&namespace, vec![heavy(4)]).await;
    let heaviest = || weighed("t", "", 1 << 40, bound(1_000, u64::MAX, WhenFull::Refuse));
    harness.commit(&namespace, (0..1_000).map(|_| heaviest()).collect()).await;
    assert_eq!(harness.extent(&namespace, "t").await, Extent { next: 1_001, entries: 1_000, weight: 1_000 << 40 });
}

pub(super) async fn bounds_count_earlier_writes_of_the_same_transaction(harness: Harness) {
    let namespace = namespace("a");
    let one = || weighed("s", "", 5, bound(1, 5, WhenFull::Refuse));
    harness.commit(&namespace, vec![one()]).await;
    harness.refused(&namespace, vec![], vec![one(), remove("s", &[1])]).await;
    let commit = harness.commit(&namespace, vec![remove("s", &[1]), one()]).await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(2)], 1));
    let commit = harness.commit(&namespace, vec![remove("s", &[2]), one(), remove("s", &[3]), one()]).await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(3), Some(4)], 2));
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 5, entries: 1, weight: 5 });
}

pub(super) async fn removing_what_does_not_exist_is_harmless(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    harness.commit(&namespace, vec![append("s", "1"), append("s", "2")]).await;
    let nothing = vec![
        delete(&key),
        remove("never", &[1, 2]),
        remove("s", &[]),
        remove("s", &[0, 3, u64::MAX]),
        Write::EndLease { name: "never".to_owned() },
    ];
    let commit = harness.commit(&namespace, nothing).await;
    assert_eq!((commit.removed, commit.appended), (0, vec![]));
    assert_eq!(harness.commit(&namespace, vec![remove("s", &[2, 2, 9]), remove("s", &[2])]).await.removed, 1);
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 3, entries: 1, weight: 1 });
    assert_eq!(harness.extent(&namespace, "never").await.next, 1);
}

pub(super) async fn one_commit_can_remove_thousands_of_entries(harness: Harness) {
    let namespace = namespace("a");
    for _ in 0..3 {
        harness.commit(&namespace, (0..1_000).map(|_| append("s", "x")).collect()).await;
    }
    // Keep every third.
    let going: Vec<u64> = (1..=3_000).rev().filter(|sequence| sequence % 3 != 0).collect();
    assert_eq!(harness.commit(&namespace, vec![remove("s", &going)]).await.removed, 2_000);
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 3_001, entries: 1_000, weight: 1_000 });
    let left: Vec<u64> = harness.entries(&namespace, "s").await.into_iter().map(|(sequence, _)| sequence).collect();
    assert_eq!(left, (1..=1_000).map(|third| third * 3).collect::<Vec<u64>>());
    let everything: Vec<u64> = (1..=3_000).collect();
    assert_eq!(harness.commit(&namespace, vec![remove("s", &everything)]).await.removed, 1_000);
    assert_eq!(harness.extent(&namespace, "s").await, Extent { next: 3_001, entries: 0, weight: 0 });
}

pub(super) async fn range_reads_in_both_directions_within_its_bounds(harness: Harness) {
    let namespace = namespace("a");
    harness.commit(&namespace, (0..300).map(|_| append("s", "x")).collect()).await;
    harness.commit(&namespace, vec![append("s2", "other stream"), remove("s", &[4])]).await;
    let range = async |first, last, limit, newest_first| {
        let range = Range { first, last, limit, newest_first };
        let found: Vec<Entry> = harness.store.range(&namespace, "s", range).await.unwrap();
        assert!(found.iter().all(|entry| entry.data == "x"));
        found.into_iter().map(|entry| entry.sequence).collect::<Vec<_>>()
    };
    assert_eq!(range(2, 6, 10, false).await, [2, 3, 5, 6]);
    assert_eq!(range(2, 6, 10, true).await, [6, 5, 3, 2]);
    assert_eq!(range(2, 6, 3, false).await, [2, 3, 5]);
    assert_eq!(range(2, 6, 3, true).await, [6, 5, 3]);
    assert_eq!(range(4, 4, 10, false).await, [0; 0]);
    assert_eq!(range(6, 2, 10, false).await, [0; 0]);
    assert_eq!(range(1, u64::MAX, 0, false).await, [0; 0]);
    assert_eq!(range(299, u64::MAX, 10, true).await, [300, 299]);
    assert_eq!(range(0, 2, 10, false).await, [1, 2]);
    assert_eq!(range(0, u64::MAX, 1_000, false).await.len(), 299);
    assert_eq!(harness.store.range(&namespace, "never", Range::after(0, 10)).await.unwrap(), []);
    assert_eq!(harness.store.range(&namespace, "never", Range::after(0, usize::MAX)).await.unwrap(), []);
    assert_eq!(harness.store.range(&namespace, "s", Range::after(u64::MAX, 10)).await.unwrap(), []);
}

pub(super) async fn unused_stream_has_an_empty_extent(harness: Harness) {
    let namespace = namespace("a");
    harness.commit(&namespace, vec![weighed("s", "", 7, None)]).await;
    let streams = ["never", "s", "never"].map(str::to_owned);
    let never = Extent { next: 1, entries: 0, weight: 0 };
    let used = Extent { next: 2, entries: 1, weight: 7 };
    assert_eq!(harness.store.extents(&namespace, &streams).await.unwrap(), [never, used, never]);
    assert_eq!(harness.store.extents(&namespace, &[]).await.unwrap(), []);
}

pub(super) async fn used_idempotency_key_returns_the_remembered_reply(harness: Harness) {
    let namespace = namespace("a");
    harness.commit_if(&namespace, vec![key_unused("k")], vec![remember("k", "answer"), append("s", "")]).await;
    let again =
        harness.refused(&namespace, vec![key_unused("k")], vec![remember("k", "another"), append("s", "")]).await;
    assert_eq!(again, Failed::KeyUsed { data: text("answer") });
    assert_eq!(harness.extent(&namespace, "s").await.entries, 1);
    harness.commit_if(&namespace, vec![key_unused("k2"), key_unused("")], vec![remember("k2", "")]).await;
    assert_eq!(
        harness.refused(&namespace, vec![key_unused("k2")], vec![]).await,
        Failed::KeyUsed { data: Bytes::new() }
    );
}

pub(super) async fn lease_is_alive_until_it_expires_or_is_ended(harness: Harness) {
    let namespace = namespace("a");
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", true)], vec![Write::EndLease { name: "l".to_owned() }]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", Duration::from_millis(20))]).await;
    let until_ms = harness.store.leases(&namespace).await.unwrap().until_ms["l"];
    harness.clock_passes(until_ms).await;
    harness.refused(&namespace, vec![lease_alive("l", true)], vec![]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", true)], vec![lease("l", Duration::ZERO)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![]).await;
}

pub(super) async fn leases_include_expired_ones_but_not_ended_ones(harness: Harness) {
    let namespace = namespace("a");
    assert!(harness.store.leases(&namespace).await.unwrap().until_ms.is_empty());
    let commit = harness.commit(&namespace, vec![lease("long", LONG), lease("short", Duration::ZERO)]).await;
    let ended = vec![lease("ended", LONG), Write::EndLease { name: "ended".to_owned() }];
    harness.commit(&namespace, ended).await;
    let leases = harness.store.leases(&namespace).await.unwrap();
    assert!(leases.now_ms >= commit.at_ms);
    let expected = [("long".to_owned(), commit.at_ms + 600_000), ("short".to_owned(), commit.at_ms)];
    assert_eq!(leases.until_ms.into_iter().collect::<Vec<_>>(), expected);
}

pub(super) async fn dropping_a_namespace_leaves_nothing_behind(harness: Harness) {
    let (gone, stays, key) = (namespace("gone"), namespace("stays"), Key::new("member", "x"));
    let fill = || {
        let mut writes = vec![put(&key, "1"), put(&Key::new("task", "y"), "2"), remember("k", ""), lease("l", LONG)];
        writes.extend((0..20).map(|_| append("s", "x")));
        writes.extend([append("t", "x"), append("emptied", "x"), remove("emptied", &[1])]);
        writes
    };
    for namespace in [&gone, &stays] {
        harness.commit_if(namespace, vec![key_unused("k")], fill()).await;
    }
    let before = harness.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await;
    assert_ne!((harness.raw_keys)(gone.clone()).await, [""; 0]);
    let mut notifications = harness.second.notifications();
    harness.commit(&gone, vec![delete(&key), Write::DropNamespace, notification("dropped")]).await;
    assert_eq!(
        notifications.recv().await,
        Ok(Notification::Topic { namespace: gone.clone(), topic: "dropped".to_owned(), by: 7 })
    );
    assert_eq!((harness.raw_keys)(gone.clone()).await, [""; 0]);
    assert_eq!(harness.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await, before);
    // Its idempotency key is unused again.
    harness.commit_if(&gone, vec![key_unused("k"), lease_alive("l", false), at(&key, None)], fill()).await;
    assert_eq!(harness.extent(&gone, "s").await.next, 21);
    // Dropping a namespace that never existed is harmless.
    harness.commit(&namespace("never"), vec![Write::DropNamespace]).await;
    assert_eq!((harness.raw_keys)(namespace("never")).await, [""; 0]);
}

pub(super) async fn namespaces_are_isolated(harness: Harness) {
    let key = Key::new("member", "x");
    // Names with common prefixes.
    let namespaces = [namespace("a"), namespace("aa"), namespace("a.b"), Namespace::directory()];
    for namespace in &namespaces {
        let checks = vec![at(&key, None), key_unused("k"), lease_alive("l", false)];
        let writes = vec![put(&key, "x"), append("s", "x"), remember("k", ""), lease("l", LONG)];
        assert_eq!(harness.commit_if(namespace, checks, writes).await.appended, [Some(1)]);
    }
    harness.commit(&namespaces[0], vec![Write::DropNamespace]).await;
    assert_eq!(harness.read(&namespaces[0], &key).await, None);
    for namespace in &namespaces[1..] {
        assert_eq!(harness.read(namespace, &key).await.unwrap().data, "x");
        harness.commit_if(namespace, vec![lease_alive("l", true)], vec![]).await;
        harness.refused(namespace, vec![key_unused("k")], vec![]).await;
    }
}

pub(super) async fn notifications_reach_every_subscriber(harness: Harness) {
    let namespace = namespace("a");
    let mut receivers = [harness.store.notifications(), harness.second.notifications(), harness.second.notifications()];
    harness.refused(&namespace, vec![lease_alive("l", true)], vec![notification("refused")]).await;
    harness.commit(&namespace, vec![notification("inbox/x"), append("s", ""), notification("y")]).await;
    for receiver in &mut receivers {
        for topic in ["inbox/x", "y"] {
            assert_eq!(
                receiver.recv().await,
                Ok(Notification::Topic { namespace: namespace.clone(), topic: topic.to_owned(), by: 7 })
            );
        }
    }
}

pub(super) async fn data_can_be_any_bytes(harness: Harness) {
    let namespace = namespace("a");
    let every_byte: Vec<u8> = (0..=255).collect();
    let long: Vec<u8> = (0..1 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (index, data) in [Vec::new(), b"\0".to_vec(), b"\r\n$3\r\n".to_vec(), every_byte, long].into_iter().enumerate()
    {
        let (data, key) = (Bytes::from(data), Key::new("member", format!("{index}")));
        let stream = format!("stream-{index}");
        let writes = vec![
            Write::Put { key: key.clone(), data: data.clone() },
            Write::Append { stream: stream.clone(), data: data.clone(), weight: 0, bound: None },
            Write::RememberReply { key: stream.clone(), data: data.clone() },
        ];
        harness.commit(&namespace, writes).await;
        assert_eq!(harness.read(&namespace, &key).await.unwrap().data, data);
        assert_eq!(harness.entries(&namespace, &stream).await, [(1, data.clone())]);
        assert_eq!(
            harness.refused(&namespace, vec![key_unused(&stream)], vec![]).await,
            Failed::KeyUsed { data: data.clone() }
        );
        let failed = harness.refused(&namespace, vec![at(&key, None)], vec![]).await;
        assert!(matches!(failed, Failed::Version { current: Some(record), .. } if record.data == data));
    }
}

pub(super) async fn names_can_contain_any_visible_character(harness: Harness) {
    let visible: String = (0x21..=0x7e_u8).map(char::from).collect();
    let long = "~".repeat(200);
    let namespace = namespace("A-b_c.9");
    for name in [visible.as_str(), long.as_str(), "{}", "a:b", "a/b", "1"] {
        let key = Key::new("member", name);
        let mut notifications = harness.store.notifications();
        let writes = vec![
            put(&key, "x"),
            append(name, "x"),
            remember(name, ""),
            lease(name, LONG),
            notification(name),
            append(name, "y"),
        ];
        harness.commit_if(&namespace, vec![at(&key, None), key_unused(name), lease_alive(name, false)], writes).await;
        assert_eq!(harness.read(&namespace, &key).await.unwrap().data, "x");
        assert_eq!(harness.entries(&namespace, name).await, [(1, text("x")), (2, text("y"))]);
        assert!(harness.store.leases(&namespace).await.unwrap().until_ms.contains_key(name));
        assert_eq!(
            notifications.recv().await,
            Ok(Notification::Topic { namespace: namespace.clone(), topic: name.to_owned(), by: 7 })
        );
        harness.refused(&namespace, vec![key_unused(name)], vec![]).await;
    }
    let scanned = harness.store.scan(&namespace, "member", "", 10).await.unwrap();
    assert!(scanned.iter().any(|(id, _)| *id == visible));
}

pub(super) async fn clock_never_goes_backwards(harness: Harness) {
    let namespace = namespace("a");
    let mut last_ms = 0;
    for _ in 0..50 {
        let before_ms = harness.store.now_ms().await.unwrap();
        let commit = harness.commit(&namespace, vec![lease("l", LONG)]).await;
        let leases = harness.store.leases(&namespace).await.unwrap();
        assert!(last_ms <= before_ms && before_ms <= commit.at_ms && commit.at_ms <= leases.now_ms);
        last_ms = leases.now_ms;
    }
    assert!(last_ms > 1_700_000_000_000, "milliseconds since 1970");
}

pub(super) async fn concurrent_commits_are_never_lost(harness: Harness) {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let (namespace, key) = (namespace("a"), Key::new("member", "counter"));
    let increments = (0..TASKS).map(|task| {
        let store = if task % 2 == 0 { harness.store.clone() } else { harness.second.clone() };
        let (namespace, key) = (namespace.clone(), key.clone());
        tokio::spawn(async move {
            let mut rounds = 0;
            let mut current: Option<Record> = None;
            while rounds < ROUNDS {
                let number = current
                    .as_ref()
                    .map_or(0, |record| std::str::from_utf8(&record.data).unwrap().parse::<u64>().unwrap());
                let data = Bytes::from(format!("{}", number + 1));
                let txn = Txn {
                    checks: vec![at(&key, current.as_ref().map(|record| record.version))],
                    writes: vec![Write::Put { key: key.clone(), data: data.clone() }],
                };
                current = match store.commit(&namespace, &txn).await.unwrap() {
                    Outcome::Committed(commit) => {
                        rounds += 1;
                        Some(Record { version: commit.version, data })
                    }
                    Outcome::Refused(Failed::Version { current, .. }) => current,
                    Outcome::Refused(failed) => panic!("refused: {failed:?}"),
                };
            }
        })
    });
    futures::future::join_all(increments.collect::<Vec<_>>()).await.into_iter().for_each(Result::unwrap);
    assert_eq!(harness.read(&namespace, &key).await.unwrap().data, format!("{}", TASKS * ROUNDS));
}

pub(super) async fn concurrent_appends_get_distinct_sequences(harness: Harness) {
    let namespace = namespace("a");
    let appends = (0..200).map(|task| {
        let (store, namespace) =
            (if task % 2 == 0 { harness.store.clone() } else { harness.second.clone() }, namespace.clone());
        tokio::spawn(async move {
            let limited = weighed("limited", "", 1, bound(50, 1_000, WhenFull::Skip));
            let txn = Txn { checks: vec![], writes: vec![append("s", "x"), limited] };
            match store.commit(&namespace, &txn).await.unwrap() {
                Outcome::Committed(commit) => (commit.appended[0], commit.appended[1]),
                Outcome::Refused(failed) => panic!("refused: {failed:?}"),
            }
        })
    });
    let places = futures::future::join_all(appends.collect::<Vec<_>>()).await;
    let (mut all, limited): (Vec<_>, Vec<_>) = places.into_iter().map(Result::unwrap).unzip();
    all.sort_unstable();
    assert_eq!(all, (1..=200).map(Some).collect::<Vec<_>>());
    let mut limited: Vec<u64> = limited.into_iter().flatten().collect();
    limited.sort_unstable();
    assert_eq!(limited, (1..=50).collect::<Vec<_>>());
    assert_eq!(harness.extent(&namespace, "limited").await.entries, 50);
}

pub(super) async fn read_sees_every_acknowledged_commit(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    for round in 1..=50 {
        let commit = harness.commit(&namespace, vec![put(&key, "x"), append("s", "x"), lease("l", LONG)]).await;
        let read = harness.second.read(&namespace, std::slice::from_ref(&key)).await.unwrap();
        assert_eq!(read[0].as_ref().unwrap().version, commit.version);
        let scanned = harness.second.scan(&namespace, "member", "", 1).await.unwrap();
        assert_eq!(scanned[0].1.version, commit.version);
        assert_eq!(harness.second.extents(&namespace, &["s".to_owned()]).await.unwrap()[0].entries, round);
        let newest = Range { first: 0, last: u64::MAX, limit: 1, newest_first: true };
        assert_eq!(harness.second.range(&namespace, "s", newest).await.unwrap()[0].sequence, round);
        assert_eq!(harness.second.leases(&namespace).await.unwrap().until_ms["l"], commit.at_ms + 600_000);
    }
}
