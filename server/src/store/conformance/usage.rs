//! How many bytes a namespace holds, and how many it may hold.

use super::*;

/// What an item counts besides its contents, for any store.
const ITEM: u64 = 64;

fn at_most(bytes_max: u64, writes: Vec<Write>) -> Txn {
    Txn { writes, bytes_max: Some(bytes_max), ..Txn::default() }
}

pub(in crate::store) async fn usage_counts_records_entries_and_replies(harness: Harness) {
    let (namespace, other, key) = (namespace("a"), namespace("b"), Key::new("member", "id"));
    assert_eq!(harness.usage(&namespace).await, 0);
    harness.commit(&namespace, vec![put(&key, "12345")]).await;
    assert_eq!(harness.usage(&namespace).await, ITEM + 7);
    harness.commit(&namespace, vec![append("s", "123"), append("s", "")]).await;
    assert_eq!(harness.usage(&namespace).await, 3 * ITEM + 10);
    harness.commit_if(&namespace, vec![key_unused("key")], vec![remember("key", "12"), lease("l", LONG)]).await;
    let all = 4 * ITEM + 15;
    assert_eq!(harness.usage(&namespace).await, all, "leases count nothing");
    assert_eq!(harness.second.usage(&namespace).await.unwrap(), all);

    harness.commit(&namespace, vec![put(&key, "1")]).await;
    assert_eq!(harness.usage(&namespace).await, all - 4);
    harness.commit(&namespace, vec![put(&key, "123456789")]).await;
    assert_eq!(harness.usage(&namespace).await, all + 4);
    harness.commit(&namespace, vec![delete(&key), delete(&key), remove("s", &[1, 1, 9])]).await;
    assert_eq!(harness.usage(&namespace).await, all - 2 * ITEM - 7 - 3);
    harness.refused(&namespace, vec![at(&key, Some(1))], vec![put(&key, "refused")]).await;
    assert_eq!(harness.usage(&namespace).await, all - 2 * ITEM - 7 - 3);
    assert_eq!(harness.usage(&other).await, 0);
    harness.commit(&namespace, vec![put(&key, "x"), Write::DropNamespace]).await;
    assert_eq!(harness.usage(&namespace).await, 0);
}

pub(in crate::store) async fn usage_counts_what_is_left_after_all_writes(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "id"));
    let other = Key::new("task", "id");
    let churn = || vec![put(&key, "12"), put(&key, "1234"), delete(&key), put(&key, "1"), delete(&other)];
    harness.commit_if(&namespace, vec![at(&key, None)], churn()).await;
    assert_eq!(harness.usage(&namespace).await, ITEM + 3);
    harness.commit(&namespace, churn()).await;
    assert_eq!(harness.usage(&namespace).await, ITEM + 3);
    // Two kinds can share an id. A record without data counts nothing.
    harness.commit(&namespace, vec![put(&other, ""), append("s", "12"), remove("s", &[1])]).await;
    assert_eq!(harness.usage(&namespace).await, ITEM + 3);
    harness.commit(&namespace, vec![put(&other, "12"), put(&key, ""), append("s", "1"), remove("s", &[2, 3])]).await;
    assert_eq!(harness.usage(&namespace).await, ITEM + 4);
    let skipped = weighed("s", "skipped", 1, bound(0, 0, WhenFull::Skip));
    harness.commit(&namespace, vec![skipped, delete(&other)]).await;
    assert_eq!(harness.usage(&namespace).await, 0);
}

pub(in crate::store) async fn quota_refuses_only_what_adds_beyond_it(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "id"));
    let fits = ITEM + 5;
    assert!(harness.try_commit(&namespace, &at_most(fits, vec![put(&key, "123")])).await.is_ok());
    let over = Failed::OverQuota { held: fits };
    for adds in [vec![put(&key, "1234")], vec![append("s", "")], vec![delete(&key), append("s", "123456")]] {
        assert_eq!(harness.try_commit(&namespace, &at_most(fits, adds)).await, Err(over.clone()));
    }
    let remembers = Txn { checks: vec![key_unused("k")], ..at_most(fits, vec![remember("k", "")]) };
    assert_eq!(harness.try_commit(&namespace, &remembers).await, Err(over));
    assert_eq!(harness.usage(&namespace).await, fits);
    // What replaces, frees or counts nothing is applied, however full the namespace is.
    for harmless in [
        vec![put(&key, "321"), lease("l", LONG)],
        vec![put(&key, "1"), append("s", "x"), remove("s", &[1])],
        vec![delete(&key)],
    ] {
        assert!(harness.try_commit(&namespace, &at_most(0, harmless)).await.is_ok());
    }
    assert_eq!(harness.usage(&namespace).await, 0);
    assert!(harness.try_commit(&namespace, &at_most(ITEM, vec![append("s", "")])).await.is_ok());
}

