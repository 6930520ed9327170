//! Turns: calls that would make each other's commits fail run one after the other on one coordinator.
//!
//! - The calls that change one team's board, including those that end lives, which release claims: any two such changes
//!   conflict. Then only calls on different coordinators conflict.
//! - Other calls on a team whose commits keep failing.
//!
//! Callers take turns: the next turn is that of the caller that has waited longest since its last one, so a caller with
//! a thousand calls delays another one's only call by one turn.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use teamwire_proto::{credential::Credential, name::Name};
use tokio::sync::oneshot;

use crate::{
    domain::{identity::CallerCredentials, secret::SecretHash},
    store::Namespace,
};

/// Beyond this many teams, those without waiting calls are dropped.
const TEAMS_KEPT: usize = 1_024;

/// The turns of every team.
#[derive(Default)]
pub(super) struct Turns {
    teams: Mutex<HashMap<Namespace, Weak<TeamTurns>>>,
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A member's, whatever its life.
    Member(Name),
    /// That of another credential.
    Credential(SecretHash),
    /// The coordinator's own work on a board, and claims that several members make together.
    Coordinator,
}

impl Whose {
    pub(super) fn of(who: &CallerCredentials) -> Self {
        match &who.credential {
            Credential::Member { member, .. } => Self::Member(member.clone()),
            _ => Self::Credential(who.hash),
        }
    }
}

/// The turns of a team.
#[derive(Debug, Default)]
struct TeamTurns(Mutex<Queues>);

#[derive(Debug, Default)]
struct Queues {
    /// Who has the turn. `None` if no one does.
    current: Option<Whose>,
    /// The calls of each caller, in the order in which the callers' turns come.
    waiting: VecDeque<(Whose, VecDeque<oneshot::Sender<Turn>>)>,
    nothing_at: Option<u64>,
}

/// A turn. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Arc<TeamTurns>);

impl Turns {
    /// Waits for a turn.
    pub(super) async fn take(&self, namespace: &Namespace, whose: &Whose) -> Turn {
        let team = self.team(namespace);
        let turn = {
            let mut queues = team.0.lock();
            if queues.current.is_none() {
                queues.current = Some(whose.clone());
                drop(queues);
                return Turn(team);
            }
            let (call, turn) = oneshot::channel();
            match queues.waiting.iter_mut().find(|(other, _)| other == whose) {
                Some((_, calls)) => calls.push_back(call),
                None => queues.waiting.push_back((whose.clone(), [call].into())),
            }
            turn
        };
        turn.await.expect("every turn is handed on")
    }

    /// Takes a turn if no call has it or waits for it.
    pub(super) fn try_take(&self, namespace: &Namespace, whose: &Whose) -> Option<Turn> {
        let team = self.team(namespace);
        let mut queues = team.0.lock();
        if queues.current.is_some() {
            return None;
        }
        queues.current = Some(whose.clone());
        drop(queues);
        Some(Turn(team))
    }

    /// Returns whether a caller has a turn or waits for one.
    pub(super) fn involve(&self, namespace: &Namespace, whose: &Whose) -> bool {
        let Some(team) = self.teams.lock().get(namespace).and_then(Weak::upgrade) else { return false };
        let queues = team.0.lock();
        queues.current.as_ref() == Some(whose) || queues.waiting.iter().any(|(other, _)| other == whose)
    }

    fn team(&self, namespace: &Namespace) -> Arc<TeamTurns> {
        let mut teams = self.teams.lock();
        if teams.len() > TEAMS_KEPT {
            teams.retain(|_, team| team.strong_count() > 0);
        }
        if let Some(team) = teams.get(namespace).and_then(Weak::upgrade) {
            return team;
        }
        let team = Arc::default();
        teams.insert(namespace.clone(), Arc::downgrade(&team));
        team
    }
}

impl Turn {
    /// Returns at which count of changes no task was ready for every member, as the last turn has found out.
    pub(super) fn nothing_at(&self) -> Option<u64> {
        self.0.0.lock().nothing_at
    }

    /// Records at which count of changes no task was ready for every member.
    pub(super) fn set_nothing_at(&self, count: Option<u64>) {
        self.0.0.lock().nothing_at = count;
    }
}

impl Drop for Turn {
    /// Hands the turn on to the next call that still waits.
    fn drop(&mut self) {
        let mut queues = self.0.0.lock();
        loop {
            let Some((whose, mut calls)) = queues.waiting.pop_front() else {
                queues.current = None;
                return;
            };
            let next = std::iter::from_fn(|| calls.pop_front()).find(|call| !call.is_closed());
            if !calls.is_empty() {
                queues.waiting.push_back((whose.clone(), calls));
            }
            let Some(call) = next else { continue };
            queues.current = Some(whose);
            let turn = Turn(Arc::clone(&self.0));
            drop(queues);
            // If the call has just gone away, this turn ends here, and is handed on in the same way.
            drop(call.send(turn));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::join_all};

    use super::*;

    fn whose(name: &str) -> Whose {
        Whose::Member(Name::parse(name, "name").unwrap())
    }

    #[tokio::test]
    async fn a_caller_waits_for_one_turn_of_each_other_caller_and_one_that_goes_away_is_passed_over() {
        let (turns, team) = (Turns::default(), Namespace::team(&Name::parse("acme", "name").unwrap()));
        let first = turns.take(&team, &whose("eve")).await;
        assert!(turns.try_take(&team, &whose("bob")).is_none());
        let order = Mutex::new(Vec::new());
        let call = async |name: &'static str| {
            let _turn = turns.take(&team, &whose(name)).await;
            order.lock().push(name);
        };
        for gone in ["bob", "zoe", "bob"] {
            assert!(call(gone).now_or_never().is_none());
        }
        let calls = ["eve", "eve", "eve", "bob", "ann", "bob"].map(call);
        tokio::join!(join_all(calls), async {
            assert!(turns.involve(&team, &whose("ann")));
            drop(first);
        });
        assert_eq!(*order.lock(), ["bob", "eve", "ann", "bob", "eve", "eve"]);
        assert!(!turns.involve(&team, &whose("eve")));
        assert!(turns.try_take(&team, &whose("bob")).is_some());
    }
}
