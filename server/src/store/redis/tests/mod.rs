//! Tests of the Redis store: the store contract, and failures specific to servers and networks.

mod cluster;
mod data_loss;
mod group;
mod replicas;
mod sentinel;
mod tls;

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use nix::sys::signal::Signal;
use redis::aio::MultiplexedConnection;

use super::*;
use crate::store::{
    Check, Commit, Durability, Write,
    conformance::{Harness, append, delete, for_each_promise, namespace, put, remember, remove},
    test_redis::{Flavor, TestRedis, eventually},
};

const PREFIX: &str = "test";

async fn harness() -> Option<Harness> {
    harness_on(TestRedis::start()?).await
}

async fn harness_on(server: TestRedis) -> Option<Harness> {
    let raw = server.connection().await;
    Some(Harness {
        store: connect(&server).await,
        second: connect(&server).await,
        raw_keys: Box::new(move |namespace| raw_keys(raw.clone(), PREFIX, namespace).boxed()),
        _keeps: Box::new(server),
    })
}

for_each_promise!(harness);

mod on_valkey {
    use super::*;

    async fn harness() -> Option<Harness> {
        harness_on(TestRedis::start_of(Flavor::Valkey)?).await
    }

    for_each_promise!(harness);
}

async fn connect(server: &TestRedis) -> Arc<RedisStore> {
    RedisStore::connect(&server.url(), PREFIX).await.unwrap()
}

async fn raw_keys(mut connection: MultiplexedConnection, prefix: &str, namespace: Namespace) -> Vec<String> {
    let pattern = format!("{prefix}:*{{{}}}*", namespace.as_str());
    redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await.unwrap()
}

async fn commit(store: &RedisStore, writes: Vec<Write>) -> Result<Commit, StoreError> {
    match store.commit(&namespace("a"), &Txn { checks: vec![], writes, ..Txn::default() }).await? {
        Outcome::Committed(commit) => Ok(commit),
        Outcome::Refused(failed) => panic!("refused: {failed:?}"),
    }
}

/// Retries a commit until the store is back, which must not take long.
async fn commit_when_back(store: &RedisStore, writes: Vec<Write>) -> Commit {
    let gone = Instant::now();
    loop {
        match commit(store, writes.clone()).await {
            Ok(commit) => return commit,
            Err(StoreError::Unavailable(reason) | StoreError::Refusing(reason)) => {
                assert!(gone.elapsed() < Duration::from_secs(20), "{reason}")
            }
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
}

async fn sequences(store: &RedisStore) -> Vec<u64> {
    let found = store.range(&namespace("a"), "s", Range::after(0, 100_000)).await.unwrap();
    found.into_iter().map(|entry| entry.sequence).collect()
}

fn notification() -> Write {
    Write::Notify { topic: "t".to_owned(), by: 7 }
}

#[tokio::test]
async fn killed_server_with_fsync_keeps_every_acknowledged_commit() {
    let Some(mut server) = TestRedis::start_durable() else { return };
    let store = connect(&server).await;
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut answered = Vec::new();
                loop {
                    match commit(&store, vec![append("s", "x")]).await {
                        Ok(commit) => {
                            assert_eq!(commit.durability, Durability::Fsynced);
                            answered.extend(commit.appended[0]);
                        }
                        Err(_) => return answered,
                    }
                }
            })
        })
        .collect();
    while store.extents(&namespace("a"), &["s".to_owned()]).await.unwrap()[0].entries < 200 {
        tokio::task::yield_now().await;
    }
    server.kill();
    let answered: Vec<u64> = futures::future::join_all(writers).await.into_iter().flat_map(Result::unwrap).collect();
    let last = answered.iter().copied().max().unwrap();
    server.restart();
    let commit = commit_when_back(&store, vec![append("s", "after")]).await;
    let kept = sequences(&store).await;
    assert!(answered.iter().all(|sequence| kept.contains(sequence)));
    assert!(commit.appended[0].unwrap() > last && commit.durability == Durability::Fsynced);
    assert_eq!(kept, (1..=commit.appended[0].unwrap()).collect::<Vec<_>>());
}

