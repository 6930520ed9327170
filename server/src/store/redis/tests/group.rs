//! Tests of transactions that go to the server together.

use futures::future::{BoxFuture, join_all};

use super::*;
use crate::store::redis::group::CALLS_MAX;

type Committing = BoxFuture<'static, Result<Outcome, StoreError>>;

/// Starts commits in this order. The first two are sent at once; the others wait, because nothing else runs meanwhile,
/// and other commits take the remaining turns.
pub(super) async fn start(store: &Arc<RedisStore>, txns: Vec<Txn>) -> Vec<Committing> {
    let commit = |txn: Txn| {
        let store = store.clone();
        async move { store.commit(&namespace("a"), &txn).await }.boxed()
    };
    let others = (2..CALLS_MAX).map(|_| txn(vec![append("others", "x")]));
    let mut started: Vec<Committing> = others.chain(txns).map(commit).collect();
    for commit in &mut started {
        assert!(futures::poll!(commit).is_pending());
    }
    for other in started.drain(..CALLS_MAX - 2) {
        tokio::spawn(other);
    }
    started
}

pub(super) fn txn(writes: Vec<Write>) -> Txn {
    Txn { writes, ..Txn::default() }
}

/// Returns how many calls of a function the server has had.
pub(super) async fn calls(server: &TestRedis) -> u64 {
    let stats = server.info("commandstats").await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_fcall:calls=")).unwrap();
    calls.split(',').next().unwrap().parse().unwrap()
}

/// Returns the sequence of the first append.
pub(super) fn appended(outcome: Result<Outcome, StoreError>) -> Option<u64> {
    match outcome.unwrap() {
        Outcome::Committed(commit) => commit.appended[0],
        Outcome::Refused(failed) => panic!("refused: {failed:?}"),
    }
}

#[tokio::test]
async fn waiting_transactions_go_together_and_have_their_own_outcomes() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let Some(server) = TestRedis::start_of(flavor) else { continue };
        let store = connect(&server).await;
        let key = Key::new("member", "x");
        let version = commit(&store, vec![put(&key, "1"), append("s", "1")]).await.unwrap().version;
        let before = calls(&server).await;
        let replace = |version| Txn {
            checks: vec![Check::Version { key: key.clone(), version: Some(version) }],
            writes: vec![put(&key, "2"), append("s", "put")],
            ..Txn::default()
        };
        let quota = Txn { bytes_max: Some(1), ..txn(vec![append("s", "much")]) };
        let several = vec![
            txn(vec![append("s", "2")]),
            txn(vec![append("s", "3")]),
            txn(vec![append("s", "4"), remove("s", &[1])]),
            quota,
            replace(version),
            replace(version),
            txn(vec![append("s", "6"), remove("s", &[6, 2])]),
        ];
        let started = start(&store, several).await;
        let mut outcomes = join_all(started).await;
        assert_eq!(calls(&server).await, before + CALLS_MAX as u64 + 1);
        let last = outcomes.pop().unwrap();
        assert!(matches!(&last, Ok(Outcome::Committed(commit)) if commit.removed == 2), "{last:?}");
        let second = outcomes.pop().unwrap().unwrap();
        let Outcome::Refused(Failed::Version { current: Some(current), .. }) = second else { panic!("{second:?}") };
        assert_eq!(current.data, "2");
        let Outcome::Committed(first) = outcomes.pop().unwrap().unwrap() else { panic!("refused") };
        assert_eq!((first.version, first.appended), (current.version, vec![Some(5)]));
        let refused = outcomes.pop().unwrap().unwrap();
        assert!(matches!(refused, Outcome::Refused(Failed::OverQuota { .. })), "{refused:?}");
        assert_eq!(outcomes.into_iter().map(appended).collect::<Vec<_>>(), [Some(2), Some(3), Some(4)]);
        assert_eq!(sequences(&store).await, [3, 4, 5]);
    }
}

#[tokio::test]
async fn one_broken_key_fails_only_the_transaction_that_names_it() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    server.tell(&["SET", "test:{a}:s:broken", "x"]).await;
    let streams = ["s", "s", "s", "broken", "s"];
    let started = start(&store, streams.map(|stream| txn(vec![append(stream, "x")])).to_vec()).await;
    let mut outcomes = join_all(started).await;
    let broken = outcomes.remove(3);
    assert!(matches!(broken, Err(StoreError::Corrupt(_))), "{broken:?}");
    let mut sequences: Vec<_> = outcomes.into_iter().filter_map(appended).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_full_server_still_executes_what_frees_memory() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    commit(&store, vec![append("s", "1"), append("s", "2")]).await.unwrap();
    server.tell(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let writes = [remove("s", &[9]), remove("s", &[9]), append("s", "3"), remove("s", &[1]), append("s", "4")];
    let started = start(&store, writes.map(|write| txn(vec![write])).to_vec()).await;
    let outcomes = join_all(started).await;
    for refused in [2, 4] {
        assert!(matches!(outcomes[refused], Err(StoreError::Full(_))), "{:?}", outcomes[refused]);
    }
    assert!(matches!(&outcomes[3], Ok(Outcome::Committed(commit)) if commit.removed == 1), "{:?}", outcomes[3]);
    assert_eq!(sequences(&store).await, [2]);
}

#[tokio::test]
async fn callers_that_give_up_delay_no_one() {
    let Some(server) = TestRedis::start() else { return };
    let store = connect(&server).await;
    let mut started = start(&store, ["1", "2", "3", "4"].map(|data| txn(vec![append("s", data)])).to_vec()).await;
    // One that waits, then those that were sent.
    drop(started.remove(2));
    started.drain(..2);
    assert!(appended(started.remove(0).await).is_some());
    let kept = store.range(&namespace("a"), "s", Range::after(0, 9)).await.unwrap();
    assert!(kept.iter().any(|entry| entry.data == "4") && kept.iter().all(|entry| entry.data != "3"), "{kept:?}");
}
