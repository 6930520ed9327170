//! Exports, and what restores a store from one.

use std::{collections::BTreeSet, io::Cursor};

use tokio::{sync::mpsc, task::JoinSet};

use super::*;
use crate::store::{
    Item,
    backup::{self, BackupError, Reader},
    embedded::EmbeddedStore,
    model::ModelStore,
};

pub(in crate::store) async fn skipped_sequences_are_never_used(h: Harness) {
    let (space, skip) = (namespace("a"), |next| Write::SkipTo { stream: "s".to_owned(), next });
    h.commit(&space, vec![append("s", "1"), skip(5), append("s", "5"), skip(3), append("s", "6"), skip(9)]).await;
    assert_eq!(h.extent(&space, "s").await, Extent { next: 9, entries: 3, weight: 3 });
    let sequences = |entries: Vec<(u64, Bytes)>| entries.into_iter().map(|(sequence, _)| sequence).collect::<Vec<_>>();
    assert_eq!(sequences(h.entries(&space, "s").await), [1, 5, 6]);
    assert_eq!(h.commit(&space, vec![append("s", "9")]).await.appended, [Some(9)]);
    // Skipped sequences have no entry to remove, in the same transaction or later.
    let removed = h.commit(&space, vec![skip(12), append("s", "12"), remove("s", &[2, 5, 10, 11, 12])]).await.removed;
    assert_eq!(removed, 2);
    assert_eq!(h.extent(&space, "s").await, Extent { next: 13, entries: 3, weight: 3 });
    // A stream without entries keeps its next sequence.
    h.commit(&space, vec![Write::SkipTo { stream: "t".to_owned(), next: 7 }]).await;
    assert_eq!(h.extent(&space, "t").await, Extent { next: 7, entries: 0, weight: 0 });
    assert_eq!(h.commit(&space, vec![append("t", "7")]).await.appended, [Some(7)]);
    // A refused transaction skips nothing.
    let key = Key::new("task", "1");
    h.refused(&space, vec![at(&key, Some(1))], vec![skip(99)]).await;
    let full = weighed("s", "x", 1, bound(0, 0, WhenFull::Refuse));
    h.refused(&space, vec![], vec![skip(99), full]).await;
    assert_eq!(h.extent(&space, "s").await.next, 13);
}

pub(in crate::store) async fn raised_version_and_clock_never_go_back(h: Harness) {
    let (space, key) = (namespace("a"), Key::new("task", "1"));
    let before = h.commit(&space, vec![put(&key, "before")]).await;
    let (version, clock_ms) = (before.version + 1_000_000, before.at_ms + 3_600_000);
    let raise = |version, clock_ms| Write::Raise { version, clock_ms };
    h.commit(&space, vec![raise(version, clock_ms)]).await;
    let after = h.commit(&space, vec![put(&key, "after")]).await;
    assert!(after.version > version && after.at_ms >= clock_ms, "{after:?}");
    assert!(h.store.leases(&space).await.unwrap().now_ms >= clock_ms);
    // Raising is not lowering.
    h.commit(&space, vec![raise(1, 1)]).await;
    let last = h.commit(&space, vec![put(&key, "last")]).await;
    assert!(last.version > after.version && last.at_ms >= after.at_ms, "{last:?}");
    // Leases go by the raised clock.
    h.commit(&space, vec![lease("l", LONG)]).await;
    h.commit_if(&space, vec![lease_alive("l", true)], vec![]).await;
}

/// Returns everything in a store, sorted, without what differs between stores: versions and times.
async fn exported(store: &dyn Store) -> Vec<(Namespace, Vec<Item>)> {
    let (to, mut items) = mpsc::channel(4);
    let receive = async move {
        let mut found: Vec<(Namespace, Vec<Item>)> = Vec::new();
        while let Some(item) = items.recv().await {
            match item {
                Item::Namespace { namespace, .. } => found.push((namespace, Vec::new())),
                Item::Lease { name, left_ms } => {
                    let item = Item::Lease { name, left_ms: u64::from(left_ms > 0) };
                    found.last_mut().unwrap().1.push(item);
                }
                item => found.last_mut().unwrap().1.push(item),
            }
        }
        found
    };
    let export = async move { store.export(&to).await };
    let (done, mut found) = tokio::join!(export, receive);
    done.unwrap();
    for (_, items) in &mut found {
        items.sort();
        items.dedup();
    }
    found
}