#[tokio::test]
async fn durability_follows_the_servers_settings() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    assert_eq!(commit(&store, vec![notification()]).await.unwrap().durability, Durability::Applied);
    server.tell(&["CONFIG", "SET", "appendonly", "yes"]).await;
    server.tell(&["CONFIG", "SET", "appendfsync", "always"]).await;
    store.topology.check().await;
    assert_eq!(commit(&store, vec![notification()]).await.unwrap().durability, Durability::Fsynced);
}

#[tokio::test]
async fn missing_function_is_loaded_again() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    commit(&store, vec![append("s", "1")]).await.unwrap();
    server.tell(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(commit(&store, vec![append("s", "2")]).await.unwrap().appended, [Some(2)]);
    server.tell(&["FUNCTION", "FLUSH"]).await;
    assert_eq!(commit(&store, vec![remove("s", &[1])]).await.unwrap().removed, 1);
}

#[tokio::test]
async fn notifications_are_published_only_while_another_coordinator_listens() {
    let Some(server) = TestRedis::start() else { return };
    let published = async || {
        let stats = server.info("commandstats").await;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls="));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    let store = connect(&server).await;
    let mut notifications = store.notifications();
    commit(&store, vec![notification()]).await.unwrap();
    assert!(matches!(notifications.recv().await, Ok(Notification::Topic { by: 7, .. })));
    assert_eq!(published().await, 0);
    let other = connect(&server).await;
    let mut heard = other.notifications();
    commit(&store, vec![notification()]).await.unwrap();
    for notifications in [&mut notifications, &mut heard] {
        assert!(matches!(notifications.recv().await, Ok(Notification::Topic { by: 7, .. })));
    }
    assert_eq!(published().await, 1);
    drop(other);
    eventually("no other store listens", || async {
        let before = published().await;
        commit(&store, vec![notification()]).await.unwrap();
        published().await == before
    })
    .await;
}

#[tokio::test]
async fn killed_connections_and_subscriptions_are_restored() {
    let Some(server) = TestRedis::start() else { return };
    let (store, other) = (connect(&server).await, connect(&server).await);
    let mut notifications = store.notifications();
    for kind in ["normal", "pubsub"] {
        server.tell(&["CLIENT", "KILL", "TYPE", kind]).await;
        if kind == "pubsub" {
            // `All`, because some may have been lost.
            while notifications.recv().await.unwrap() != Notification::All {}
        }
        commit_when_back(&other, vec![notification()]).await;
        while notifications.recv().await.unwrap() == Notification::All {}
        sequences(&store).await;
        commit_when_back(&store, vec![append("s", "x")]).await;
    }
}

#[tokio::test]
async fn calls_wait_for_a_paused_server() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    commit(&store, vec![append("s", "1")]).await.unwrap();
    server.signal(Signal::SIGSTOP);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, vec![append("s", "2")]).await }
    });
    // The duration matters: longer than the connect timeout, shorter than the response timeout.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    server.signal(Signal::SIGCONT);
    assert_eq!(waiting.await.unwrap().unwrap().appended, [Some(2)]);
}

#[tokio::test]
async fn calls_fail_at_once_while_the_server_is_down() {
    let Some(mut server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    server.kill();
    let asked = Instant::now();
    for _ in 0..20 {
        let answers = futures::future::join_all((0..20).map(|_| commit(&store, vec![notification()]))).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Unavailable(_)))));
        assert!(matches!(store.now_ms().await, Err(StoreError::Unavailable(_))));
    }
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    server.restart();
    let mut notifications = store.notifications();
    commit_when_back(&store, vec![notification()]).await;
    while notifications.recv().await.unwrap() != Notification::All {}
}

