//! The store behind Sentinels.

use super::*;
use crate::store::test_redis::{TestSentinel, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_follows_sentinels_to_the_new_primary() {
    let Some(mut primary) = TestRedis::start() else { return };
    let Some(replica) = TestRedis::start_replica_of(&primary).await else { return };
    let Some(sentinel) = TestSentinel::start(&primary, 1).await else { return };
    // The first Sentinel does not answer, which must not matter.
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/{}", sentinel.port(), TestSentinel::SERVICE);
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    assert!(format!("{store:?}").contains(&primary.port().to_string()));
    let mut notifications = store.notifications();
    for at in 1..=50 {
        assert_eq!(commit(&store, vec![append("s", "x")]).await.unwrap().appended, [Some(at)]);
    }
    eventually("the replica has it all", async || primary.has_replica().await).await;
    // Many concurrent calls, none of which may hang.
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { commit_when_back(&store, vec![append("s", "x"), notification()]).await })
        })
        .collect();
    primary.kill();
    let after = commit_when_back(&store, vec![append("s", "after"), notification()]).await;
    for call in calls {
        call.await.unwrap();
    }
    assert!(after.appended[0].unwrap() > 50);
    assert!(sequences(&store).await.len() > 50);
    assert!(format!("{store:?}").contains(&replica.port().to_string()));
    while notifications.recv().await.unwrap() != Notification::All {}
    // Both servers run now, and the old primary follows the new one. No commit may go to it.
    primary.restart();
    for _ in 0..50 {
        commit(&store, vec![append("s", "x")]).await.unwrap();
    }
    assert!(format!("{store:?}").contains(&replica.port().to_string()));
}

#[tokio::test]
async fn store_leaves_a_primary_that_was_replaced_without_dying() {
    let Some(primary) = TestRedis::start() else { return };
    let Some(replica) = TestRedis::start_replica_of(&primary).await else { return };
    let Some(sentinel) = TestSentinel::start(&primary, 1).await else { return };
    let url = format!("redis+sentinel://127.0.0.1:{}/{}", sentinel.port(), TestSentinel::SERVICE);
    let store = RedisStore::connect(&url, PREFIX).await.unwrap();
    commit(&store, vec![append("s", "x")]).await.unwrap();
    eventually("the Sentinel may change over", async || sentinel.fail_over().await).await;
    eventually("the store has changed over", async || {
        store.topology.check().await;
        format!("{store:?}").contains(&replica.port().to_string())
    })
    .await;
    commit_when_back(&store, vec![append("s", "x")]).await;
}

#[tokio::test]
async fn unknown_service_is_reported() {
    let Some(primary) = TestRedis::start() else { return };
    let Some(sentinel) = TestSentinel::start(&primary, 0).await else { return };
    for (url, reason) in [
        (format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port()), "it knows no such service"),
        (format!("redis+sentinel://127.0.0.1:1/{}", TestSentinel::SERVICE), "the primary of main is not known"),
    ] {
        let error = RedisStore::connect(&url, PREFIX).await.unwrap_err();
        assert!(matches!(&error, StoreError::Unavailable(text) if text.contains(reason)), "{error}");
    }
}
