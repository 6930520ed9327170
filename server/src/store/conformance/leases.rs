//! Leases and the clock.

use super::*;

pub(in crate::store) async fn lease_is_alive_until_it_expires_or_is_ended(harness: Harness) {
    let namespace = namespace("a");
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", true)], vec![Write::EndLease { name: "l".to_owned() }]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", Duration::from_millis(20))]).await;
    let until_ms = harness.store.leases(&namespace).await.unwrap().until_ms["l"];
    harness.clock_passes(until_ms).await;
    harness.refused(&namespace, vec![lease_alive("l", true)], vec![]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![lease("l", LONG)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", true)], vec![lease("l", Duration::ZERO)]).await;
    harness.commit_if(&namespace, vec![lease_alive("l", false)], vec![]).await;
}

pub(in crate::store) async fn leases_include_expired_ones_but_not_ended_ones(harness: Harness) {
    let namespace = namespace("a");
    assert!(harness.store.leases(&namespace).await.unwrap().until_ms.is_empty());
    let commit = harness.commit(&namespace, vec![lease("long", LONG), lease("short", Duration::ZERO)]).await;
    let ended = vec![lease("ended", LONG), Write::EndLease { name: "ended".to_owned() }];
    harness.commit(&namespace, ended).await;
    let leases = harness.store.leases(&namespace).await.unwrap();
    assert!(leases.now_ms >= commit.at_ms);
    let expected = [("long".to_owned(), commit.at_ms + 600_000), ("short".to_owned(), commit.at_ms)];
    assert_eq!(leases.until_ms.into_iter().collect::<Vec<_>>(), expected);
}

pub(in crate::store) async fn clock_never_goes_backwards(harness: Harness) {
    let namespace = namespace("a");
    let mut last_ms = 0;
    for _ in 0..50 {
        let before_ms = harness.store.now_ms().await.unwrap();
        let commit = harness.commit(&namespace, vec![lease("l", LONG)]).await;
        let leases = harness.store.leases(&namespace).await.unwrap();
        assert!(last_ms <= before_ms && before_ms <= commit.at_ms && commit.at_ms <= leases.now_ms);
        last_ms = leases.now_ms;
    }
    assert!(last_ms > 1_700_000_000_000, "milliseconds since 1970");
}
