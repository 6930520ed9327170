//! Commits that wait for replicas.

use super::*;
use crate::store::test_redis::{Flavor, TestCluster};

async fn connect_for(server: &TestRedis, wanted: &str) -> Arc<RedisStore> {
    RedisStore::connect(&format!("{}?{wanted}", server.url()), PREFIX).await.unwrap()
}

/// Like a send.
fn send(key: &str) -> Txn {
    Txn {
        checks: vec![Check::KeyUnused { key: key.to_owned() }],
        writes: vec![append("s", "x"), remember_as(key)],
        ..Txn::default()
    }
}

fn remember_as(key: &str) -> Write {
    Write::RememberReply { key: key.to_owned(), data: Bytes::from_static(b"the first answer") }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_is_acknowledged_only_once_the_replica_has_it() {
    let Some(primary) = TestRedis::start() else { return };
    let Some(replica) = TestRedis::start_replica_of(&primary).await else { return };
    // One store waits long, for acknowledgements that must come; the other briefly, for ones that cannot.
    let patient = connect_for(&primary, "replicas=1&wait=30s").await;
    let store = connect_for(&primary, "replicas=1&wait=300ms").await;
    let a = namespace("a");
    assert_eq!(commit(&patient, vec![append("s", "x")]).await.unwrap().durability, Durability::Replicated);
    // Read at once, without waiting.
    assert_eq!(replica.tell(&["XLEN", "test:{a}:s:s"]).await, Value::Int(1));
    assert_eq!(primary.tell(&["EXISTS", "test:{a}:w"]).await, Value::Int(0), "the mark leaves nothing");

    replica.signal(Signal::SIGSTOP);
    for _ in 0..2 {
        let begun = Instant::now();
        let error = store.commit(&a, &send("k")).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::DurabilityNotReached(text) if text.contains("0 of 1 replicas")),
            "{error}"
        );
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    }
    // The commit was applied once, and commits that only free memory do not wait.
    assert_eq!(sequences(&store).await, [1, 2]);
    let freed = commit(&store, vec![remove("s", &[1])]).await.unwrap();
    assert_eq!((freed.removed, freed.durability), (1, Durability::Applied));

    replica.signal(Signal::SIGCONT);
    let again = patient.commit(&a, &send("k")).await;
    assert_eq!(again, Ok(Outcome::Refused(Failed::KeyUsed { data: Bytes::from_static(b"the first answer") })));
    assert_eq!(commit(&patient, vec![append("s", "x")]).await.unwrap().durability, Durability::Replicated);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commits_share_one_wait_and_block_no_one() {
    let Some(primary) = TestRedis::start() else { return };
    let Some(replica) = TestRedis::start_replica_of(&primary).await else { return };
    let store = connect_for(&primary, "replicas=1&wait=5s").await;
    commit(&store, vec![append("s", "x")]).await.unwrap();
    replica.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { commit(&store, vec![append("s", "x")]).await })
        })
        .collect();
    while sequences(&store).await.len() <= 200 {}
    // All commits were applied while all of them wait.
    assert!(calls.iter().all(|call| !call.is_finished()), "calls waited for those who wait: {:?}", begun.elapsed());
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(StoreError::DurabilityNotReached(_))));
    }
    // The current round and the next one, not one round per commit.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    replica.signal(Signal::SIGCONT);
}

/// A server with a new history confirms nothing about commits before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_a_new_history_does_not_confirm_earlier_commits() {
    let Some(primary) = TestRedis::start() else { return };
    let Some(_replica) = TestRedis::start_replica_of(&primary).await else { return };
    let store = connect_for(&primary, "replicas=1&wait=10s").await;
    commit(&store, vec![append("s", "x")]).await.unwrap();
    // Briefly a replica, then a primary again: a new history on the same connections.
    primary.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    primary.tell(&["REPLICAOF", "NO", "ONE"]).await;
    let error = commit(&store, vec![append("s", "x")]).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::DurabilityNotReached(text) if text.contains("replication history has changed")),
        "{error}"
    );
    store.topology.check().await;
    let begun = Instant::now();
    while commit(&store, vec![append("s", "x")]).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the replica follows again");
    }
}

#[tokio::test]
async fn every_cluster_node_waits_for_its_own_replicas() {
    let Some(cluster) = TestCluster::start().await else { return };
    let url = format!("{}?replicas=1&wait=50ms", cluster.url());
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        let txn = Txn { checks: vec![], writes: vec![append("s", "x")], ..Txn::default() };
        let error = store.commit(&namespace(name), &txn).await.unwrap_err();
        assert!(matches!(&error, StoreError::DurabilityNotReached(text) if text.contains("0 of 1")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_fsync_a_commit_is_on_the_replicas_disks() {
    let durable = |more: Vec<String>| {
        let settings = ["--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0"].map(str::to_owned);
        TestRedis::with_all(Flavor::Valkey, || [settings.to_vec(), more.clone()].concat())
    };
    let Some(primary) = durable(Vec::new()) else { return };
    let follow = ["--replicaof".to_owned(), "127.0.0.1".to_owned(), primary.port().to_string()];
    let Some(replica) = durable(follow.to_vec()) else { return };
    let store = connect_for(&primary, "replicas=1&wait=30s&fsync=yes").await;
    let begun = Instant::now();
    while commit(&store, vec![append("s", "x")]).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the replica follows");
    }
    assert_eq!(commit(&store, vec![append("s", "x")]).await.unwrap().durability, Durability::Replicated);
    // A replica without an append-only file does not count.
    replica.tell(&["CONFIG", "SET", "appendonly", "no"]).await;
    let hasty = connect_for(&primary, "replicas=1&wait=300ms&fsync=yes").await;
    let error = hasty.commit(&namespace("a"), &send("k")).await.unwrap_err();
    assert!(matches!(&error, StoreError::DurabilityNotReached(text) if text.contains("0 of 1 replicas")), "{error}");
    // Without WAITAOF, the wait never succeeds.
    let Some(old) = TestRedis::start() else { return };
    let store = connect_for(&old, "replicas=1&wait=300ms&fsync=yes").await;
    let error = store.commit(&namespace("a"), &send("k")).await.unwrap_err();
    assert!(matches!(&error, StoreError::DurabilityNotReached(_)), "{error}");
}
