//! The calls of the task board.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, TaskStatus, history_entry::Event},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Coordinator, team_key, turns::Turn};
use crate::{
    domain::{
        fields::{known, wait},
        identity::{self, Admit, CallerCredentials, namespace_of},
        page::{self, Page, page_size},
        record::{HISTORY, RecordType},
        task::{
            self,
            board::{BoardRecord, Ids, TaskRecord, each, show},
            claim, record_id,
        },
        tx::{RuleError, Snapshot, Tx},
    },
    store::{Key, Namespace, Range},
};

/// How often a waiting call looks by itself, in case a notification was lost; half as much again or less.
const POLL: Duration = Duration::from_secs(2);

/// How many tasks are read at once.
const CHUNK: usize = 64;

fn board_key() -> Key {
    Key::new(BoardRecord::KIND, "")
}

fn task_key(id: u64) -> Key {
    Key::new(TaskRecord::KIND, record_id(id))
}

impl Coordinator {
    /// Changes the board by a rule, when it is this call's turn. `id`: the task that it will want.
    async fn change_board<T>(
        &self,
        namespace: &Namespace,
        id: Option<u64>,
        rule: impl Fn(&mut Tx<'_>) -> Result<T, RuleError>,
    ) -> Result<T, Refusal> {
        let _turn = self.turns.take(namespace).await;
        let keys: Vec<Key> = [team_key(), board_key()].into_iter().chain(id.map(task_key)).collect();
        Ok(self.decide(namespace, &keys, rule).await?.value)
    }

    /// See `TaskService.CreateTask`.
    pub async fn create_task(
        &self,
        who: &CallerCredentials,
        request: &v1::CreateTaskRequest,
    ) -> Result<v1::CreateTaskResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        self.change_board(&namespace, None, |tx| task::create(tx, who, request)).await
    }

    /// See `TaskService.GetTask`.
    pub async fn get_task(
        &self,
        who: &CallerCredentials,
        named: &str,
        id: u64,
    ) -> Result<v1::GetTaskResponse, Refusal> {
        let namespace = namespace_of(who, named)?;
        let keys = [team_key(), board_key(), task_key(id)];
        Ok(self.decide(&namespace, &keys, |tx| task::get(tx, who, named, id)).await?.value)
    }