/// Fills a store with things of every sort, some of them in large numbers.
async fn fill(store: &dyn Store) {
    let commit = async |namespace: &Namespace, writes: Vec<Write>| {
        let used = |write: &Write| match write {
            Write::RememberReply { key, .. } => Some(key_unused(key)),
            _ => None,
        };
        let txn = Txn { checks: writes.iter().filter_map(used).collect(), writes, ..Txn::default() };
        let outcome = store.commit(namespace, &txn).await.unwrap();
        assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    };
    let numbered = |at: usize| Key::new("message", format!("{at:04}"));
    for team in ["a", "ab", "b"] {
        let space = namespace(team);
        // A put that is replaced, one that is deleted, bytes that are no text, and every visible character.
        commit(&space, vec![put(&Key::new("team", ""), "old"), put(&numbered(0), "gone")]).await;
        let every: String = ('!'..='~').collect();
        let bytes = Write::Put { key: Key::new("member", every), data: Bytes::from_static(&[0, 255, 10, 13]) };
        commit(&space, vec![put(&Key::new("team", ""), "{\"new\":\"\u{202e}\"}"), delete(&numbered(0)), bytes]).await;
        commit(&space, (1..300).map(|at| put(&numbered(at), "text")).collect()).await;
        // Streams: with gaps, emptied, and one whose name looks like a meta hash.
        commit(&space, (0..200).map(|at| weighed("history", "entry", at % 5, None)).collect()).await;
        commit(&space, vec![remove("history", &(1..50).collect::<Vec<_>>()), remove("history", &[77, 200])]).await;
        commit(&space, vec![append("inbox/x", "1"), remove("inbox/x", &[1]), append("s}:m", "odd")]).await;
        commit(&space, vec![lease("alive", LONG), lease("dead", Duration::ZERO), lease("ended", LONG)]).await;
        commit(&space, vec![Write::EndLease { name: "ended".to_owned() }]).await;
        commit(&space, (0..150).map(|at| remember(format!("key/{at}").leak(), "reply")).collect()).await;
    }
    commit(&Namespace::directory(), vec![put(&Key::new("listed", "a"), "A")]).await;
    commit(&namespace("dropped"), vec![put(&numbered(1), "x"), append("s", "x")]).await;
    commit(&namespace("dropped"), vec![Write::DropNamespace]).await;
}

pub(in crate::store) async fn export_shows_everything(h: Harness) {
    fill(&*h.store).await;
    let found = exported(&*h.second).await;
    let names: Vec<&str> = found.iter().map(|(namespace, _)| namespace.as_str()).collect();
    assert_eq!(names, ["a", "ab", "b", "~directory"], "the directory comes last");
    let names = |namespaces: Vec<Namespace>| namespaces.iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(h.store.namespaces().await.unwrap()), ["a", "ab", "b", "~directory"]);
    let items = &found[1].1;
    let count = |is: fn(&Item) -> bool| items.iter().filter(|item| is(item)).count();
    assert_eq!(count(|item| matches!(item, Item::Record { .. })), 301);
    assert_eq!(count(|item| matches!(item, Item::Entry { .. })), 200 - 51 + 1);
    assert_eq!(count(|item| matches!(item, Item::Reply { .. })), 150);
    let weighed: u64 = items.iter().map(|item| if let Item::Entry { weight, .. } = item { *weight } else { 0 }).sum();
    let streams = ["history", "inbox/x", "s}:m"];
    let extents = h.store.extents(&namespace("ab"), &streams.map(str::to_owned)).await.unwrap();
    assert_eq!(weighed, extents.iter().map(|extent| extent.weight).sum::<u64>());
    for (stream, extent) in streams.iter().zip(&extents) {
        assert!(items.contains(&Item::Stream { stream: (*stream).to_owned(), next: extent.next }), "{stream}");
    }
    assert!(items.contains(&Item::Lease { name: "alive".to_owned(), left_ms: 1 }));
    assert!(items.contains(&Item::Lease { name: "dead".to_owned(), left_ms: 0 }));
    let team = Item::Record { kind: "team".to_owned(), id: String::new(), data: text("{\"new\":\"\u{202e}\"}") };
    assert!(items.contains(&team));
    // Nothing of the export itself is left.
    assert_eq!(exported(&*h.store).await, found);
}

pub(in crate::store) async fn export_shows_one_instant_of_each_namespace(h: Harness) {
    let space = namespace("a");
    let pair = |at: u64| {
        let text: &'static str = at.to_string().leak();
        vec![put(&Key::new("left", "1"), text), append("s", text), put(&Key::new("right", "1"), text)]
    };
    h.commit(&space, pair(1)).await;
    let (second, stop) = (Arc::clone(&h.second), tokio_util::sync::CancellationToken::new());
    let mut writers = JoinSet::new();
    let stopped = stop.clone();
    writers.spawn(async move {
        let mut at = 1;
        while !stopped.is_cancelled() {
            at += 1;
            let txn = Txn { writes: pair(at), ..Txn::default() };
            assert!(matches!(second.commit(&namespace("a"), &txn).await.unwrap(), Outcome::Committed(_)));
        }
        at
    });
    let mut seen = BTreeSet::new();
    while seen.len() < 5 {
        let acknowledged = h.extent(&space, "s").await.entries;
        let found = exported(&*h.store).await;
        let data_of = |kind: &str| {
            let is = |item: &&Item| matches!(item, Item::Record { kind: of, .. } if of == kind);
            match found[0].1.iter().find(is) {
                Some(Item::Record { data, .. }) => String::from_utf8_lossy(data).parse::<u64>().unwrap(),
                _ => panic!("no {kind}"),
            }
        };
        let entries = found[0].1.iter().filter(|item| matches!(item, Item::Entry { .. })).count() as u64;
        assert_eq!((data_of("left"), data_of("right")), (entries, entries), "half of a commit was exported");
        assert!(entries >= acknowledged, "an acknowledged commit is missing");
        seen.insert(entries);
    }
    stop.cancel();
    assert!(writers.join_next().await.unwrap().unwrap() >= *seen.last().unwrap());
}

