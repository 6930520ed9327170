//! What every store promises, as tests. Each backend runs all of them; see [`for_each_promise`] and [`every_promise`].

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
pub(super) struct Bench {
    pub(super) store: Arc<dyn Store>,
    /// The same data as another coordinator sees it; the same handle where only one can be.
    pub(super) second: Arc<dyn Store>,
    /// Lists whatever the backend itself stores for a namespace.
    pub(super) raw_keys: Box<dyn Fn(Namespace) -> BoxFuture<'static, Vec<String>> + Send + Sync>,
    /// What must outlive the store, such as its server.
    pub(super) _keeps: Box<dyn std::any::Any + Send + Sync>,
}

/// Hands the names of all promises to a macro, after whatever else it takes.
macro_rules! with_promises {
    ($macro:ident! $($first:tt)*) => {
        $crate::store::conformance::$macro! { $($first)*
            the_first_check_that_fails_is_the_one_reported
            a_failed_version_check_returns_the_record_as_it_is
            nothing_of_a_refused_transaction_happens
            writes_happen_in_their_order
            every_record_of_a_commit_has_its_version
            a_version_never_comes_back
            records_are_read_in_the_order_of_the_keys
            records_are_scanned_in_the_order_of_their_ids
            sequences_are_dense_and_begin_with_one
            a_sequence_is_never_given_out_twice
            a_full_stream_refuses_the_whole_transaction
            a_full_stream_leaves_out_the_one_entry
            weight_is_bounded_and_freed_by_removal
            bounds_see_what_the_same_transaction_did_before
            removing_what_is_not_there_does_no_harm
            many_entries_are_removed_at_once
            a_range_reads_forwards_and_backwards_between_its_ends
            the_extent_of_a_stream_never_used_is_empty
            the_ledger_returns_what_was_remembered
            a_lease_is_alive_until_it_runs_out_or_is_ended
            the_leases_that_ran_out_are_listed_and_the_ended_are_not
            dropping_a_namespace_leaves_nothing_of_it
            namespaces_share_nothing
            notifications_reach_every_handle
            data_may_be_any_bytes
            names_may_hold_any_visible_character
            the_clock_does_not_go_backwards
            of_concurrent_commits_none_is_lost
            of_concurrent_appends_each_gets_a_place_of_its_own
            a_read_sees_every_commit_answered_before_it
        }
    };
}
pub(super) use with_promises;

/// Makes one test of each promise, on the bench that the async function `$open` returns. `None` skips the test.
macro_rules! for_each_promise {
    ($open:path) => {
        $crate::store::conformance::with_promises! { promises_apart! $open: }
    };
}
pub(super) use for_each_promise;

/// Checks all promises one after the other, on the benches that `$open` makes of the name of each: for what takes long
/// to start. To be used in an async function.
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
                if let Some(bench) = $open().await {
                    $crate::store::conformance::$promise(bench).await;
                }
            }
        )*
    };
}
pub(super) use promises_apart;