    /// See `TaskService.UpdateTask`.
    pub async fn update_task(
        &self,
        who: &CallerCredentials,
        request: &v1::UpdateTaskRequest,
    ) -> Result<v1::Task, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        self.change_board(&namespace, Some(request.task_id), |tx| task::update(tx, who, request)).await
    }

    /// See `TaskService.DeleteTask`.
    pub async fn delete_task(&self, who: &CallerCredentials, named: &str, id: u64) -> Result<Vec<u64>, Refusal> {
        let namespace = namespace_of(who, named)?;
        self.change_board(&namespace, Some(id), |tx| task::delete(tx, who, named, id)).await
    }

    /// See `TaskService.ClaimTask`.
    pub async fn claim_task(
        &self,
        who: &CallerCredentials,
        request: &v1::ClaimTaskRequest,
    ) -> Result<v1::Claim, Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| only_members())?;
        self.change_board(&namespace, Some(request.task_id), |tx| claim::claim(tx, who, request)).await
    }

    /// See `TaskService.ClaimNextTask`.
    pub async fn claim_next_task(
        &self,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
    ) -> Result<Option<v1::Claim>, Refusal> {
        let namespace = namespace_of(who, "").map_err(|_| only_members())?;
        let timeout = match &request.wait {
            None => Duration::ZERO,
            Some(given) => wait(given, "wait")?,
        };
        let deadline = Instant::now() + timeout;
        let mut watch = self.notifier.watch_tasks(&namespace);
        // The first look, and each that no notification has caused, is at the store whatever others have seen.
        let mut is_woken = false;
        loop {
            let mut turn = self.turns.take(&namespace).await;
            let count = *watch.borrow_and_update();
            let is_hopeless = is_woken && turn.nothing_at == Some(count) && !self.is_any_assigned(&namespace, who);
            if !is_hopeless && let Some(claim) = self.claim_in_turn(&namespace, who, request, &mut turn, count).await? {
                return Ok(Some(claim));
            }
            drop(turn);
            if Instant::now() >= deadline {
                return Ok(None);
            }
            is_woken = tokio::select! {
                changed = watch.changed() => changed.is_ok(),
                () = sleep(POLL.mul_f64(rand::random_range(0.75..1.5))) => false,
                () = sleep_until(deadline) => false,
            };
        }
    }

    async fn claim_in_turn(
        &self,
        namespace: &Namespace,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
        turn: &mut Turn,
        count: u64,
    ) -> Result<Option<v1::Claim>, Refusal> {
        let keys = [team_key(), board_key()];
        let claim = self.decide(namespace, &keys, |tx| claim::claim_next(tx, who, request)).await?.value;
        turn.nothing_at = claim.is_none().then_some(count);
        Ok(claim)
    }

    /// Returns whether a task is assigned to the caller, as far as is known here.
    fn is_any_assigned(&self, namespace: &Namespace, who: &CallerCredentials) -> bool {
        let teamwire_proto::credential::Credential::Member { member, .. } = &who.credential else { return false };
        let mut snapshot = Snapshot::default();
        self.cache.fill(namespace, &[board_key()], &mut snapshot);
        let board = snapshot.records.get(&board_key()).and_then(|board| board.get::<BoardRecord>().ok().flatten());
        board.is_none_or(|board| board.assigned.contains_key(member))
    }

    /// See `TaskService.CompleteTask`.
    pub async fn complete_task(
        &self,
        who: &CallerCredentials,
        request: &v1::CompleteTaskRequest,
    ) -> Result<v1::CompleteTaskResponse, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        self.change_board(&namespace, Some(request.task_id), |tx| claim::complete(tx, who, request)).await
    }

    /// See `TaskService.ReleaseTask`.
    pub async fn release_task(
        &self,
        who: &CallerCredentials,
        request: &v1::ReleaseTaskRequest,
    ) -> Result<v1::Task, Refusal> {
        let namespace = namespace_of(who, &request.team)?;
        self.change_board(&namespace, Some(request.task_id), |tx| claim::release(tx, who, request)).await
    }

    /// See `TaskService.ListTasks`.
    pub async fn list_tasks(
        &self,
        who: &CallerCredentials,
        request: &v1::ListTasksRequest,
    ) -> Result<v1::ListTasksResponse, Refusal> {
        let mut page = Page::new(page_size(request.page_size)?);
        let mut covered = page::number(&request.page_token)?.unwrap_or(0);
        let status = known::<TaskStatus>(request.status, "status")?;
        let namespace = namespace_of(who, &request.team)?;
        let (board, owner) = self
            .decide(&namespace, &[team_key(), board_key()], |tx| {
                let (team, _) = identity::call(tx, who, &request.team, Admit::Stopping)?;
                let owner = match request.owner.as_str() {
                    "" => None,
                    text => Some(team.resolve(text, "owner")?.name.clone()),
                };
                let board = tx.read::<BoardRecord>("")?.unwrap_or_default();
                Ok((board, owner))
            })
            .await?
            .value;
        let ids = candidates(&board, status, request.ready_only);
        let after = covered;
        let mut ids = ids.into_iter().filter(|id| *id > after).peekable();
        while ids.peek().is_some() {
            let chunk: Vec<u64> = ids.by_ref().take(CHUNK).collect();
            for (id, found) in chunk.iter().zip(self.tasks(&namespace, &chunk).await?) {
                // It may have changed since the board was read.
                let found = found.filter(|found| {
                    owner.as_ref().is_none_or(|owner| found.is_owned_by(owner)) && has_status(found, status)
                });
                if let Some(found) = found
                    && !page.add(show(&found, &board))
                {
                    return Ok(v1::ListTasksResponse {
                        tasks: page.into_items(),
                        next_page_token: page::token(covered),
                    });
                }
                covered = *id;
            }
        }
        Ok(v1::ListTasksResponse { tasks: page.into_items(), next_page_token: String::new() })
    }

    /// Returns tasks as they stand.
    pub async fn show_tasks(&self, namespace: &Namespace, ids: &[u64]) -> Result<Vec<v1::Task>, Refusal> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.tasks(namespace, ids).await?;
        let board =
            self.fetch::<BoardRecord>(namespace, vec![String::new()]).await?.pop().flatten().unwrap_or_default();
        Ok(found.into_iter().flatten().map(|task| show(&task, &board)).collect())
    }

    async fn tasks(&self, namespace: &Namespace, ids: &[u64]) -> Result<Vec<Option<Arc<TaskRecord>>>, Refusal> {
        self.fetch(namespace, ids.iter().map(|id| record_id(*id)).collect()).await
    }

    /// Returns the tasks that entries of the history are about, and how far was looked.
    pub async fn changed_tasks(&self, namespace: &Namespace, after: u64) -> Result<(Vec<u64>, u64), Refusal> {
        let range = Range::after(after, 256);
        let entries = self.entries(namespace, HISTORY, range).await?;
        let looked_to = entries.last().map_or(after, |entry| entry.sequence);
        let mut ids: Vec<u64> = Vec::new();
        for entry in entries {
            // What cannot be read is reported to whoever reads the history.
            let decoded = v1::HistoryEntry::decode(&*entry.data).unwrap_or_default();
            if let Some(Event::Task(event)) = decoded.event
                && !ids.contains(&event.task_id)
            {
                ids.push(event.task_id);
            }
        }
        Ok((ids, looked_to))
    }

    /// Checks that the caller may still see the team's tasks.
    pub async fn may_see_tasks(&self, who: &CallerCredentials, named: &str) -> Result<Namespace, Refusal> {
        self.get_team(who, named).await?;
        namespace_of(who, named)
    }
}

/// Returns the ids of the tasks that a list may contain, in their order.
fn candidates(board: &BoardRecord, status: TaskStatus, ready_only: bool) -> Vec<u64> {
    let of = |by: &std::collections::BTreeMap<Name, Ids>| by.values().flat_map(each).collect::<Vec<_>>();
    let ready = || [each(&board.ready), of(&board.assigned)].concat();
    let mut ids = match status {
        TaskStatus::Unspecified | TaskStatus::Pending if ready_only => ready(),
        _ if ready_only => Vec::new(),
        TaskStatus::Unspecified => [ready(), each(&board.blocked), of(&board.claimed), each(&board.completed)].concat(),
        TaskStatus::Pending => [ready(), each(&board.blocked)].concat(),
        TaskStatus::InProgress => of(&board.claimed),
        TaskStatus::Completed => each(&board.completed),
        TaskStatus::Deleted => board.deleted.keys().copied().collect(),
    };
    ids.sort_unstable();
    ids
}

fn has_status(task: &TaskRecord, status: TaskStatus) -> bool {
    let is = TaskStatus::from(task.status);
    match status {
        TaskStatus::Unspecified => is != TaskStatus::Deleted,
        status => is == status,
    }
}

fn only_members() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a member can claim a task: the operator and observers do not work. Use a member's credential.",
    )
}
