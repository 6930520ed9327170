//! Lists and shows tasks.

use std::sync::Arc;

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    v1::{self, history_entry::Event},
};

use super::{Coordinator, batch::Batch, decide::Touches, keys::board_keys};
use crate::{
    domain::{
        identity::{CallerCredentials, namespace_of},
        page::{self, PAGE_BYTES_MAX, Page, page_size},
        streams::HISTORY,
        task::{
            board::{BoardRecord, TaskRecord, record_id, show},
            listing::{self, Listing},
        },
        team,
    },
    store::{Namespace, Range},
};

impl Coordinator {
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