macro_rules! promises_in_turn {
    ($open:expr; $($promise:ident)*) => {
        $(
            // Shown where the test fails.
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

fn unseen(key: &str) -> Check {
    Check::KeyUnused { key: key.to_owned() }
}

fn lease_alive(name: &str, alive: bool) -> Check {
    Check::Lease { name: name.to_owned(), alive }
}

fn bound(entries_max: u64, weight_max: u64, when_full: WhenFull) -> Option<Bound> {
    Some(Bound { entries_max, weight_max, when_full })
}

const LONG: Duration = Duration::from_secs(600);

impl Bench {
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

    /// Everything that can be asked about a namespace.
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

pub(super) async fn the_first_check_that_fails_is_the_one_reported(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    bench.commit_if(&namespace, vec![unseen("k")], vec![remember("k", "old"), lease("l", LONG)]).await;
    let wrong = [at(&key, Some(7)), unseen("k"), lease_alive("l", false)];
    let failures = [
        Failed::Version { key: key.clone(), current: None },
        Failed::KeyUsed { data: text("old") },
        Failed::Lease { name: "l".to_owned() },
    ];
    for (first, failed) in failures.into_iter().enumerate() {
        let mut checks = vec![at(&key, None), unseen("other"), lease_alive("l", true)];
        checks.extend_from_slice(&wrong[first..]);
        // The bound is looked at last.
        let full = weighed("s", "", 1, bound(0, 0, WhenFull::Refuse));
        assert_eq!(bench.refused(&namespace, checks, vec![full]).await, failed);
    }
}

pub(super) async fn a_failed_version_check_returns_the_record_as_it_is(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let version = bench.commit(&namespace, vec![put(&key, "as it is")]).await.version;
    let current = Some(Record { version, data: text("as it is") });
    for wrong in [None, Some(version + 1), Some(0)] {
        let failed = bench.refused(&namespace, vec![at(&key, wrong)], vec![delete(&key)]).await;
        assert_eq!(failed, Failed::Version { key: key.clone(), current: current.clone() });
    }
    bench.commit_if(&namespace, vec![at(&key, Some(version))], vec![delete(&key)]).await;
    bench.commit_if(&namespace, vec![at(&key, None)], vec![]).await;
}

pub(super) async fn nothing_of_a_refused_transaction_happens(bench: Bench) {
    let (namespace, old, new) = (namespace("a"), Key::new("member", "old"), Key::new("task", "new"));
    let first = vec![put(&old, "1"), append("s", "1"), append("full", "1"), remember("k", ""), lease("l", LONG)];
    bench.commit_if(&namespace, vec![unseen("k")], first).await;
    let before = bench.everything(&namespace, &["member", "task"], &["s", "full", "t"]).await;
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
    for check in [at(&new, Some(1)), unseen("k"), lease_alive("l", false), lease_alive("l2", true), unseen("k3")] {
        bench.refused(&namespace, vec![check], writes()).await;
        assert_eq!(bench.everything(&namespace, &["member", "task"], &["s", "full", "t"]).await, before);
    }
    bench.commit_if(&namespace, vec![unseen("k2"), lease_alive("l2", false)], vec![]).await;
    // Nor did it use up a sequence.
    assert_eq!(bench.commit(&namespace, vec![append("s", "3"), append("t", "3")]).await.appended, [Some(2), Some(1)]);
}

pub(super) async fn writes_happen_in_their_order(bench: Bench) {
    let (namespace, a, b) = (namespace("a"), Key::new("member", "a"), Key::new("member", "b"));
    let commit = bench
        .commit(
            &namespace,
            vec![put(&a, "1"), delete(&a), delete(&b), put(&b, "1"), put(&b, "2"), append("s", "x"), remove("s", &[1])],
        )
        .await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(1)], 1));
    assert_eq!(bench.read(&namespace, &a).await, None);
    assert_eq!(bench.read(&namespace, &b).await.unwrap().data, "2");
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 2, entries: 0, weight: 0 });
    assert_eq!(bench.entries(&namespace, "s").await, []);
}

pub(super) async fn every_record_of_a_commit_has_its_version(bench: Bench) {
    let (namespace, a, b) = (namespace("a"), Key::new("member", "a"), Key::new("task", "b"));
    let commit = bench.commit(&namespace, vec![put(&a, "1"), put(&b, "2")]).await;
    let read = bench.store.read(&namespace, &[a.clone(), b.clone()]).await.unwrap();
    let versions: Vec<_> = read.into_iter().map(|record| record.unwrap().version).collect();
    assert_eq!(versions, [commit.version, commit.version]);
    let scanned = bench.store.scan(&namespace, "task", "", 10).await.unwrap();
    assert_eq!(scanned, [("b".to_owned(), Record { version: commit.version, data: text("2") })]);
}

pub(super) async fn a_version_never_comes_back(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let mut versions = std::collections::BTreeSet::new();
    for _ in 0..5 {
        for last in [delete(&key), Write::DropNamespace] {
            assert!(versions.insert(bench.commit(&namespace, vec![put(&key, "same")]).await.version));
            assert!(versions.insert(bench.commit(&namespace, vec![put(&key, "same")]).await.version));
            bench.commit(&namespace, vec![last]).await;
            assert_eq!(bench.read(&namespace, &key).await, None);
        }
    }
    assert_eq!(versions.len(), 20);
}

