//! Streams: sequences, bounds, removals and ranges.

use super::*;

pub(in crate::store) async fn sequences_are_dense_and_start_at_one(harness: Harness) {
    let namespace = namespace("a");
    let commit = harness.commit(&namespace, vec![append("s", "1"), append("t", "1"), append("s", "2")]).await;
    assert_eq!(commit.appended, [Some(1), Some(1), Some(2)]);
    assert_eq!(harness.commit(&namespace, vec![append("s", "3")]).await.appended, [Some(3)]);
    assert_eq!(harness.entries(&namespace, "s").await, [(1, text("1")), (2, text("2")), (3, text("3"))]);
}

pub(in crate::store) async fn sequences_are_never_reused(harness: Harness) {
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

pub(in crate::store) async fn full_stream_refuses_the_whole_transaction(harness: Harness) {
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

pub(in crate::store) async fn full_stream_skips_only_that_append(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "x"));
    let two = || weighed("s", "", 1, bound(2, 100, WhenFull::Skip));
    let commit = harness.commit(&namespace, vec![two(), two(), two(), put(&key, "put"), append("t", "")]).await;
    assert_eq!(commit.appended, [Some(1), Some(2), None, Some(1)]);
    assert_eq!(harness.read(&namespace, &key).await.unwrap().data, "put");
    harness.commit(&namespace, vec![remove("s", &[1])]).await;
    // The skipped append used up no sequence.
    assert_eq!(harness.commit(&namespace, vec![two()]).await.appended, [Some(3)]);
}

pub(in crate::store) async fn weight_is_bounded_and_removal_frees_it(harness: Harness) {
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

pub(in crate::store) async fn bounds_count_earlier_writes_of_the_same_transaction(harness: Harness) {
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

pub(in crate::store) async fn removing_what_does_not_exist_is_harmless(harness: Harness) {
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

pub(in crate::store) async fn one_commit_can_remove_thousands_of_entries(harness: Harness) {
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

pub(in crate::store) async fn range_reads_in_both_directions_within_its_bounds(harness: Harness) {
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

pub(in crate::store) async fn unused_stream_has_an_empty_extent(harness: Harness) {
    let namespace = namespace("a");
    harness.commit(&namespace, vec![weighed("s", "", 7, None)]).await;
    let streams = ["never", "s", "never"].map(str::to_owned);
    let never = Extent { next: 1, entries: 0, weight: 0 };
    let used = Extent { next: 2, entries: 1, weight: 7 };
    assert_eq!(harness.store.extents(&namespace, &streams).await.unwrap(), [never, used, never]);
    assert_eq!(harness.store.extents(&namespace, &[]).await.unwrap(), []);
}

pub(in crate::store) async fn concurrent_appends_get_distinct_sequences(harness: Harness) {
    let namespace = namespace("a");
    let appends = (0..200).map(|task| {
        let (store, namespace) =
            (if task % 2 == 0 { harness.store.clone() } else { harness.second.clone() }, namespace.clone());
        tokio::spawn(async move {
            let limited = weighed("limited", "", 1, bound(50, 1_000, WhenFull::Skip));
            let txn = Txn { checks: vec![], writes: vec![append("s", "x"), limited], ..Txn::default() };
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