pub(in crate::store) async fn abandoned_export_ends_and_leaves_nothing_behind(h: Harness) {
    fill(&*h.store).await;
    let mut keys = (h.raw_keys)(namespace("a")).await;
    let (to, mut items) = mpsc::channel(1);
    let reader = async move {
        for _ in 0..3 {
            items.recv().await.unwrap();
        }
    };
    let (done, ()) = tokio::join!(async { h.store.export(&to).await }, reader);
    done.unwrap_err();
    let mut after = (h.raw_keys)(namespace("a")).await;
    keys.sort();
    after.sort();
    assert_eq!(keys, after);
    // The store goes on.
    h.commit(&namespace("a"), vec![append("history", "after")]).await;
}

/// Returns a backup of a store.
async fn backup_of(store: &dyn Store) -> Vec<u8> {
    let (to, mut pieces) = mpsc::channel::<Bytes>(2);
    let receive = async move {
        let mut all = Vec::new();
        while let Some(piece) = pieces.recv().await {
            assert_eq!(piece.last(), Some(&b'\n'), "a piece ends in the middle of a line");
            all.extend_from_slice(&piece);
        }
        all
    };
    let (written, all) = tokio::join!(backup::write(store, to), receive);
    let (header, counts) = Reader::new(Cursor::new(&all)).check().unwrap();
    assert_eq!((header.store.as_str(), counts), (store.kind(), written.unwrap()));
    all
}

/// Restores a backup of one store into another, and compares them.
async fn moves(from: &dyn Store, to: &dyn Store) {
    fill(from).await;
    let old = from.read(&namespace("a"), &[Key::new("team", "")]).await.unwrap().remove(0).unwrap();
    let (old_clock, all) = (from.leases(&namespace("a")).await.unwrap().now_ms, backup_of(from).await);
    backup::restore(to, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap();
    assert!(!backup::is_unfinished(to).await.unwrap());
    assert_eq!(exported(from).await, exported(to).await);

    let space = namespace("a");
    let new = to.read(&space, &[Key::new("team", "")]).await.unwrap().remove(0).unwrap();
    assert!(new.version > old.version, "{new:?} does not have a later version than {old:?}");
    assert!(to.leases(&space).await.unwrap().now_ms >= old_clock);
    // Used keys stay used, and emptied streams go on where they were.
    let again = Txn { checks: vec![key_unused("key/7")], writes: vec![remember("key/7", "other")], ..Txn::default() };
    assert_eq!(to.commit(&space, &again).await.unwrap(), Outcome::Refused(Failed::KeyUsed { data: text("reply") }));
    let next = Txn { writes: vec![append("inbox/x", "next")], ..Txn::default() };
    let Outcome::Committed(commit) = to.commit(&space, &next).await.unwrap() else { panic!("refused") };
    assert_eq!(commit.appended, [Some(2)]);
    assert!(commit.version > new.version && commit.at_ms >= old_clock);
    // What was alive is alive, and what was not is not.
    for (name, alive) in [("alive", true), ("dead", false), ("ended", false)] {
        let txn = Txn { checks: vec![lease_alive(name, alive)], ..Txn::default() };
        assert!(matches!(to.commit(&space, &txn).await.unwrap(), Outcome::Committed(_)), "{name}");
    }
    let refused = backup::restore(to, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap_err();
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused}");
}

pub(in crate::store) async fn backup_of_any_store_is_restored_into_it(h: Harness) {
    moves(&*EmbeddedStore::in_memory().unwrap(), &*h.store).await;
}

pub(in crate::store) async fn backup_of_it_is_restored_into_any_store(h: Harness) {
    moves(&*h.store, &*ModelStore::new()).await;
    let again = EmbeddedStore::in_memory().unwrap();
    let all = backup_of(&*h.second).await;
    backup::restore(&*again, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap();
    assert_eq!(exported(&*again).await, exported(&*h.second).await);
}
