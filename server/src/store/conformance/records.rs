//! Records: versions, reads and scans.

use super::*;

pub(in crate::store) async fn every_record_of_a_commit_gets_its_version(harness: Harness) {
    let (namespace, a, b) = (namespace("a"), Key::new("member", "a"), Key::new("task", "b"));
    let commit = harness.commit(&namespace, vec![put(&a, "1"), put(&b, "2")]).await;
    let read = harness.store.read(&namespace, &[a.clone(), b.clone()]).await.unwrap();
    let versions: Vec<_> = read.into_iter().map(|record| record.unwrap().version).collect();
    assert_eq!(versions, [commit.version, commit.version]);
    let scanned = harness.store.scan(&namespace, "task", "", 10).await.unwrap();
    assert_eq!(scanned, [("b".to_owned(), Record { version: commit.version, data: text("2") })]);
}

pub(in crate::store) async fn versions_are_never_reused(harness: Harness) {
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

pub(in crate::store) async fn read_returns_records_in_key_order(harness: Harness) {
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

pub(in crate::store) async fn scan_returns_records_in_id_order(harness: Harness) {
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
