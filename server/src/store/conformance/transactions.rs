//! Transactions: checks, atomicity, idempotency keys and linearizability.

use super::*;

pub(in crate::store) async fn commit_reports_the_first_failed_check(harness: Harness) {
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

pub(in crate::store) async fn failed_version_check_returns_the_current_record(harness: Harness) {
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

pub(in crate::store) async fn refused_transaction_changes_nothing(harness: Harness) {
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

pub(in crate::store) async fn writes_apply_in_order(harness: Harness) {
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

pub(in crate::store) async fn used_idempotency_key_returns_the_remembered_reply(harness: Harness) {
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

pub(in crate::store) async fn concurrent_commits_are_never_lost(harness: Harness) {
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
                    ..Txn::default()
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

pub(in crate::store) async fn read_sees_every_acknowledged_commit(harness: Harness) {
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
