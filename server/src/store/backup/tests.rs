use std::{io::Cursor, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::*;
use crate::store::{
    Check, Export, Item, Key, Namespace, Outcome, Store, StoreError, StoreLayer, Txn, Write,
    conformance::{append, namespace, put, remember},
    embedded::EmbeddedStore,
    model::ModelStore,
};

async fn filled() -> Arc<ModelStore> {
    let store = ModelStore::new();
    for team in ["a", "b"] {
        let checks = vec![Check::KeyUnused { key: "k".to_owned() }];
        let writes = vec![put(&Key::new("team", ""), "{}"), append("history", "one"), remember("k", "reply")];
        store.commit(&namespace(team), &Txn { checks, writes, ..Txn::default() }).await.unwrap();
    }
    let listed = vec![put(&Key::new("listed", "a"), "A")];
    store.commit(&Namespace::directory(), &Txn { writes: listed, ..Txn::default() }).await.unwrap();
    store
}

async fn lines_of(store: &dyn Store) -> Vec<u8> {
    let (to, mut pieces) = mpsc::channel::<Bytes>(8);
    let receive = async move {
        let mut all = Vec::new();
        while let Some(piece) = pieces.recv().await {
            all.extend_from_slice(&piece);
        }
        all
    };
    let (written, all) = tokio::join!(write(store, to), receive);
    written.unwrap();
    all
}

fn check(lines: &[u8]) -> Result<(Header, Counts), BackupError> {
    Reader::new(Cursor::new(lines)).check()
}

#[tokio::test]
async fn backup_that_is_cut_short_anywhere_is_refused() {
    let all = lines_of(&*filled().await).await;
    assert_eq!(check(&all).unwrap().1.namespaces, 3);
    for length in 0..all.len() {
        let refused = check(&all[..length]).unwrap_err().to_string();
        assert!(refused.contains("cut short") || refused.contains("no backup"), "{length}: {refused}");
    }
}

#[tokio::test]
async fn damaged_backup_is_refused() {
    let all = lines_of(&*filled().await).await;
    for at in 0..all.len() {
        let mut damaged = all.clone();
        damaged[at] ^= 1;
        // Other letters in the header of the trailer's counts would be another valid backup only if the checksum
        // matched.
        assert!(check(&damaged).is_err(), "byte {at}: {}", String::from_utf8_lossy(&damaged));
    }
    let text = String::from_utf8(all).unwrap();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    // A missing line, one too many, and two in the wrong order.
    let without: String = lines.iter().enumerate().filter(|(at, _)| *at != 3).map(|(_, line)| *line).collect();
    assert!(check(without.as_bytes()).unwrap_err().to_string().contains("lines are missing"));
    let twice = format!("{text}{}", lines.last().unwrap());
    assert!(check(twice.as_bytes()).unwrap_err().to_string().contains("something follows the end"));
    lines.swap(2, 3);
    assert!(check(lines.concat().as_bytes()).unwrap_err().to_string().contains("checksum"));
}

#[tokio::test]
async fn newer_formats_are_refused_by_name() {
    let all = String::from_utf8(lines_of(&*filled().await).await).unwrap();
    for (known, newer) in
        [("\"teamwire_backup\":1", "\"teamwire_backup\":2"), ("\"store_format\":1", "\"store_format\":2")]
    {
        let changed = all.replacen(known, newer, 1).replacen(env!("CARGO_PKG_VERSION"), "9.8.7", 1);
        let refused = check(changed.as_bytes()).unwrap_err();
        assert!(matches!(refused, BackupError::Newer(_)), "{refused}");
        assert!(refused.to_string().contains("made by teamwire 9.8.7"), "{refused}");
    }
    // A newer header may lack what this one has.
    let refused = check(b"{\"teamwire_backup\":7,\"other\":1}\n").unwrap_err();
    assert!(matches!(refused, BackupError::Newer(_)), "{refused}");
    for other in ["", "{}\n", "hello\n", "\u{1f}\u{8b}\n"] {
        assert!(matches!(check(other.as_bytes()).unwrap_err(), BackupError::Damaged(_)));
    }
}

/// A store that refuses all commits after the first few.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn Store>,
    commits: std::sync::atomic::AtomicUsize,
}

impl StoreLayer for Failing {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        use std::sync::atomic::Ordering::Relaxed;
        if self.commits.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
            return Err(StoreError::Refusing("no more".to_owned()));
        }
        self.inner.commit(namespace, txn).await
    }
}