pub(super) async fn records_are_read_in_the_order_of_the_keys(bench: Bench) {
    let namespace = namespace("a");
    let keys = ["c", "a", "missing", "b", "a"].map(|id| Key::new("member", id));
    bench.commit(&namespace, vec![put(&keys[0], "c"), put(&keys[1], "a"), put(&keys[3], "b")]).await;
    bench.commit(&namespace, vec![put(&Key::new("task", "a"), "task")]).await;
    let mixed = [&keys[..], &[Key::new("task", "a"), Key::new("none", "a")]].concat();
    let read = bench.store.read(&namespace, &mixed).await.unwrap();
    let data: Vec<_> = read.iter().map(|record| record.as_ref().map(|record| &record.data[..])).collect();
    let expected: [Option<&[u8]>; 7] = [Some(b"c"), Some(b"a"), None, Some(b"b"), Some(b"a"), Some(b"task"), None];
    assert_eq!(data, expected);
    assert_eq!(bench.store.read(&namespace, &[]).await.unwrap(), []);
}

pub(super) async fn records_are_scanned_in_the_order_of_their_ids(bench: Bench) {
    let namespace = namespace("a");
    let ids = ["10", "2", "a", "a/b", "ab", "b", "~"];
    for id in ["b", "ab", "~", "2", "a", "10", "a/b"] {
        bench.commit(&namespace, vec![put(&Key::new("member", id), "m"), put(&Key::new("me", id), "other kind")]).await;
    }
    let scan = async |after: &'static str, limit| {
        let found = bench.store.scan(&namespace, "member", after, limit).await.unwrap();
        assert!(found.iter().all(|(_, record)| record.data == "m"));
        found.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(scan("", 100).await, ids);
    assert_eq!(scan("", 3).await, ids[..3]);
    assert_eq!(scan("a", 2).await, ["a/b", "ab"]);
    assert_eq!(scan("aa", 2).await, ["ab", "b"]);
    assert_eq!(scan("~", 2).await, [""; 0]);
    assert_eq!(scan("", 0).await, [""; 0]);
    assert_eq!(bench.store.scan(&namespace, "memb", "", 10).await.unwrap(), []);
}

pub(super) async fn sequences_are_dense_and_begin_with_one(bench: Bench) {
    let namespace = namespace("a");
    let commit = bench.commit(&namespace, vec![append("s", "1"), append("t", "1"), append("s", "2")]).await;
    assert_eq!(commit.appended, [Some(1), Some(1), Some(2)]);
    assert_eq!(bench.commit(&namespace, vec![append("s", "3")]).await.appended, [Some(3)]);
    assert_eq!(bench.entries(&namespace, "s").await, [(1, text("1")), (2, text("2")), (3, text("3"))]);
}

pub(super) async fn a_sequence_is_never_given_out_twice(bench: Bench) {
    let namespace = namespace("a");
    bench.commit(&namespace, vec![append("s", "1"), append("s", "2")]).await;
    bench.commit(&namespace, vec![remove("s", &[2])]).await;
    assert_eq!(bench.commit(&namespace, vec![append("s", "3")]).await.appended, [Some(3)]);
    bench.commit(&namespace, vec![remove("s", &[1, 3])]).await;
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 4, entries: 0, weight: 0 });
    assert_eq!(bench.commit(&namespace, vec![append("s", "4")]).await.appended, [Some(4)]);
    bench.commit(&namespace, vec![Write::DropNamespace]).await;
    // With the namespace, its counters are gone.
    assert_eq!(bench.commit(&namespace, vec![append("s", "1")]).await.appended, [Some(1)]);
}

pub(super) async fn a_full_stream_refuses_the_whole_transaction(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let three = || weighed("s", "", 1, bound(3, 100, WhenFull::Refuse));
    bench.commit(&namespace, vec![three(), three()]).await;
    let failed = bench.refused(&namespace, vec![], vec![put(&key, ""), append("t", ""), three(), three()]).await;
    assert_eq!(failed, Failed::Full { stream: "s".to_owned() });
    assert_eq!(bench.read(&namespace, &key).await, None);
    assert_eq!(bench.extent(&namespace, "t").await.next, 1);
    assert_eq!(bench.commit(&namespace, vec![three()]).await.appended, [Some(3)]);
    // No bound, no limit.
    assert_eq!(bench.commit(&namespace, vec![append("s", "")]).await.appended, [Some(4)]);
}

