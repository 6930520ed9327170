//! The store in a cluster.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;

use super::{
    super::{cluster::Cluster, group::CALLS_MAX},
    group::{appended, calls, start, txn},
    *,
};
use crate::store::{
    conformance::every_promise,
    test_redis::{TestCluster, eventually},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_keeps_every_promise() {
    let Some(cluster) = TestCluster::start().await else { return };
    let open = async |prefix: &'static str| {
        let url = cluster.url();
        let connections = futures::future::join_all(cluster.nodes.iter().map(TestRedis::connection)).await;
        let raw_keys = move |namespace: Namespace| {
            let asked: Vec<_> =
                connections.iter().map(|connection| raw_keys(connection.clone(), prefix, namespace.clone())).collect();
            async move { futures::future::join_all(asked).await.concat() }.boxed()
        };
        Harness {
            store: RedisStore::connect(&url, prefix).await.unwrap(),
            second: RedisStore::connect(&url, prefix).await.unwrap(),
            raw_keys: Box::new(raw_keys),
            _keeps: Box::new(()),
        }
    };
    every_promise!(open);
}

#[tokio::test]
async fn namespaces_spread_over_the_nodes_and_every_node_has_the_function() {
    let Some(cluster) = TestCluster::start().await else { return };
    let store = RedisStore::connect(&cluster.url(), PREFIX).await.unwrap();
    let mut notifications = store.notifications();
    let namespaces: Vec<Namespace> = (0..30).map(|at| namespace(&format!("team{at}"))).collect();
    let txn = Txn { checks: vec![], writes: vec![append("s", "x"), notification()], ..Txn::default() };
    for namespace in &namespaces {
        assert!(matches!(store.commit(namespace, &txn).await, Ok(Outcome::Committed(_))));
        // Regardless of the node that published it.
        assert_eq!(
            notifications.recv().await.unwrap(),
            Notification::Topic { namespace: namespace.clone(), topic: "t".to_owned(), by: 7 }
        );
    }
    for node in &cluster.nodes {
        assert_ne!(node.tell(&["KEYS", "*"]).await, Value::Array(vec![]));
        node.tell(&["FUNCTION", "FLUSH"]).await;
    }
    for namespace in &namespaces {
        let Outcome::Committed(commit) = store.commit(namespace, &txn).await.unwrap() else { panic!("refused") };
        assert_eq!(commit.appended, [Some(2)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_of_a_dead_node_continue_on_its_replica() {
    let Some(mut cluster) = TestCluster::start().await else { return };
    let node = cluster.owner(Cluster::slot("a")).await.unwrap();
    cluster.start_replica_of(node).await;
    // The slot map may come from the node that dies or from another one.
    let store = RedisStore::connect(&cluster.url(), PREFIX).await.unwrap();
    let mut losses = store.losses();
    for _ in 0..20 {
        commit(&store, vec![append("s", "x")]).await.unwrap();
    }
    eventually("the replica has it all", async || cluster.nodes[node].has_replica().await).await;
    cluster.nodes[node].kill();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { commit_when_back(&store, vec![append("s", "x")]).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!(sequences(&store).await.len() >= 28);
    store.loss_detector.check_all(&store.topology, &store.keys).await;
    assert!(losses.try_recv().is_err(), "the replica had it all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_migrates_under_a_steady_stream_of_commits() {
    let Some(cluster) = TestCluster::start().await else { return };
    let store = RedisStore::connect(&cluster.url(), PREFIX).await.unwrap();
    let mut losses = store.losses();
    let end = Arc::new(AtomicBool::new(false));
    // So many that transactions wait for each other, and go together.
    let writers: Vec<_> = (0..3 * CALLS_MAX)
        .map(|writer| {
            let (store, end) = (store.clone(), end.clone());
            tokio::spawn(async move {
                let mut answered = Vec::new();
                for number in 0.. {
                    if end.load(Ordering::Relaxed) {
                        break;
                    }
                    // Like a send, with a new stream now and then.
                    let key = format!("{writer}-{number}");
                    let stream = format!("new{}", number / 50);
                    let checks = vec![Check::KeyUnused { key: key.clone() }];
                    let remember = Write::RememberReply { key: key.clone(), data: Bytes::new() };
                    let record = Write::Put { key: Key::new("message", key), data: Bytes::new() };
                    let mut writes = vec![append("s", "x"), record, remember, append(&stream, "x"), notification()];
                    // Keys that vanish and come back.
                    let (name, rare) = (writer.to_string(), Key::new("rare", writer.to_string()));
                    match number % 4 {
                        0 => writes.extend([put(&rare, "x"), Write::Lease { name, ttl: Duration::from_secs(600) }]),
                        2 => writes.extend([delete(&rare), Write::EndLease { name }]),
                        _ => (),
                    }
                    let begun = Instant::now();
                    let outcome = store.commit(&namespace("a"), &Txn { checks, writes, ..Txn::default() }).await;
                    assert!(begun.elapsed() < Duration::from_secs(8), "it hung");
                    match outcome {
                        Ok(Outcome::Committed(commit)) => answered.push(commit.appended[0].unwrap()),
                        Ok(Outcome::Refused(failed)) => panic!("{failed:?}"),
                        Err(StoreError::Refusing(_)) => (),
                        Err(error) => panic!("{error}"),
                    }
                }
                answered
            })
        })
        .collect();
    let slot = Cluster::slot("a");
    let enough = |more: u64| {
        let store = &store;
        async move {
            let extents =
                |store: Arc<RedisStore>| async move { store.extents(&namespace("a"), &["s".to_owned()]).await };
            let begun = extents(store.clone()).await.unwrap()[0].entries;
            eventually("commits continue", async || extents(store.clone()).await.unwrap()[0].entries > begun + more)
                .await;
        }
    };
    enough(100).await;
    // Twice, so that the slot keeps moving.
    for _ in 0..2 {
        let from = cluster.owner(slot).await.unwrap();
        let to = (from + 1) % cluster.nodes.len();
        cluster.begin_move(slot, from, to).await;
        cluster.end_move(slot, from, to).await;
        enough(100).await;
    }
    end.store(true, Ordering::Relaxed);
    let answered = futures::future::join_all(writers).await.into_iter().flat_map(Result::unwrap);
    let (kept, mut answered) = (sequences(&store).await, answered.collect::<Vec<_>>());
    answered.sort_unstable();
    assert_eq!(kept, answered, "every commit that was answered is there, and no other");
    store.loss_detector.check_all(&store.topology, &store.keys).await;
    assert!(losses.try_recv().is_err(), "nothing was lost");
}

#[tokio::test]
async fn waiting_transactions_go_together_in_a_cluster_and_alone_while_their_slot_migrates() {
    let Some(cluster) = TestCluster::start().await else { return };
    let store = RedisStore::connect(&cluster.url(), PREFIX).await.unwrap();
    let slot = Cluster::slot("a");
    let from = cluster.owner(slot).await.unwrap();
    commit(&store, vec![append("s", "1"), append("others", "1")]).await.unwrap();
    let before = calls(&cluster.nodes[from]).await;
    let end = |name: &str| Write::EndLease { name: name.to_owned() };
    let outcomes =
        join_all(start(&store, ["2", "3", "4", "5", "6"].map(|data| txn(vec![append("s", data)])).to_vec()).await)
            .await;
    assert_eq!(calls(&cluster.nodes[from]).await, before + CALLS_MAX as u64 + 1);
    assert_eq!(outcomes.into_iter().filter_map(appended).count(), 5);

    let before = calls(&cluster.nodes[from]).await;
    let ending = ["7", "8", "9", "10", "11"].map(|data| txn(vec![append("s", data), end("x")])).to_vec();
    join_all(start(&store, ending).await).await;
    assert_eq!(calls(&cluster.nodes[from]).await, before + CALLS_MAX as u64 + 3, "what may empty a key goes alone");

    let to = (from + 1) % cluster.nodes.len();
    cluster.begin_move(slot, from, to).await;
    let streams = ["s", "s", "s", "new", "s"];
    let mut started = start(&store, streams.map(|stream| txn(vec![append(stream, "x")])).to_vec()).await;
    let mut waiting = started.remove(3);
    let sequences = join_all(started).await.into_iter().map(appended).max();
    assert_eq!(sequences, Some(Some(15)), "those that have all of their keys do not wait for the other");
    assert!(futures::poll!(&mut waiting).is_pending());
    cluster.end_move(slot, from, to).await;
    assert_eq!(appended(waiting.await), Some(1));
}

/// During a migration, every access to a key that is missing on the node fails. That must not tear a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transaction_in_a_migrating_slot_applies_completely_or_not_at_all() {
    let Some(cluster) = TestCluster::start().await else { return };
    let store = RedisStore::connect(&cluster.url(), PREFIX).await.unwrap();
    let (x, y, lease) = (Key::new("member", "x"), Key::new("member", "y"), |name: &str| name.to_owned());
    let live = |name: &str| Write::Lease { name: lease(name), ttl: Duration::from_secs(600) };
    commit(&store, vec![append("s", "1"), put(&x, "1"), live("x")]).await.unwrap();
    let slot = Cluster::slot("a");
    let from = cluster.owner(slot).await.unwrap();
    let to = (from + 1) % cluster.nodes.len();
    cluster.begin_move(slot, from, to).await;
    // This removes the only record and the only lease. Their hashes would vanish if the removals came before the
    // additions.
    let end = Write::EndLease { name: lease("x") };
    let renewed = vec![append("s", "2"), delete(&x), put(&y, "2"), end, live("y"), delete(&y), put(&y, "3")];
    assert_eq!(commit(&store, renewed).await.unwrap().appended, [Some(2)]);
    assert_eq!(store.leases(&namespace("a")).await.unwrap().until_ms.into_keys().collect::<Vec<_>>(), ["y"]);
    let members = store.scan(&namespace("a"), "member", "", 9).await.unwrap();
    assert_eq!(
        members.into_iter().map(|(id, record)| (id, record.data)).collect::<Vec<_>>(),
        [("y".into(), "3".into())]
    );
    // A missing key may be on the other node, so these wait.
    let waiting =
        [vec![append("s", "3"), append("new", "1")], vec![append("s", "4"), Write::DropNamespace]].map(|writes| {
            let store = store.clone();
            tokio::spawn(async move { commit(&store, writes).await })
        });
    // Long enough for a few retries.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    assert_eq!(sequences(&store).await, [1, 2]);
    cluster.end_move(slot, from, to).await;
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
}
