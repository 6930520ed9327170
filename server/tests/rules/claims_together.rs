//! Claims that wait for their turn on a board are carried out together, and each gets the outcome that it would get
//! alone.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use futures::future::join_all;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, TaskStatus},
};
use teamwire_server::store::{Store, StoreError, StoreLayer, embedded::EmbeddedStore, redis::RedisStore};
use tokio::{sync::Semaphore, task::yield_now};

use crate::{board::*, team::*, test_redis::TestRedis};

/// A store that counts commits, can hold them up, and can fail them.
#[derive(Debug)]
struct Gate {
    store: Arc<dyn Store>,
    open: Semaphore,
    commits: AtomicUsize,
    fails: AtomicBool,
}

impl Gate {
    fn before(store: Arc<dyn Store>) -> Arc<Self> {
        let open = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Self { store, open, commits: AtomicUsize::new(0), fails: AtomicBool::new(false) })
    }

    fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }
}

impl StoreLayer for Gate {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if operation == "commit" {
            self.commits.fetch_add(1, Ordering::SeqCst);
            let _permit = self.open.acquire().await;
            // A store never answers at once.
            yield_now().await;
            if self.fails.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("the gate fails".to_owned()));
            }
        }
        call.await
    }
}

type Claimed = Result<Option<v1::Claim>, Refusal>;

fn request(key: &str) -> v1::ClaimNextTaskRequest {
    v1::ClaimNextTaskRequest { idempotency_key: key.to_owned(), wait: None }
}

fn id(claimed: &Claimed) -> Option<u64> {
    claimed.as_ref().unwrap().as_ref().map(|claim| claim.task.as_ref().unwrap().id)
}

/// Makes claims of which all but the first wait for the first one's commit. Returns their outcomes, and how many
/// commits they took.
async fn together(t: &Team, gate: &Gate, calls: &[(&Member, &str)]) -> (Vec<Claimed>, usize) {
    let before = gate.commits();
    let claims = calls.iter().map(|(member, key)| async move {
        let request = request(key);
        t.coordinator.claim_next_task(&member.who, &request).await
    });
    let outcomes = join_all(claims).await;
    (outcomes, gate.commits() - before)
}

async fn gated() -> (Team, Arc<Gate>) {
    let gate = Gate::before(EmbeddedStore::in_memory().unwrap());
    (Team::on(gate.clone(), |_| {}).await, gate)
}

async fn members(t: &Team, count: usize) -> Vec<Member> {
    let mut members = Vec::new();
    for number in 0..count {
        members.push(t.join(&format!("worker-{number}")).await);
    }
    members
}

#[tokio::test]
async fn claims_that_wait_take_one_commit_and_each_gets_its_own_task() {
    let server = TestRedis::start();
    let mut stores: Vec<Arc<dyn Store>> = vec![EmbeddedStore::in_memory().unwrap()];
    if let Some(server) = &server {
        stores.push(RedisStore::connect(&server.url(), "test").await.unwrap());
    }
    for store in stores {
        let gate = Gate::before(store);
        let t = Team::on(gate.clone(), |_| {}).await;
        let members = members(&t, 17).await;
        t.add_some(14).await;
        t.add(task_for("worker-5")).await;
        let calls: Vec<_> = members.iter().map(|member| (member, "")).collect();
        let (outcomes, commits) = together(&t, &gate, &calls).await;
        // One goes at once, and 16 together.
        assert_eq!(commits, 2);
        let ids: Vec<_> = outcomes.iter().map(id).collect();
        let expected = [1, 2, 3, 4, 5, 15, 6, 7, 8, 9, 10, 11, 12, 13, 14].map(Some);
        assert_eq!((&ids[..15], &ids[15..]), (&expected[..], &[None, None][..]));
        let mut tokens = BTreeSet::new();
        for (member, outcome) in members.iter().zip(outcomes) {
            let Some(claim) = outcome.unwrap() else { continue };
            let task = claim.task.unwrap();
            assert_eq!((t.task(task.id).await, task.owner.as_str()), (task.clone(), member.name.as_str()));
            t.try_complete(member, task.id, &claim.token).await.unwrap();
            assert!(tokens.insert(claim.token));
        }
    }
}

#[tokio::test]
async fn more_claims_than_fit_one_commit_take_several() {
    let (t, gate) = gated().await;
    let members = members(&t, 50).await;
    t.add_some(50).await;
    let calls: Vec<_> = members.iter().map(|member| (member, "k")).collect();
    let (outcomes, commits) = together(&t, &gate, &calls).await;
    assert_eq!(outcomes.iter().map(id).collect::<Vec<_>>(), (1..=50).map(Some).collect::<Vec<_>>());
    assert_eq!(commits, 1 + 4);
}