pub(super) async fn a_full_stream_leaves_out_the_one_entry(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let two = || weighed("s", "", 1, bound(2, 100, WhenFull::Skip));
    let commit = bench.commit(&namespace, vec![two(), two(), two(), put(&key, "put"), append("t", "")]).await;
    assert_eq!(commit.appended, [Some(1), Some(2), None, Some(1)]);
    assert_eq!(bench.read(&namespace, &key).await.unwrap().data, "put");
    bench.commit(&namespace, vec![remove("s", &[1])]).await;
    // What was left out used up no sequence.
    assert_eq!(bench.commit(&namespace, vec![two()]).await.appended, [Some(3)]);
}

pub(super) async fn weight_is_bounded_and_freed_by_removal(bench: Bench) {
    let namespace = namespace("a");
    let heavy = |weight| weighed("s", "", weight, bound(100, 10, WhenFull::Refuse));
    bench.commit(&namespace, vec![heavy(4), heavy(6), heavy(0)]).await;
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 4, entries: 3, weight: 10 });
    bench.refused(&namespace, vec![], vec![heavy(1)]).await;
    bench.commit(&namespace, vec![remove("s", &[1])]).await;
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 4, entries: 2, weight: 6 });
    bench.refused(&namespace, vec![], vec![heavy(5)]).await;
    bench.commit(&namespace, vec![heavy(4)]).await;
    let heaviest = || weighed("t", "", 1 << 40, bound(1_000, u64::MAX, WhenFull::Refuse));
    bench.commit(&namespace, (0..1_000).map(|_| heaviest()).collect()).await;
    assert_eq!(bench.extent(&namespace, "t").await, Extent { next: 1_001, entries: 1_000, weight: 1_000 << 40 });
}

pub(super) async fn bounds_see_what_the_same_transaction_did_before(bench: Bench) {
    let namespace = namespace("a");
    let one = || weighed("s", "", 5, bound(1, 5, WhenFull::Refuse));
    bench.commit(&namespace, vec![one()]).await;
    bench.refused(&namespace, vec![], vec![one(), remove("s", &[1])]).await;
    let commit = bench.commit(&namespace, vec![remove("s", &[1]), one()]).await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(2)], 1));
    let commit = bench.commit(&namespace, vec![remove("s", &[2]), one(), remove("s", &[3]), one()]).await;
    assert_eq!((commit.appended, commit.removed), (vec![Some(3), Some(4)], 2));
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 5, entries: 1, weight: 5 });
}

pub(super) async fn removing_what_is_not_there_does_no_harm(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    bench.commit(&namespace, vec![append("s", "1"), append("s", "2")]).await;
    let nothing = vec![
        delete(&key),
        remove("never", &[1, 2]),
        remove("s", &[]),
        remove("s", &[0, 3, u64::MAX]),
        Write::EndLease { name: "never".to_owned() },
    ];
    let commit = bench.commit(&namespace, nothing).await;
    assert_eq!((commit.removed, commit.appended), (0, vec![]));
    assert_eq!(bench.commit(&namespace, vec![remove("s", &[2, 2, 9]), remove("s", &[2])]).await.removed, 1);
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 3, entries: 1, weight: 1 });
    assert_eq!(bench.extent(&namespace, "never").await.next, 1);
}

pub(super) async fn many_entries_are_removed_at_once(bench: Bench) {
    let namespace = namespace("a");
    for _ in 0..3 {
        bench.commit(&namespace, (0..1_000).map(|_| append("s", "x")).collect()).await;
    }
    // Every third stays.
    let going: Vec<u64> = (1..=3_000).rev().filter(|sequence| sequence % 3 != 0).collect();
    assert_eq!(bench.commit(&namespace, vec![remove("s", &going)]).await.removed, 2_000);
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 3_001, entries: 1_000, weight: 1_000 });
    let left: Vec<u64> = bench.entries(&namespace, "s").await.into_iter().map(|(sequence, _)| sequence).collect();
    assert_eq!(left, (1..=1_000).map(|third| third * 3).collect::<Vec<u64>>());
    let everything: Vec<u64> = (1..=3_000).collect();
    assert_eq!(bench.commit(&namespace, vec![remove("s", &everything)]).await.removed, 1_000);
    assert_eq!(bench.extent(&namespace, "s").await, Extent { next: 3_001, entries: 0, weight: 0 });
}

