//! The random calls of the task board.

use proptest::{collection::vec, prelude::*, sample::Index};
use teamwire_proto::{Refusal, v1};
use teamwire_server::{
    coordinator::Coordinator,
    domain::{identity::CallerCredentials, task::board::Status},
};

use super::{By, Call, Side, keys, names};
use crate::board_check::check_board;

#[derive(Clone, Copy, Debug)]
pub(super) enum Finish {
    Complete,
    Release,
}

pub(super) fn task_calls() -> impl Strategy<Value = Call> {
    let some = |max: usize| vec(any::<Index>(), 0..=max);
    let owner = || prop_oneof![3 => Just(""), 2 => names()];
    let how = || prop_oneof![3 => Just(Finish::Complete), 1 => Just(Finish::Release)];
    prop_oneof![
        8 => (owner(), some(2), keys()).prop_map(|(owner, after, key)| Call::AddTask { owner, after, key }),
        3 => (any::<Index>(), keys()).prop_map(|(task, key)| Call::Claim { task: Some(task), key }),
        8 => keys().prop_map(|key| Call::Claim { task: None, key }),
        4 => (any::<Index>(), any::<bool>(), how()).prop_map(|(claim, token, how)| Call::Finish { claim, token, how }),
        7 => how().prop_map(|how| Call::FinishRightly { how }),
        6 => (any::<Index>(), proptest::option::of(owner()), some(2), some(1))
            .prop_map(|(task, owner, add, remove)| Call::ChangeTask { task, owner, add, remove }),
        2 => any::<Index>().prop_map(|task| Call::DeleteTask { task }),
    ]
}

impl Side {
    pub(super) async fn task_call(
        &mut self,
        coordinator: &Coordinator,
        who: &CallerCredentials,
        by_name: &'static str,
        team: String,
        call: &Call,
    ) -> Result<String, Refusal> {
        // Now and then one that is unknown.
        let ids = usize::try_from(self.last_task).unwrap() * 16 + 1;
        let pick = |index: &Index| index.index(ids) as u64 / 16 + 1;
        let picked = |indices: &[Index]| indices.iter().map(pick).collect::<Vec<_>>();
        let keyed = |key: &Option<u8>| key.map_or(String::new(), |key| format!("k{key}"));
        match call {
            Call::AddTask { owner, after, key } => {
                let request = v1::CreateTaskRequest {
                    team,
                    idempotency_key: keyed(key),
                    subject: "work".to_owned(),
                    owner: (*owner).to_owned(),
                    blocked_by: picked(after),
                    ..Default::default()
                };
                let reply = coordinator.create_task(who, &request).await?;
                Ok(format!("added {} {}", reply.task.unwrap().id, reply.replayed))
            }
            Call::Claim { task, key } => {
                let idempotency_key = keyed(key);
                let claim = match task {
                    Some(task) => {
                        let request = v1::ClaimTaskRequest { idempotency_key, task_id: pick(task) };
                        Some(coordinator.claim_task(who, &request).await?)
                    }
                    None => {
                        let request = v1::ClaimNextTaskRequest { idempotency_key, wait: None };
                        coordinator.claim_next_task(who, &request).await?
                    }
                };
                let Some(claim) = claim else { return Ok("nothing to do".to_owned()) };
                let id = claim.task.unwrap().id;
                self.claims.push((id, by_name, claim.token.clone()));
                Ok(format!("claimed {id} {}", self.shown(&claim.token)))
            }
            Call::ChangeTask { task, owner, add, remove } => {
                let request = v1::UpdateTaskRequest {
                    team,
                    task_id: pick(task),
                    owner: owner.map(ToOwned::to_owned),
                    add_blocked_by: picked(add),
                    remove_blocked_by: picked(remove),
                    ..Default::default()
                };
                let task = coordinator.update_task(who, &request).await?;
                Ok(format!("changed {} {}", task.id, task.version))
            }
            Call::DeleteTask { task } => Ok(format!("{:?}", coordinator.delete_task(who, &team, pick(task)).await?)),
            other => unreachable!("{other:?} is not about a task"),
        }
    }

    /// Completes a task or gives it back. What is accepted with a token was right.
    pub(super) async fn finish(
        &mut self,
        coordinator: &Coordinator,
        who: &CallerCredentials,
        id: u64,
        token: &str,
        how: Finish,
    ) -> Result<String, Refusal> {
        let before = check_board(&*self.clock, &self.namespace).await.tasks.remove(&id);
        let team = if who.credential.team().is_none() { self.team.clone() } else { String::new() };
        let claim_token = token.to_owned();
        let (task, closed) = match how {
            Finish::Complete => {
                let request = v1::CompleteTaskRequest { team, task_id: id, claim_token, result: String::new() };
                let reply = coordinator.complete_task(who, &request).await?;
                (reply.task.unwrap(), reply.unblocked)
            }
            Finish::Release => {
                let request = v1::ReleaseTaskRequest { team, task_id: id, claim_token, reason: String::new() };
                (coordinator.release_task(who, &request).await?, Vec::new())
            }
        };
        let before = before.expect("a task that was there");
        assert!(token.is_empty() || before.claim.as_deref() == Some(token), "a stale token was accepted: {before:?}");
        Ok(format!("{:?} {id} {:?} {} {closed:?}", how, task.status(), task.owner))
    }

    pub(super) async fn finish_rightly(&mut self, coordinator: &Coordinator, how: Finish) -> Result<String, Refusal> {
        let board = check_board(&*self.clock, &self.namespace).await;
        let is_held = |(id, _, token): &&(u64, &'static str, String)| {
            board
                .tasks
                .get(id)
                .is_some_and(|task| task.status == Status::InProgress && task.claim.as_deref() == Some(token.as_str()))
        };
        let Some((id, name, token)) = self.claims.iter().rev().find(is_held).cloned() else {
            return Ok("nobody works".to_owned());
        };
        let who = self.who(&By::Member(name));
        self.finish(coordinator, &who, id, &token, how).await
    }
}
