//! Acknowledged commits that were lost are detected; nothing else is reported.

use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::store::{
    Loss,
    test_redis::{TestSentinel, eventually},
};

/// Waits for a loss to be detected, which must not take long.
async fn found(losses: &mut broadcast::Receiver<Loss>) -> Loss {
    tokio::time::timeout(Duration::from_secs(20), losses.recv()).await.expect("it is found").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_the_new_primary_lacked_are_reported_lost() {
    let Some(mut primary) = TestRedis::start() else { return };
    let Some(replica) = TestRedis::start_replica_of(&primary).await else { return };
    let Some(sentinel) = TestSentinel::start(&primary, 1).await else { return };
    let url = format!("redis+sentinel://127.0.0.1:{}/{}", sentinel.port(), TestSentinel::SERVICE);
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    let mut losses = store.losses();
    let other = Txn { checks: vec![], writes: vec![append("s", "x")], ..Txn::default() };
    store.commit(&namespace("kept"), &other).await.unwrap();
    let kept = commit(&store, vec![append("s", "1")]).await.unwrap();
    eventually("the replica has it all", async || primary.has_replica().await).await;
    // The paused replica cannot reconnect, and nothing is left in its socket.
    replica.signal(Signal::SIGSTOP);
    primary.tell(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    commit(&store, vec![append("s", "2")]).await.unwrap();
    let lost = commit(&store, vec![append("s", "3")]).await.unwrap();
    primary.kill();
    replica.signal(Signal::SIGCONT);
    let after = commit_when_back(&store, vec![append("s", "2")]).await;
    assert_eq!(after.appended, [Some(2)], "it was lost");
    let expected = Loss { namespace: namespace("a"), acknowledged: lost.version, found: kept.version, generation: 1 };
    assert_eq!(found(&mut losses).await, expected);
    store.loss_detector.check_all(&store.topology, &store.keys).await;
    assert_eq!(losses.try_recv(), Err(TryRecvError::Empty), "once, and of no other namespace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loss_is_detected_despite_later_commits_and_counted_once() {
    // After a restart the server has only what it saved.
    let Some(mut server) = TestRedis::with(&["--save", "", "--appendonly", "no"]) else { return };
    let (store, witness) = (connect(&server).await, connect(&server).await);
    let (mut losses, mut witnessed) = (store.losses(), witness.losses());
    let mut writes = 0;
    for generation in 1..=2 {
        let kept = commit_when_back(&store, vec![append("s", "kept")]).await;
        server.tell(&["SAVE"]).await;
        let first = commit(&store, vec![append("s", "lost")]).await.unwrap();
        let last = commit_when_back(&witness, vec![append("s", "lost")]).await;
        server.kill();
        server.restart();
        // A third store, which knows nothing, commits before them.
        let third = connect(&server).await;
        for _ in 0..50 {
            writes += 1;
            commit(&third, vec![append("s", "later")]).await.unwrap();
        }
        for (losses, acknowledged) in [(&mut losses, first.version), (&mut witnessed, last.version)] {
            let expected = Loss { namespace: namespace("a"), acknowledged, found: kept.version, generation };
            assert_eq!(found(losses).await, expected);
        }
    }
    assert_eq!(sequences(&store).await.len(), writes + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_comes_back_empty_lost_everything_not_dropped() {
    let Some(mut server) = TestRedis::start() else { return };
    let (store, other) = (connect(&server).await, connect(&server).await);
    let mut losses = store.losses();
    let txn = |write: Write| Txn { checks: vec![], writes: vec![write], ..Txn::default() };
    for name in ["dropped", "own"] {
        store.commit(&namespace(name), &txn(append("s", "x"))).await.unwrap();
    }
    let lost = commit(&store, vec![append("s", "x")]).await.unwrap();
    store.commit(&namespace("own"), &txn(Write::DropNamespace)).await.unwrap();
    other.commit(&namespace("dropped"), &txn(Write::DropNamespace)).await.unwrap();
    eventually("the drop is received", async || !store.loss_detector.tracks(&namespace("dropped"))).await;
    server.kill();
    server.restart();
    let expected = Loss { namespace: namespace("a"), acknowledged: lost.version, found: 0, generation: 0 };
    assert_eq!(found(&mut losses).await, expected);
    store.loss_detector.check_all(&store.topology, &store.keys).await;
    assert_eq!(losses.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_keeps_acknowledged_commits_is_never_reported() {
    let Some(mut server) = TestRedis::start_durable() else { return };
    let store = connect(&server).await;
    let mut losses = store.losses();
    let key = Key::new("member", "x");
    for round in 0..3 {
        for _ in 0..20 {
            commit_when_back(&store, vec![append("s", "x"), put(&key, "x")]).await;
        }
        // End with a commit that leaves little behind.
        let last = match round {
            0 => vec![notification()],
            1 => vec![delete(&key)],
            _ => vec![remove("s", &[1])],
        };
        commit(&store, last).await.unwrap();
        match round {
            0 => drop(server.tell(&["CLIENT", "KILL", "TYPE", "normal"]).await),
            _ => {
                server.kill();
                server.restart();
            }
        }
        commit_when_back(&store, vec![notification()]).await;
        store.loss_detector.check_all(&store.topology, &store.keys).await;
        assert_eq!(losses.try_recv(), Err(TryRecvError::Empty));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emptied_server_lost_everything_even_if_namespaces_are_recreated_at_once() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let Some(server) = TestRedis::start_of(flavor) else { continue };
        let store = connect(&server).await;
        let mut losses = store.losses();
        let txn = |write: Write| Txn { checks: vec![], writes: vec![write], ..Txn::default() };
        let mut acknowledged = Vec::new();
        for name in ["gone", "recreated"] {
            store.commit(&namespace(name), &txn(append("s", "x"))).await.unwrap();
            let Outcome::Committed(last) = store.commit(&namespace(name), &txn(append("s", "x"))).await.unwrap() else {
                panic!("refused")
            };
            acknowledged.push((namespace(name), last.version, 0));
        }
        store.commit(&namespace("dropped"), &txn(append("s", "x"))).await.unwrap();
        store.commit(&namespace("dropped"), &txn(Write::DropNamespace)).await.unwrap();
        server.tell(&["FLUSHALL"]).await;
        // Before the coordinator can know, under the old history.
        for _ in 0..2 {
            store.commit(&namespace("recreated"), &txn(append("s", "x"))).await.unwrap();
        }
        let mut reported = vec![found(&mut losses).await, found(&mut losses).await];
        reported.sort_by(|one, other| one.namespace.cmp(&other.namespace));
        let reported: Vec<_> =
            reported.into_iter().map(|loss| (loss.namespace, loss.acknowledged, loss.found)).collect();
        assert_eq!(reported, acknowledged);
        store.loss_detector.check_all(&store.topology, &store.keys).await;
        assert_eq!(losses.try_recv(), Err(TryRecvError::Empty), "once, and nothing that was dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_that_another_store_dropped_and_recreated_is_not_lost() {
    let Some(server) = TestRedis::start() else { return };
    let (store, other) = (connect(&server).await, connect(&server).await);
    let mut losses = store.losses();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    commit(&other, vec![Write::DropNamespace]).await.unwrap();
    commit(&other, vec![append("s", "x")]).await.unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    store.loss_detector.check_all(&store.topology, &store.keys).await;
    assert_eq!(losses.try_recv(), Err(TryRecvError::Empty));
}