pub(super) async fn a_range_reads_forwards_and_backwards_between_its_ends(bench: Bench) {
    let namespace = namespace("a");
    bench.commit(&namespace, (0..300).map(|_| append("s", "x")).collect()).await;
    bench.commit(&namespace, vec![append("s2", "other stream"), remove("s", &[4])]).await;
    let range = async |first, last, limit, newest_first| {
        let range = Range { first, last, limit, newest_first };
        let found: Vec<Entry> = bench.store.range(&namespace, "s", range).await.unwrap();
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
    assert_eq!(bench.store.range(&namespace, "never", Range::after(0, 10)).await.unwrap(), []);
    assert_eq!(bench.store.range(&namespace, "never", Range::after(0, usize::MAX)).await.unwrap(), []);
    assert_eq!(bench.store.range(&namespace, "s", Range::after(u64::MAX, 10)).await.unwrap(), []);
}

pub(super) async fn the_extent_of_a_stream_never_used_is_empty(bench: Bench) {
    let namespace = namespace("a");
    bench.commit(&namespace, vec![weighed("s", "", 7, None)]).await;
    let streams = ["never", "s", "never"].map(str::to_owned);
    let never = Extent { next: 1, entries: 0, weight: 0 };
    let used = Extent { next: 2, entries: 1, weight: 7 };
    assert_eq!(bench.store.extents(&namespace, &streams).await.unwrap(), [never, used, never]);
    assert_eq!(bench.store.extents(&namespace, &[]).await.unwrap(), []);
}

pub(super) async fn the_ledger_returns_what_was_remembered(bench: Bench) {
    let namespace = namespace("a");
    bench.commit_if(&namespace, vec![unseen("k")], vec![remember("k", "answer"), append("s", "")]).await;
    let again = bench.refused(&namespace, vec![unseen("k")], vec![remember("k", "another"), append("s", "")]).await;
    assert_eq!(again, Failed::KeyUsed { data: text("answer") });
    assert_eq!(bench.extent(&namespace, "s").await.entries, 1);
    bench.commit_if(&namespace, vec![unseen("k2"), unseen("")], vec![remember("k2", "")]).await;
    assert_eq!(bench.refused(&namespace, vec![unseen("k2")], vec![]).await, Failed::KeyUsed { data: Bytes::new() });
}

pub(super) async fn a_lease_is_alive_until_it_runs_out_or_is_ended(bench: Bench) {
    let namespace = namespace("a");
    bench.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    bench.commit_if(&namespace, vec![lease_alive("l", true)], vec![Write::EndLease { name: "l".to_owned() }]).await;
    bench.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", Duration::from_millis(20))]).await;
    let until_ms = bench.store.leases(&namespace).await.unwrap().until_ms["l"];
    bench.clock_passes(until_ms).await;
    bench.refused(&namespace, vec![lease_alive("l", true)], vec![]).await;
    bench.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    bench.commit_if(&namespace, vec![lease_alive("l", true)], vec![lease("l", Duration::ZERO)]).await;
    bench.commit_if(&namespace, vec![lease_alive("l", false)], vec![]).await;
}

pub(super) async fn the_leases_that_ran_out_are_listed_and_the_ended_are_not(bench: Bench) {
    let namespace = namespace("a");
    assert!(bench.store.leases(&namespace).await.unwrap().until_ms.is_empty());
    let commit = bench.commit(&namespace, vec![lease("long", LONG), lease("short", Duration::ZERO)]).await;
    let ended = vec![lease("ended", LONG), Write::EndLease { name: "ended".to_owned() }];
    bench.commit(&namespace, ended).await;
    let leases = bench.store.leases(&namespace).await.unwrap();
    assert!(leases.now_ms >= commit.at_ms);
    let expected = [("long".to_owned(), commit.at_ms + 600_000), ("short".to_owned(), commit.at_ms)];
    assert_eq!(leases.until_ms.into_iter().collect::<Vec<_>>(), expected);
}

pub(super) async fn dropping_a_namespace_leaves_nothing_of_it(bench: Bench) {
    let (gone, stays, key) = (namespace("gone"), namespace("stays"), Key::new("member", "x"));
    let fill = || {
        let mut writes = vec![put(&key, "1"), put(&Key::new("task", "y"), "2"), remember("k", ""), lease("l", LONG)];
        writes.extend((0..20).map(|_| append("s", "x")));
        writes.extend([append("t", "x"), append("emptied", "x"), remove("emptied", &[1])]);
        writes
    };
    for namespace in [&gone, &stays] {
        bench.commit_if(namespace, vec![unseen("k")], fill()).await;
    }
    let before = bench.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await;
    assert_ne!((bench.raw_keys)(gone.clone()).await, [""; 0]);
    let mut notifications = bench.second.notifications();
    bench.commit(&gone, vec![delete(&key), Write::DropNamespace, notification("dropped")]).await;
    assert_eq!(
        notifications.recv().await,
        Ok(Notification::Topic { namespace: gone.clone(), topic: "dropped".to_owned(), by: 7 })
    );
    assert_eq!((bench.raw_keys)(gone.clone()).await, [""; 0]);
    assert_eq!(bench.everything(&stays, &["member", "task"], &["s", "t", "emptied"]).await, before);
    // Whatever it had seen, it has not.
    bench.commit_if(&gone, vec![unseen("k"), lease_alive("l", false), at(&key, None)], fill()).await;
    assert_eq!(bench.extent(&gone, "s").await.next, 21);
    // Dropping what never was does no harm.
    bench.commit(&namespace("never"), vec![Write::DropNamespace]).await;
    assert_eq!((bench.raw_keys)(namespace("never")).await, [""; 0]);
}

pub(super) async fn namespaces_share_nothing(bench: Bench) {
    let key = Key::new("member", "x");
    // Names that begin or end alike.
    let namespaces = [namespace("a"), namespace("aa"), namespace("a.b"), Namespace::directory()];
    for namespace in &namespaces {
        let checks = vec![at(&key, None), unseen("k"), lease_alive("l", false)];
        let writes = vec![put(&key, "x"), append("s", "x"), remember("k", ""), lease("l", LONG)];
        assert_eq!(bench.commit_if(namespace, checks, writes).await.appended, [Some(1)]);
    }
    bench.commit(&namespaces[0], vec![Write::DropNamespace]).await;
    assert_eq!(bench.read(&namespaces[0], &key).await, None);
    for namespace in &namespaces[1..] {
        assert_eq!(bench.read(namespace, &key).await.unwrap().data, "x");
        bench.commit_if(namespace, vec![lease_alive("l", true)], vec![]).await;
        bench.refused(namespace, vec![unseen("k")], vec![]).await;
    }
}

pub(super) async fn notifications_reach_every_handle(bench: Bench) {
    let namespace = namespace("a");
    let mut receivers = [bench.store.notifications(), bench.second.notifications(), bench.second.notifications()];
    bench.refused(&namespace, vec![lease_alive("l", true)], vec![notification("refused")]).await;
    bench.commit(&namespace, vec![notification("inbox/x"), append("s", ""), notification("y")]).await;
    for receiver in &mut receivers {
        for topic in ["inbox/x", "y"] {
            assert_eq!(
                receiver.recv().await,
                Ok(Notification::Topic { namespace: namespace.clone(), topic: topic.to_owned(), by: 7 })
            );
        }
    }
}

pub(super) async fn data_may_be_any_bytes(bench: Bench) {
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
        bench.commit(&namespace, writes).await;
        assert_eq!(bench.read(&namespace, &key).await.unwrap().data, data);
        assert_eq!(bench.entries(&namespace, &stream).await, [(1, data.clone())]);
        assert_eq!(
            bench.refused(&namespace, vec![unseen(&stream)], vec![]).await,
            Failed::KeyUsed { data: data.clone() }
        );
        let failed = bench.refused(&namespace, vec![at(&key, None)], vec![]).await;
        assert!(matches!(failed, Failed::Version { current: Some(record), .. } if record.data == data));
    }
}

