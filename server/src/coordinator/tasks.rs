//! The task board: claiming what is next, and listing tasks.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    credential::Credential,
    v1::{self, history_entry::Event},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Coordinator,
    batch::Batch,
    decide::Touches,
    keys::{board_key, board_keys},
    turns::Turn,
};
use crate::{
    domain::{
        fields::wait,
        identity::{CallerCredentials, namespace_of},
        page::{self, PAGE_BYTES_MAX, Page, page_size},
        streams::HISTORY,
        task::{
            board::{BoardRecord, TaskRecord, record_id, show},
            claim,
            listing::{self, Listing},
        },
        team,
        tx::Snapshot,
    },
    store::{Namespace, Range},
};

/// How often a waiting call tries to claim without a notification, in case one was lost; jittered by up to a half.
const POLL: Duration = Duration::from_secs(2);

impl Coordinator {
    /// See `TaskService.ClaimNextTask`.
    pub async fn claim_next_task(
        &self,
        who: &CallerCredentials,
        request: &v1::ClaimNextTaskRequest,
    ) -> Result<Option<v1::Claim>, Refusal> {
        let namespace = namespace_of(who, "")?;
        let timeout = match &request.wait {
            None => Duration::ZERO,
            Some(given) => wait(given, "wait")?,
        };
        let deadline = Instant::now() + timeout;
        let mut watch = self.notifier.watch_tasks(&namespace);
        // The first attempt, and each that no notification has caused, is made whatever others have found.
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
        let keys = board_keys(who, None);
        let claim = self.decide(namespace, &keys, |tx| claim::claim_next(tx, who, request)).await?.value;
        turn.nothing_at = claim.is_none().then_some(count);
        Ok(claim)
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

    /// See `TaskService.ListTasks`.
    pub async fn list_tasks(
        &self,
        who: &CallerCredentials,
        request: &v1::ListTasksRequest,
    ) -> Result<v1::ListTasksResponse, Refusal> {
        self.list_tasks_within(who, request, PAGE_BYTES_MAX).await
    }

    /// Lists tasks on a page of up to so many bytes.
    pub async fn list_tasks_within(
        &self,
        who: &CallerCredentials,
        request: &v1::ListTasksRequest,
        bytes_max: usize,
    ) -> Result<v1::ListTasksResponse, Refusal> {
        let mut page = Page::within(page_size(request.page_size)?, bytes_max);
        let mut covered = page::number(&request.page_token)?.unwrap_or(0);
        let namespace = namespace_of(who, &request.team)?;
        let listing = self.decide(&namespace, &board_keys(who, None), |tx| listing::list(tx, who, request)).await?;
        let Listing { board, ids, filter } = listing.value;
        let after = covered;
        let mut ids = ids.into_iter().filter(|id| *id > after).peekable();
        let mut batch = Batch::new();
        let mut may_have_more = false;
        'page: while ids.peek().is_some() {
            may_have_more = batch.is_enough();
            if may_have_more {
                break;
            }
            let chunk: Vec<u64> = ids.by_ref().take(batch.size()).collect();
            let tasks = self.tasks(&namespace, &chunk).await?;
            batch.had(chunk.len(), tasks.iter().flatten().map(|task| task.size()).sum());
            for (id, found) in chunk.iter().zip(tasks) {
                // It may have changed since the board was read.
                if let Some(found) = found.filter(|found| filter.passes(found))
                    && !page.add(show(&found, &board))
                {
                    may_have_more = true;
                    break 'page;
                }
                covered = *id;
            }
        }
        let next_page_token = if may_have_more { page::token(covered) } else { String::new() };
        Ok(v1::ListTasksResponse { tasks: page.into_items(), next_page_token })
    }

    /// Returns the current state of tasks.
    pub async fn show_tasks(&self, namespace: &Namespace, ids: &[u64]) -> Result<Vec<v1::Task>, Refusal> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.tasks(namespace, ids).await?;
        let board =
            self.fetch::<BoardRecord>(namespace, vec![String::new()]).await?.pop().flatten().unwrap_or_default();
        Ok(found.into_iter().flatten().map(|task| show(&task, &board)).collect())
    }

    pub(super) async fn tasks(
        &self,
        namespace: &Namespace,
        ids: &[u64],
    ) -> Result<Vec<Option<Arc<TaskRecord>>>, Refusal> {
        self.fetch(namespace, ids.iter().map(|id| record_id(*id)).collect()).await
    }

    /// Returns the tasks that entries of the history concern, and the last sequence searched.
    pub async fn changed_tasks(&self, namespace: &Namespace, after: u64) -> Result<(Vec<u64>, u64), Refusal> {
        let range = Range::after(after, 256);
        let entries = self.entries(namespace, HISTORY, range).await?;
        let looked_to = entries.last().map_or(after, |entry| entry.sequence);
        let mut ids: Vec<u64> = Vec::new();
        for entry in entries {
            // Reading the history reports an entry that cannot be read.
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
        self.rule(who, named, Touches::Team, |tx| team::get(tx, who, named)).await?;
        namespace_of(who, named)
    }
}