#[tokio::test]
async fn full_server_refuses_growth_but_can_be_read_and_drained() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let settings = ["--save", "", "--maxmemory-policy", "noeviction"].map(ToOwned::to_owned);
        let Some(server) = TestRedis::with_all(flavor, || settings.to_vec()) else { continue };
        let store = connect(&server).await;
        let (a, key, other) = (namespace("a"), Key::new("member", "x"), Key::new("task", "y"));
        let lease = || Write::Lease { name: "l".to_owned(), ttl: Duration::from_secs(9) };
        let first = vec![append("s", "1"), append("s", "2"), put(&key, "1"), put(&other, "1"), lease()];
        let first = commit(&store, first).await.unwrap();
        server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await;

        let found = store.read(&a, &[key.clone(), other.clone()]).await.unwrap();
        assert_eq!(found.into_iter().flatten().count(), 2, "records of two kinds");
        let extents = store.extents(&a, &["s".to_owned(), "none".to_owned()]).await.unwrap();
        assert_eq!([extents[0].entries, extents[1].entries], [2, 0]);
        assert!(store.leases(&a).await.unwrap().until_ms.contains_key("l"));
        assert_eq!(store.scan(&a, "task", "", 9).await.unwrap().len(), 1);
        assert_eq!(sequences(&store).await, [1, 2]);

        for grows in [vec![append("s", "3"), remove("s", &[1])], vec![put(&key, "2")], vec![remember("k", "")]] {
            let error = commit(&store, grows).await.unwrap_err();
            assert!(matches!(error, StoreError::Full(_)), "{error}");
        }
        let cursor = remove("s", &[1]);
        assert_eq!(commit(&store, vec![cursor, put(&key, "cursor"), notification()]).await.unwrap().removed, 1);
        commit(&store, vec![lease()]).await.unwrap();
        let check = Check::Version { key: other.clone(), version: Some(first.version) };
        let replace = Txn { checks: vec![check], writes: vec![put(&other, "2")], ..Txn::default() };
        assert!(matches!(store.commit(&a, &replace).await.unwrap(), Outcome::Committed(_)));
        commit(&store, vec![append("s", "left"), Write::EndLease { name: "l".to_owned() }]).await.unwrap();
        commit(&store, vec![delete(&key)]).await.unwrap();
        assert_eq!(sequences(&store).await, [2, 3]);
        // A new connection cannot load the function, but must still free memory.
        let late = connect(&server).await;
        assert_eq!(commit(&late, vec![remove("s", &[2])]).await.unwrap().removed, 1);
        // Nor can a coordinator of another version, whose library the server has never seen.
        server.tell(&["FUNCTION", "FLUSH"]).await;
        let newer = connect(&server).await;
        assert!(matches!(newer.check_writable().await, Err(StoreError::Full(_))));
        assert!(matches!(commit(&newer, vec![append("s", "4")]).await, Err(StoreError::Full(_))));
        assert_eq!(commit(&newer, vec![remove("s", &[3]), notification()]).await.unwrap().removed, 1);
        let stale = Check::Version { key: other.clone(), version: Some(first.version) };
        let refused = Txn { checks: vec![stale], writes: vec![delete(&other)], ..Txn::default() };
        assert!(matches!(newer.commit(&a, &refused).await.unwrap(), Outcome::Refused(Failed::Version { .. })));
        server.tell(&["RENAME", "test:{a}:k:task", "test:{a}:s:t"]).await;
        let foreign = newer.commit(&a, &Txn { writes: vec![remove("t", &[1])], ..Txn::default() }).await;
        assert!(matches!(foreign, Err(StoreError::Corrupt(_))), "{foreign:?}");
        server.tell(&["RENAME", "test:{a}:s:t", "test:{a}:k:task"]).await;
        commit(&store, vec![Write::DropNamespace]).await.unwrap();
        server.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
        assert_eq!(commit(&store, vec![append("s", "1")]).await.unwrap().appended, [Some(1)]);
    }
}

#[tokio::test]
async fn read_only_replica_refuses_commits() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    commit(&store, vec![append("s", "1")]).await.unwrap();
    server.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    for _ in 0..2 {
        let error = commit(&store, vec![append("s", "2")]).await.unwrap_err();
        assert!(matches!(error, StoreError::Refusing(_)), "{error}");
    }
    server.tell(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(commit(&store, vec![append("s", "2")]).await.unwrap().appended, [Some(2)]);
}