pub(super) async fn names_may_hold_any_visible_character(bench: Bench) {
    let visible: String = (0x21..=0x7e_u8).map(char::from).collect();
    let long = "~".repeat(200);
    let namespace = namespace("A-b_c.9");
    for name in [visible.as_str(), long.as_str(), "{}", "a:b", "a/b", "1"] {
        let key = Key::new("member", name);
        let mut notifications = bench.store.notifications();
        let writes = vec![
            put(&key, "x"),
            append(name, "x"),
            remember(name, ""),
            lease(name, LONG),
            notification(name),
            append(name, "y"),
        ];
        bench.commit_if(&namespace, vec![at(&key, None), unseen(name), lease_alive(name, false)], writes).await;
        assert_eq!(bench.read(&namespace, &key).await.unwrap().data, "x");
        assert_eq!(bench.entries(&namespace, name).await, [(1, text("x")), (2, text("y"))]);
        assert!(bench.store.leases(&namespace).await.unwrap().until_ms.contains_key(name));
        assert_eq!(
            notifications.recv().await,
            Ok(Notification::Topic { namespace: namespace.clone(), topic: name.to_owned(), by: 7 })
        );
        bench.refused(&namespace, vec![unseen(name)], vec![]).await;
    }
    let scanned = bench.store.scan(&namespace, "member", "", 10).await.unwrap();
    assert!(scanned.iter().any(|(id, _)| *id == visible));
}

