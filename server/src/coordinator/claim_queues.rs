//! Claims that wait for their turn on a team's board, to be carried out together.

use std::collections::HashMap;

use parking_lot::Mutex;
use teamwire_proto::{Refusal, v1};
use tokio::sync::oneshot;
use tracing::Span;

use super::turns::Turn;
use crate::{domain::identity::CallerCredentials, store::Namespace};

/// How many claims go in one transaction at most. More would hardly be faster, and the transaction has up to a task's
/// size for each.
const TOGETHER_MAX: usize = 16;

/// The claims that wait, by team. A team is in here while a task carries its claims out.
#[derive(Default)]
pub(super) struct ClaimQueues {
    teams: Mutex<HashMap<Namespace, Vec<WaitingClaim>>>,
}

/// A claim of the next task.
pub(super) struct WaitingClaim {
    pub(super) who: CallerCredentials,
    pub(super) request: v1::ClaimNextTaskRequest,
    /// The caller has waited for a change to the team's tasks, and there was one.
    pub(super) is_woken: bool,
    /// The span of the call.
    pub(super) span: Span,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What an attempt to claim has found.
pub(super) struct Attempt {
    pub(super) claim: Option<v1::Claim>,
    /// The count of changes to the team's tasks before the attempt.
    pub(super) count: u64,
}

pub(super) type Answer = Result<Attempt, Refusal>;

/// What a claim does first.
pub(super) enum Admission {
    /// It is carried out at once.
    Turn(Turn),
    /// It waits. If it is the first, its caller must have the queue carried out.
    Queue { answered: oneshot::Receiver<Answer>, is_first: bool },
}

impl ClaimQueues {
    /// Queues a claim, unless no other waits and the turn is free.
    pub(super) fn enter(
        &self,
        namespace: &Namespace,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
        is_woken: bool,
        try_take: impl FnOnce() -> Option<Turn>,
    ) -> Admission {
        let (answer, answered) = oneshot::channel();
        let waiting =
            WaitingClaim { who: who.clone(), request: request.clone(), is_woken, span: Span::current(), answer };
        let mut teams = self.teams.lock();
        if let Some(queue) = teams.get_mut(namespace) {
            queue.push(waiting);
            return Admission::Queue { answered, is_first: false };
        }
        if let Some(turn) = try_take() {
            return Admission::Turn(turn);
        }
        teams.insert(namespace.clone(), vec![waiting]);
        Admission::Queue { answered, is_first: true }
    }

    /// Takes the claims that have waited longest. `None` if none waits, and the queue is over.
    pub(super) fn next(&self, namespace: &Namespace) -> Option<Vec<WaitingClaim>> {
        let mut teams = self.teams.lock();
        if let Some(queue) = teams.get_mut(namespace)
            && !queue.is_empty()
        {
            let count = queue.len().min(TOGETHER_MAX);
            return Some(queue.drain(..count).collect());
        }
        teams.remove(namespace);
        None
    }

    /// Drops the claims that wait, whose callers notice it.
    pub(super) fn abandon(&self, namespace: &Namespace) {
        let waiting = self.teams.lock().remove(namespace);
        drop(waiting);
    }
}