#[tokio::test]
async fn check_tells_whether_a_commit_would_apply_and_leaves_nothing_behind() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let Some(server) = TestRedis::start_of(flavor) else { continue };
        let store = connect(&server).await;
        store.check_writable().await.unwrap();
        let keys: Vec<String> = redis::from_redis_value(server.tell(&["KEYS", "*"]).await).unwrap();
        assert_eq!(keys, ["test:{~store}:m"]);
        server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let error = store.check_writable().await.unwrap_err();
        assert!(matches!(&error, StoreError::Full(reason) if reason.contains("maxmemory")), "{error}");
        server.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
        store.check_writable().await.unwrap();
        server.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
        let error = store.check_writable().await.unwrap_err();
        assert!(matches!(error, StoreError::Refusing(_)), "{error}");
    }
}

#[tokio::test]
async fn store_of_a_newer_version_is_refused_and_said_to_be_newer() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let Some(server) = TestRedis::start_of(flavor) else { continue };
        drop(connect(&server).await);
        server.tell(&["HSET", "test:{~store}:m", "format", "2", "release", "9.8.7"]).await;
        let error = RedisStore::connect(&server.url(), PREFIX).await.unwrap_err();
        let StoreError::Unusable(text) = &error else { panic!("{error:?}") };
        for part in ["written by teamwire 9.8.7 in format 2", "up to format 1", "Upgrade teamwire"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[tokio::test]
async fn foreign_content_is_reported_and_nothing_is_written() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let (a, key) = (namespace("a"), Key::new("member", "x"));
    commit(&store, vec![append("s", "1"), append("t", "1")]).await.unwrap();
    server.tell(&["SET", "test:{a}:k:task", "a string"]).await;
    server.tell(&["SET", "test:{a}:l", "a string"]).await;
    server.tell(&["XADD", "test:{a}:s:foreign", "9-0", "f", "v"]).await;
    server.tell(&["DEL", "test:{a}:s:t"]).await;
    let lease = Write::Lease { name: "l".to_owned(), ttl: Duration::ZERO };
    for foreign in [put(&Key::new("task", "x"), ""), lease, append("foreign", ""), append("t", ""), remove("t", &[1])] {
        let error = commit(&store, vec![put(&key, "1"), append("s", "2"), foreign]).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    }
    let task = Key::new("task", "x");
    for keys in [&[task.clone()][..], &[task, key.clone()]] {
        let error = store.read(&a, keys).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    }
    assert!(matches!(store.scan(&a, "task", "", 9).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(store.leases(&a).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(store.range(&a, "foreign", Range::after(0, 9)).await, Err(StoreError::Corrupt(_))));
    assert_eq!(store.read(&a, &[key]).await.unwrap(), [None]);
    assert_eq!(sequences(&store).await, [1]);
    // Unreadable contents fail the first half of the function, so the second half writes nothing.
    server.tell(&["HSET", "test:{a}:m", "v", "not a number"]).await;
    let error = commit(&store, vec![append("s", "2")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn dropped_namespace_leaves_no_keys() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let lease = Write::Lease { name: "l".to_owned(), ttl: Duration::ZERO };
    let many = (0..1_500).map(|stream| Write::Append {
        stream: format!("s{stream}"),
        data: Bytes::new(),
        weight: 0,
        bound: None,
    });
    let mut writes: Vec<_> = many.collect();
    writes.extend([lease, put(&Key::new("member", "x"), ""), remember("k", "")]);
    commit(&store, writes).await.unwrap();
    commit(&store, vec![put(&Key::new("task", "new"), ""), Write::DropNamespace]).await.unwrap();
    let marker = Value::Array(vec![Value::BulkString(b"test:{~store}:m".to_vec())]);
    assert_eq!(server.tell(&["KEYS", "*"]).await, marker);
    // Late commits do not bring anything back.
    let late = vec![
        remove("s", &[1]),
        delete(&Key::new("member", "x")),
        Write::EndLease { name: "l".to_owned() },
        notification(),
    ];
    commit(&store, late).await.unwrap();
    assert_eq!(server.tell(&["KEYS", "*"]).await, marker);
}

#[tokio::test]
async fn idempotency_keys_expire_and_are_found_across_midnight() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    commit(&store, vec![remember("k", "today")]).await.unwrap();
    let today = store.now_ms().await.unwrap() / 86_400_000;
    let ledger = format!("test:{{a}}:d:{today}");
    let Value::Int(ttl_s) = server.tell(&["TTL", &ledger]).await else { panic!("no number") };
    assert!((24 * 3600..=49 * 3600).contains(&ttl_s), "{ttl_s}");
    for day in [today - 2, today - 1, today, today + 1] {
        server.tell(&["HSET", &format!("test:{{a}}:d:{day}"), &format!("from day {day}"), "x"]).await;
    }
    // The last day with keys before today according to the namespace, and whether yesterday's keys still count.
    for (last, yesterday) in [(today - 2, false), (today - 1, true)] {
        server.tell(&["HSET", "test:{a}:m", "e", &last.to_string()]).await;
        for _ in 0..2 {
            for (day, seen) in [(today - 2, false), (today - 1, yesterday), (today, true), (today + 1, false)] {
                let txn = Txn { checks: vec![Check::KeyUnused { key: format!("from day {day}") }], ..Txn::default() };
                let outcome = store.commit(&namespace("a"), &txn).await.unwrap();
                assert_eq!(matches!(outcome, Outcome::Refused(_)), seen, "day {day}, last used on day {last}");
            }
            // From here on, today is the last day with keys.
            commit(&store, vec![remember(&format!("after {last}"), "")]).await.unwrap();
            server.tell(&["HDEL", &ledger, &format!("after {last}")]).await;
        }
    }
}

#[tokio::test]
async fn versions_are_not_reused_after_a_server_lost_commits() {
    let Some(mut server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let mut last = 0;
    for _ in 0..3 {
        for _ in 0..100 {
            let version = commit_when_back(&store, vec![put(&Key::new("member", "x"), "")]).await.version;
            assert!(version > last);
            last = version;
        }
        server.kill();
        server.restart();
    }
}

#[tokio::test]
async fn passwords_work_and_never_appear_in_output() {
    let Some(server) = TestRedis::with(&["--save", "", "--requirepass", "hunter2"]) else { return };
    let address = server.url().replace("redis://", "");
    let url = format!("redis://:hunter2@{address}/3?protocol=resp3");
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    commit(&store, vec![append("s", "x"), put(&Key::new("member", "x"), "")]).await.unwrap();
    assert_eq!(store.scan(&namespace("a"), "member", "", 9).await.unwrap().len(), 1);
    assert!(!format!("{store:?}").contains("hunter2"));
    drop(server);
    let mut errors = vec![commit(&store, vec![notification()]).await.unwrap_err()];
    for wrong in [&url, "redis://:hunter2@", "redis://:hunter2@host:99999", "nonsense://:hunter2@host"] {
        errors.push(RedisStore::connect(wrong, PREFIX).await.unwrap_err());
    }
    for error in errors {
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error}");
    }
}

/// The rights that a careful administrator grants: no other keys or channels, and no commands that reveal server
/// settings.
#[tokio::test]
async fn user_with_minimal_rights_is_sufficient() {
    let Some(server) = TestRedis::start() else { return };
    let rights = ["~test:*", "&test:*", "+@all", "-@admin", "-@dangerous"];
    server.tell(&[&["ACL", "SETUSER", "teamwire", "on", ">p@ss"][..], &rights].concat()).await;
    let url = server.url().replace("redis://", "redis://teamwire:p%40ss@");
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    let mut notifications = store.notifications();
    assert_eq!(commit(&store, vec![append("s", "x"), notification()]).await.unwrap().durability, Durability::Applied);
    notifications.recv().await.unwrap();
    commit(&store, vec![Write::DropNamespace]).await.unwrap();
    server.tell(&["ACL", "SETUSER", "teamwire", "-fcall"]).await;
    let error = commit(&store, vec![append("s", "x")]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Misconfigured(text) if text.contains("NoPerm")), "{error}");
}

#[tokio::test]
async fn prefixes_separate_stores() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let other = RedisStore::connect(&server.url(), "other").await.unwrap();
    let (mut own, mut others) = (store.notifications(), other.notifications());
    commit(&store, vec![append("s", "x"), notification()]).await.unwrap();
    assert_eq!(sequences(&other).await, [0; 0]);
    commit(&other, vec![Write::Notify { topic: "of the other".to_owned(), by: 7 }]).await.unwrap();
    assert_eq!(
        others.recv().await,
        Ok(Notification::Topic { namespace: namespace("a"), topic: "of the other".to_owned(), by: 7 })
    );
    assert_eq!(own.recv().await, Ok(Notification::Topic { namespace: namespace("a"), topic: "t".to_owned(), by: 7 }));
    for wrong in ["", "with namespace", "{brace}", &"x".repeat(101)] {
        assert!(RedisStore::connect(&server.url(), wrong).await.is_err());
    }
}

/// A session may stop polling one call while it awaits another.
#[tokio::test]
async fn unpolled_call_does_not_block_others() {
    let Some(mut server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    server.kill();
    let is_lost = async { while store.now_ms().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(20), is_lost).await.unwrap();
    let mut calls: Vec<_> = (0..10).map(|_| store.now_ms()).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none(), "there is no connection yet");
    }
    server.restart();
    let back = commit_when_back(&store, vec![notification()]);
    tokio::time::timeout(Duration::from_secs(20), back).await.expect("it waits for a call that nobody polls");
    drop(calls);
}