pub(super) async fn the_clock_does_not_go_backwards(bench: Bench) {
    let namespace = namespace("a");
    let mut last_ms = 0;
    for _ in 0..50 {
        let before_ms = bench.store.now_ms().await.unwrap();
        let commit = bench.commit(&namespace, vec![lease("l", LONG)]).await;
        let leases = bench.store.leases(&namespace).await.unwrap();
        assert!(last_ms <= before_ms && before_ms <= commit.at_ms && commit.at_ms <= leases.now_ms);
        last_ms = leases.now_ms;
    }
    assert!(last_ms > 1_700_000_000_000, "milliseconds since 1970");
}

pub(super) async fn of_concurrent_commits_none_is_lost(bench: Bench) {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let (namespace, key) = (namespace("a"), Key::new("member", "counter"));
    let increments = (0..TASKS).map(|task| {
        let store = if task % 2 == 0 { bench.store.clone() } else { bench.second.clone() };
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
    assert_eq!(bench.read(&namespace, &key).await.unwrap().data, format!("{}", TASKS * ROUNDS));
}

pub(super) async fn of_concurrent_appends_each_gets_a_place_of_its_own(bench: Bench) {
    let namespace = namespace("a");
    let appends = (0..200).map(|task| {
        let (store, namespace) =
            (if task % 2 == 0 { bench.store.clone() } else { bench.second.clone() }, namespace.clone());
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
    assert_eq!(bench.extent(&namespace, "limited").await.entries, 50);
}

pub(super) async fn a_read_sees_every_commit_answered_before_it(bench: Bench) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    for round in 1..=50 {
        let commit = bench.commit(&namespace, vec![put(&key, "x"), append("s", "x"), lease("l", LONG)]).await;
        let read = bench.second.read(&namespace, std::slice::from_ref(&key)).await.unwrap();
        assert_eq!(read[0].as_ref().unwrap().version, commit.version);
        let scanned = bench.second.scan(&namespace, "member", "", 1).await.unwrap();
        assert_eq!(scanned[0].1.version, commit.version);
        assert_eq!(bench.second.extents(&namespace, &["s".to_owned()]).await.unwrap()[0].entries, round);
        let newest = Range { first: 0, last: u64::MAX, limit: 1, newest_first: true };
        assert_eq!(bench.second.range(&namespace, "s", newest).await.unwrap()[0].sequence, round);
        assert_eq!(bench.second.leases(&namespace).await.unwrap().until_ms["l"], commit.at_ms + 600_000);
    }
}
