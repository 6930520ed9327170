//! Claims of the next task. Those that wait for a turn on the same board are carried out together.
//!
//! A claim is carried out at once, by its caller, if no other claim waits and the team's turn is free. Otherwise it
//! waits in a queue. A Tokio task takes the turn for the queue, and carries out up to 16 claims in one transaction,
//! oldest first. Each gets its own outcome, as if it had been carried out alone. If their transaction is refused as a
//! whole (together they may exceed the team's quota, though one alone does not), nothing was written, and they are
//! carried out one by one.

use std::{collections::HashSet, sync::Arc, time::Duration};

use teamwire_proto::{Method, Refusal, Wait, credential::Credential, trace_parent, v1};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;

use super::{
    Coordinator,
    claim_queues::{Admission, Attempt, WaitingClaim},
    keys::{board_key, board_keys},
    store_errors::unavailable,
    turns::{Turn, Whose},
};
use crate::{
    domain::{
        fields::wait,
        identity::{CallerCredentials, namespace_of},
        task::{board::BoardRecord, claim},
        tx::Snapshot,
    },
    store::{Namespace, StoreError},
};

/// How long a call waits for a task.
const WAIT: Wait = Method::ClaimNextTask.wait().expect("a call that waits");

/// How often a waiting call tries to claim without a notification, in case one was lost; jittered by up to a half.
const POLL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// See `TaskService.ClaimNextTask`.
    pub async fn claim_next_task(
        self: &Arc<Self>,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
    ) -> Result<Option<v1::Claim>, Refusal> {
        let namespace = namespace_of(who, "")?;
        let deadline = Instant::now() + wait(WAIT, request.wait.as_ref())?;
        let mut watch = self.notifier.watch_tasks(&namespace);
        // The first attempt, and each that no notification has caused, is made whatever others have found.
        let mut is_woken = false;
        loop {
            let Attempt { claim, count } = self.attempt(&namespace, who, request, is_woken).await?;
            if claim.is_some() || Instant::now() >= deadline {
                return Ok(claim);
            }
            is_woken = tokio::select! {
                changed = watch.wait_for(|now| *now != count) => changed.is_ok(),
                () = sleep(POLL.mul_f64(rand::random_range(0.75..1.5))) => false,
                () = sleep_until(deadline) => false,
            };
        }
    }

    /// Tries to claim: at once if no other claim is under way, else together with those that wait.
    async fn attempt(
        self: &Arc<Self>,
        namespace: &Namespace,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
        is_woken: bool,
    ) -> Result<Attempt, Refusal> {
        // Other callers are few. Whether they may write is decided for a whole transaction.
        if !matches!(who.credential, Credential::Member { .. }) {
            let turn = self.turns.take(namespace, &Whose::of(who)).await;
            return self.claim_alone(namespace, who, request, is_woken, &turn).await;
        }
        let try_take = || self.turns.try_take(namespace, &Whose::of(who));
        match self.claims.enter(namespace, who, request, is_woken, try_take) {
            Admission::Turn(turn) => self.claim_alone(namespace, who, request, is_woken, &turn).await,
            Admission::Queue { answered, is_first } => {
                if is_first {
                    // A task, so that a caller that goes away does not take the outcomes of the others with it.
                    let queue = Queue { coordinator: Arc::clone(self), namespace: namespace.clone(), is_over: false };
                    tokio::spawn(queue.carry_out());
                }
                let ended = |_| unavailable(StoreError::Unavailable("the coordinator is ending".to_owned()));
                answered.await.map_err(ended)?
            }
        }
    }

    async fn claim_together(&self, namespace: &Namespace, mut waiting: Vec<WaitingClaim>, turn: &Turn) {
        let count = self.change_count(namespace);
        waiting.retain(|call| !call.answer.is_closed());
        let (hopeless, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|call| self.is_hopeless(namespace, &call.who, call.is_woken, turn, count));
        for call in hopeless {
            let _ = call.answer.send(Ok(Attempt { claim: None, count }));
        }
        if waiting.len() > 1
            && let Some(outcomes) = self.try_together(namespace, &waiting).await
        {
            turn.set_nothing_at(outcomes.iter().any(|outcome| matches!(outcome, Ok(None))).then_some(count));
            for (call, outcome) in waiting.into_iter().zip(outcomes) {
                let _ = call.answer.send(outcome.map(|claim| Attempt { claim, count }));
            }
            return;
        }
        for WaitingClaim { who, request, is_woken, span, answer } in waiting {
            let _ = answer.send(self.claim_alone(namespace, &who, &request, is_woken, turn).instrument(span).await);
        }
    }

    /// Carries out claims in one transaction. `None` if nothing was written, and they must be carried out one by one.
    /// The transaction is part of the first call's trace, and the other calls are linked to that call.
    async fn try_together(
        &self,
        namespace: &Namespace,
        waiting: &[WaitingClaim],
    ) -> Option<Vec<Result<Option<v1::Claim>, Refusal>>> {
        let calls: Vec<_> = waiting.iter().map(|call| (&call.who, &call.request)).collect();
        let keys: HashSet<_> = calls.iter().flat_map(|(who, _)| board_keys(who, None)).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let (first, others) = waiting.split_first()?;
        if let Some(first) = trace_parent::of(&first.span) {
            others.iter().for_each(|other| trace_parent::link(&other.span, &first));
        }
        let decided = self.decide(namespace, &keys, |tx| claim::claim_next_each(tx, &calls));
        match decided.instrument(first.span.clone()).await {
            Ok(done) => Some(done.value),
            Err(refusal) => refusal.may_have_changed().then(|| calls.iter().map(|_| Err(refusal.clone())).collect()),
        }
    }

    async fn claim_alone(
        &self,
        namespace: &Namespace,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
        is_woken: bool,
        turn: &Turn,
    ) -> Result<Attempt, Refusal> {
        let count = self.change_count(namespace);
        if self.is_hopeless(namespace, who, is_woken, turn, count) {
            return Ok(Attempt { claim: None, count });
        }
        let keys = board_keys(who, None);
        let claim = self.decide(namespace, &keys, |tx| claim::claim_next(tx, who, request)).await?.value;
        turn.set_nothing_at(claim.is_none().then_some(count));
        Ok(Attempt { claim, count })
    }

    /// Returns the count of changes to a team's tasks.
    fn change_count(&self, namespace: &Namespace) -> u64 {
        *self.notifier.watch_tasks(namespace).borrow()
    }

    /// Returns whether an attempt would find nothing, as the last one did: nothing has changed since, and no task is
    /// assigned to the caller.
    fn is_hopeless(
        &self,
        namespace: &Namespace,
        who: &CallerCredentials,
        is_woken: bool,
        turn: &Turn,
        count: u64,
    ) -> bool {
        is_woken && turn.nothing_at() == Some(count) && !self.is_any_assigned(namespace, who)
    }

    /// Returns whether a task is assigned to the caller, according to the cache.
    fn is_any_assigned(&self, namespace: &Namespace, who: &CallerCredentials) -> bool {
        let member = match &who.credential {
            Credential::Member { member, .. } => member,
            // Its record names the member.
            Credential::Console { .. } => return true,
            _ => return false,
        };
        let mut snapshot = Snapshot::default();
        self.cache.fill(namespace, &[board_key()], &mut snapshot);
        let board = snapshot.records.get(&board_key()).and_then(|board| board.get::<BoardRecord>().ok().flatten());
        board.is_none_or(|board| board.assigned.contains_key(member))
    }
}

/// A team's queue of claims, for the task that carries them out.
struct Queue {
    coordinator: Arc<Coordinator>,
    namespace: Namespace,
    is_over: bool,
}

impl Queue {
    /// Carries out claims until none waits. Other changes to the board have their turns in between.
    async fn carry_out(mut self) {
        loop {
            let turn = self.coordinator.turns.take(&self.namespace, &Whose::Coordinator).await;
            let Some(waiting) = self.coordinator.claims.next(&self.namespace) else { break };
            self.coordinator.claim_together(&self.namespace, waiting, &turn).await;
        }
        self.is_over = true;
    }
}

impl Drop for Queue {
    /// Fails the claims that still wait if the task has ended early, such as with its runtime.
    fn drop(&mut self) {
        if !self.is_over {
            self.coordinator.claims.abandon(&self.namespace);
        }
    }
}