#[tokio::test]
async fn interrupted_restore_is_noticed_and_starts_over() {
    let all = lines_of(&*filled().await).await;
    let complete = EmbeddedStore::in_memory().unwrap();
    restore(&*complete, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap();
    let expected = normalized(&lines_of(&*complete).await);
    let mut failures = 0;
    for commits in 1.. {
        let store = EmbeddedStore::in_memory().unwrap();
        let failing = Failing { inner: store.clone(), commits: commits.into() };
        if restore(&failing, Reader::new(Cursor::new(&all)), |_| ()).await.is_ok() {
            break;
        }
        failures += 1;
        assert!(is_unfinished(&*store).await.unwrap(), "after {commits} commits");
        restore(&*store, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap();
        assert!(!is_unfinished(&*store).await.unwrap());
        assert_eq!(normalized(&lines_of(&*store).await), expected, "after {commits} commits");
    }
    assert!(failures > 5);
}

/// Leaves out what differs from backup to backup: the first line, versions, clocks, and the last line.
fn normalized(lines: &[u8]) -> Vec<String> {
    let lines: Vec<&str> = std::str::from_utf8(lines).unwrap().lines().collect();
    let stripped = lines[1..lines.len() - 1].iter().map(|line| match line.split_once(",\"version\"") {
        Some((name, _)) if line.starts_with("{\"namespace\"") => name.to_owned(),
        _ => (*line).to_owned(),
    });
    stripped.collect()
}

#[tokio::test]
async fn store_that_holds_anything_is_refused() {
    let all = lines_of(&*filled().await).await;
    let store = filled().await;
    let before = lines_of(&*store).await;
    let refused = restore(&*store, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap_err();
    assert!(matches!(&refused, BackupError::NotEmpty(text) if text.contains("2 teams, such as a")), "{refused}");
    assert_eq!(normalized(&before), normalized(&lines_of(&*store).await));
}

/// A store whose export repeats records and idempotency keys, as Redis may.
#[derive(Debug)]
struct Repeating(Arc<ModelStore>);

#[async_trait]
impl Export for Repeating {
    fn kind(&self) -> &'static str {
        "repeating"
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        self.0.namespaces().await
    }

    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        let (twice, mut items) = mpsc::channel(1);
        let repeat = async move {
            let mut repeated = Vec::new();
            while let Some(item) = items.recv().await {
                if matches!(item, Item::Namespace { .. }) {
                    for item in repeated.drain(..) {
                        to.send(item).await.unwrap();
                    }
                }
                if matches!(item, Item::Record { .. } | Item::Reply { .. }) {
                    to.send(item.clone()).await.unwrap();
                    repeated.push(item.clone());
                }
                to.send(item).await.unwrap();
            }
        };
        let export = async move { self.0.export(&twice).await };
        let (done, ()) = tokio::join!(export, repeat);
        done
    }
}

#[tokio::test]
async fn repeated_items_are_restored_once() {
    let store = filled().await;
    for at in 0..300 {
        let key: &'static str = format!("key/{at}").leak();
        let txn = Txn { writes: vec![remember(key, "reply"), put(&Key::new("task", key), "{}")], ..Txn::default() };
        store.commit(&namespace("a"), &txn).await.unwrap();
    }
    let (to, mut items) = mpsc::channel(10_000);
    Repeating(store.clone()).export(&to).await.unwrap();
    drop(to);
    let mut all = Vec::new();
    let mut counts = Counts::default();
    let mut push = |line: serde_json::Value| all.extend_from_slice(format!("{line}\n").as_bytes());
    push(serde_json::to_value(Header::now("repeating")).unwrap());
    while let Some(item) = items.recv().await {
        counts.add(&item);
        push(serde_json::to_value(format::Line::from(&item)).unwrap());
    }
    let blake3 = blake3::hash(&all).to_hex().to_string();
    let end = serde_json::to_value(format::Line::End(format::End { counts, blake3 })).unwrap();
    all.extend_from_slice(format!("{end}\n").as_bytes());
    let restored = EmbeddedStore::in_memory().unwrap();
    restore(&*restored, Reader::new(Cursor::new(&all)), |_| ()).await.unwrap();
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(normalized(&lines_of(&*restored).await)), sorted(normalized(&lines_of(&*store).await)));
}

#[tokio::test]
async fn contents_that_are_text_stay_readable() {
    let store = ModelStore::new();
    let key = Key::new("task", "1");
    let bytes = Write::Put { key: Key::new("task", "2"), data: Bytes::from_static(&[0xff, 0]) };
    let txn = Txn { writes: vec![put(&key, "{\"text\":\"grün\"}"), bytes], ..Txn::default() };
    store.commit(&namespace("a"), &txn).await.unwrap();
    let all = String::from_utf8(lines_of(&*store).await).unwrap();
    assert!(all.contains(r#"{"record":{"kind":"task","id":"1","data":"{\"text\":\"grün\"}"}}"#), "{all}");
    assert!(all.contains(r#"{"record":{"kind":"task","id":"2","data":{"base64":"/wA="}}}"#), "{all}");
}