#[tokio::test]
async fn a_refused_or_repeated_claim_changes_nothing_for_the_others() {
    let (t, gate) = gated().await;
    let [ann, bob, eve, fay] = t.join_all(["ann", "bob", "eve", "fay"]).await;
    let planner = t.join_with_plan_required("planner").await;
    t.add_some(5).await;
    // The first coordinator does not know of the claims under these keys.
    let other = t.another_coordinator().await;
    let (of_bob, of_eve) =
        (other.claim_next_task(&bob.who, &request("k")).await, other.claim_next_task(&eve.who, &request("k")).await);
    // One digit differs, whatever the digit is.
    let digit = if ann.credential.ends_with('0') { '1' } else { '0' };
    let stranger = Member::new("ann", &format!("{}{digit}", &ann.credential[..ann.credential.len() - 1]));
    let calls =
        [(&ann, "a"), (&bob, "k"), (&planner, "p"), (&eve, "k"), (&stranger, ""), (&fay, "f"), (&fay, "f"), (&bob, "")];
    let (outcomes, _) = together(&t, &gate, &calls).await;
    assert_eq!((id(&outcomes[0]), &outcomes[1], &outcomes[3]), (Some(3), &of_bob, &of_eve));
    assert_eq!(outcomes[2].as_ref().unwrap_err().reason, Reason::PlanRequired);
    assert_eq!(outcomes[4].as_ref().unwrap_err().reason, Reason::CredentialInvalid);
    assert_eq!((id(&outcomes[5]), &outcomes[5]), (Some(4), &outcomes[6]));
    assert_eq!(id(&outcomes[7]), Some(5));
    for (member, of_member) in [(&bob, 2), (&eve, 1), (&fay, 1), (&ann, 1), (&planner, 0)] {
        let filter = v1::ListTasksRequest { owner: member.name.clone(), ..Default::default() };
        assert_eq!(t.listed(filter).await.len(), of_member, "{}", member.name);
    }
}

#[tokio::test]
async fn members_are_refused_in_a_full_team_while_its_lead_claims() {
    let gate = Gate::before(EmbeddedStore::in_memory().unwrap());
    let t = Team::on(gate.clone(), |limits| limits.team_bytes_max = 256 << 10).await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    t.add_some(20).await;
    let text = "x".repeat(400);
    while t.try_send(&bob, message("eve", &text)).await.is_ok() {}
    // The lead may exceed the quota a little. After this message, no claim of a member fits, however few bytes it adds.
    t.try_send(&t.lead, message("eve", &text)).await.unwrap();
    let calls = [(&bob, ""), (&eve, ""), (&t.lead, ""), (&bob, "")];
    let (outcomes, _) = together(&t, &gate, &calls).await;
    for refused in [0, 1, 3] {
        assert_eq!(outcomes[refused].as_ref().unwrap_err().reason, Reason::QuotaExceeded, "{refused}");
    }
    assert!(id(&outcomes[2]).is_some());
}

#[tokio::test]
async fn a_caller_that_goes_away_while_it_waits_claims_nothing() {
    let (t, gate) = gated().await;
    let members = members(&t, 4).await;
    t.add_some(4).await;
    let mut calls: Vec<_> = members
        .iter()
        .map(|member| {
            let (coordinator, who) = (t.coordinator.clone(), member.who.clone());
            Box::pin(async move { coordinator.claim_next_task(&who, &request("")).await })
        })
        .collect();
    gate.open.forget_permits(Semaphore::MAX_PERMITS);
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending());
    }
    // The second has waited longest, so it would start the task that carries the others' claims out.
    drop(calls.remove(1));
    gate.open.add_permits(Semaphore::MAX_PERMITS);
    let claimed: Vec<_> = join_all(calls).await.iter().map(id).collect();
    assert_eq!(claimed, [Some(1), Some(2), Some(3)]);
    assert_eq!(t.task(4).await.status(), TaskStatus::Pending);
}

#[tokio::test]
async fn if_the_commit_fails_each_caller_learns_it() {
    let (t, gate) = gated().await;
    let members = members(&t, 5).await;
    t.add_some(5).await;
    gate.fails.store(true, Ordering::SeqCst);
    let calls: Vec<_> = members.iter().map(|member| (member, "k")).collect();
    let (outcomes, commits) = together(&t, &gate, &calls).await;
    // No claim is tried alone: the failed commit may have been carried out.
    assert_eq!(commits, 2);
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().unwrap_err().reason == Reason::StoreUnavailable));
    gate.fails.store(false, Ordering::SeqCst);
    let (outcomes, _) = together(&t, &gate, &calls).await;
    assert_eq!(outcomes.iter().map(id).collect::<Vec<_>>(), (1..=5).map(Some).collect::<Vec<_>>());
}