pub(in crate::store) async fn quota_is_evaluated_last_and_refuses_the_whole_transaction(harness: Harness) {
    let (namespace, key) = (namespace("a"), Key::new("member", "id"));
    harness
        .commit_if(&namespace, vec![key_unused("k")], vec![put(&key, "1"), append("s", "1"), remember("k", "")])
        .await;
    let before = harness.everything(&namespace, &["member", "task"], &["s", "t"]).await;
    let held = harness.usage(&namespace).await;
    let adds = || {
        let writes = vec![put(&key, "2"), remove("s", &[1]), append("s", "2"), append("t", "3"), lease("l", LONG)];
        at_most(held, writes)
    };
    assert_eq!(harness.try_commit(&namespace, &adds()).await, Err(Failed::OverQuota { held }));
    assert_eq!(harness.everything(&namespace, &["member", "task"], &["s", "t"]).await, before);
    let used = Txn { checks: vec![key_unused("k")], ..adds() };
    assert_eq!(harness.try_commit(&namespace, &used).await, Err(Failed::KeyUsed { data: Bytes::new() }));
    let mut full = adds();
    full.writes.push(weighed("s", "", 1, bound(0, 0, WhenFull::Refuse)));
    assert_eq!(harness.try_commit(&namespace, &full).await, Err(Failed::Full { stream: "s".to_owned() }));
    let fits = Txn { bytes_max: Some(held + ITEM + 1), ..adds() };
    assert!(harness.try_commit(&namespace, &fits).await.is_ok());
    assert_eq!(harness.entries(&namespace, "s").await, [(2, text("2"))], "refused appends use up no sequence");
}

pub(in crate::store) async fn concurrent_commits_never_exceed_the_quota(harness: Harness) {
    let namespace = namespace("a");
    let quota = 20 * (ITEM + 1);
    let appends = (0..60).map(|task| {
        let store = if task % 2 == 0 { harness.store.clone() } else { harness.second.clone() };
        let namespace = namespace.clone();
        tokio::spawn(async move { store.commit(&namespace, &at_most(quota, vec![append("s", "x")])).await.unwrap() })
    });
    let outcomes = futures::future::join_all(appends.collect::<Vec<_>>()).await;
    let applied = outcomes.into_iter().filter(|outcome| matches!(outcome, Ok(Outcome::Committed(_)))).count();
    assert_eq!((applied, harness.usage(&namespace).await), (20, quota));
}

impl Harness {
    pub(super) async fn usage(&self, namespace: &Namespace) -> u64 {
        self.store.usage(namespace).await.unwrap()
    }

    async fn try_commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Commit, Failed> {
        match self.store.commit(namespace, txn).await.unwrap() {
            Outcome::Committed(commit) => Ok(commit),
            Outcome::Refused(failed) => Err(failed),
        }
    }
}

/// Plants bugs into the counting of a store: the promises must find each.
mod planted {
    use futures::{FutureExt as _, future::BoxFuture};

    use super::*;
    use crate::store::{StoreError, StoreLayer, model::ModelStore};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Bug {
        None,
        /// The store ignores the quota.
        IgnoresTheQuota,
        /// It refuses what adds nothing, too.
        RefusesEverything,
        /// It counts replaced records twice.
        ForgetsWhatIsReplaced,
        /// It does not count replies.
        RepliesAreFree,
        /// It checks the quota before the other checks.
        ChecksTheQuotaFirst,
    }

    #[derive(Debug)]
    struct Miscounting {
        store: std::sync::Arc<ModelStore>,
        bug: Bug,
    }

    impl StoreLayer for Miscounting {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
            let mut txn = txn.clone();
            let held = self.store.usage(namespace).await?;
            let is_over = txn.bytes_max.is_some_and(|max| held >= max);
            match self.bug {
                Bug::IgnoresTheQuota => txn.bytes_max = None,
                Bug::RefusesEverything | Bug::ChecksTheQuotaFirst
                    if is_over && (self.bug == Bug::RefusesEverything || !txn.checks.is_empty()) =>
                {
                    return Ok(Outcome::Refused(Failed::OverQuota { held }));
                }
                Bug::ForgetsWhatIsReplaced => {
                    let puts: Vec<_> = txn.writes.iter().filter(|write| matches!(write, Write::Put { .. })).collect();
                    let more = puts.iter().map(|_| append("miscounted", "")).collect::<Vec<_>>();
                    txn.writes.extend(more);
                }
                Bug::RepliesAreFree => txn.writes.retain(|write| !matches!(write, Write::RememberReply { .. })),
                _ => {}
            }
            self.store.commit(namespace, &txn).await
        }
    }

    fn harness(bug: Bug) -> Harness {
        let store: std::sync::Arc<dyn Store> = std::sync::Arc::new(Miscounting { store: ModelStore::new(), bug });
        let raw_keys = |_| std::future::ready(Vec::new()).boxed();
        Harness { second: store.clone(), store, raw_keys: Box::new(raw_keys), _keeps: Box::new(()) }
    }

    #[tokio::test]
    async fn every_bug_in_counting_breaks_a_promise() {
        type Promise = fn(Harness) -> BoxFuture<'static, ()>;
        let promises: [Promise; 5] = [
            |harness| usage_counts_records_entries_and_replies(harness).boxed(),
            |harness| usage_counts_what_is_left_after_all_writes(harness).boxed(),
            |harness| quota_refuses_only_what_adds_beyond_it(harness).boxed(),
            |harness| quota_is_evaluated_last_and_refuses_the_whole_transaction(harness).boxed(),
            |harness| concurrent_commits_never_exceed_the_quota(harness).boxed(),
        ];
        for bug in [
            Bug::None,
            Bug::IgnoresTheQuota,
            Bug::RefusesEverything,
            Bug::ForgetsWhatIsReplaced,
            Bug::RepliesAreFree,
            Bug::ChecksTheQuotaFirst,
        ] {
            let mut broken = 0;
            for promise in promises {
                broken += usize::from(tokio::spawn(promise(harness(bug))).await.is_err());
            }
            assert_eq!(broken > 0, bug != Bug::None, "{bug:?}");
        }
    }
}