#[tokio::test]
async fn namespace_of_a_release_without_usage_counts_is_counted_once() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let (a, key, empty) = (namespace("a"), Key::new("member", "x"), Key::new("task", "y"));
    commit(&store, vec![put(&key, "kept"), put(&empty, ""), append("s", "1"), append("s", "22")]).await.unwrap();
    commit(&store, vec![remember("k", ""), remove("s", &[1])]).await.unwrap();
    let before = store.usage(&a).await.unwrap();
    assert_eq!(before, 3 * 64 + 5 + 2 + 1);
    let mut connection = server.connection().await;
    let meta = store.keys.meta(&a);
    let mut forget = async || redis::cmd("HDEL").arg(&meta).arg("u").exec_async(&mut connection).await.unwrap();
    forget().await;
    assert_eq!(store.usage(&a).await.unwrap(), before);
    forget().await;
    let over = Txn { writes: vec![append("s", "x")], bytes_max: Some(before), ..Txn::default() };
    let refused = Outcome::Refused(crate::store::Failed::OverQuota { held: before });
    assert_eq!(store.commit(&a, &over).await.unwrap(), refused);
    commit(&store, vec![put(&key, "kept"), append("s", "x")]).await.unwrap();
    assert_eq!(store.usage(&a).await.unwrap(), before + 65);
    // Reading the usage of a namespace that is not there creates nothing.
    assert_eq!(store.usage(&namespace("never")).await.unwrap(), 0);
    assert_eq!(raw_keys(server.connection().await, PREFIX, namespace("never")).await, [""; 0]);
}

#[tokio::test]
async fn very_large_parts_of_a_namespace_are_estimated() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let a = namespace("a");
    for round in 0..12 {
        let puts = (0..1_000).map(|n| put(&Key::new("member", format!("{:06}", round * 1_000 + n)), "1234567890"));
        commit(&store, puts.chain((0..1_000).map(|_| append("s", "1234567890"))).collect()).await.unwrap();
    }
    let before = store.usage(&a).await.unwrap();
    assert_eq!(before, 12_000 * (80 + 74));
    let mut connection = server.connection().await;
    redis::cmd("HDEL").arg(store.keys.meta(&a)).arg("u").exec_async(&mut connection).await.unwrap();
    let estimated = store.usage(&a).await.unwrap();
    // Of the records, as many fields of versions as of data are expected among the fields that are counted, but not
    // exactly.
    assert!(estimated.abs_diff(before) < before / 10, "{estimated} instead of {before}");
}
