//! `TaskService`.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use teamwire_proto::{
    Refusal,
    v1::{self, task_service_server::TaskService},
};
use tonic::{Request, Response, Status};

use super::{
    admission::Admitted,
    follow::{Followed, Follower, Frames, READ_BYTES_MAX},
    services::{self, Services},
};
use crate::{
    coordinator::{Coordinator, decide::Touches},
    domain::{
        identity::CallerCredentials,
        task::{claim, edit},
        team,
    },
};

/// How many changed tasks are read at once.
const SHOWN_AT_ONCE: usize = 16;

#[tonic::async_trait]
impl TaskService for Services {
    type FollowTasksStream = Frames<v1::FollowTasksResponse>;

    async fn create_task(
        &self,
        request: Request<v1::CreateTaskRequest>,
    ) -> Result<Response<v1::CreateTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let created = self
            .coordinator
            .rule(&who, &request.team, Touches::Board(None), |tx| edit::create(tx, &who, &request))
            .await?;
        Ok(Response::new(created))
    }

    async fn get_task(&self, request: Request<v1::GetTaskRequest>) -> Result<Response<v1::GetTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let found = self
            .coordinator
            .rule(&who, &request.team, Touches::Task(request.task_id), |tx| {
                edit::get(tx, &who, &request.team, request.task_id)
            })
            .await?;
        Ok(Response::new(found))
    }

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let list = self.coordinator.list_tasks(&who, &request).await?;
        Ok(Response::new(list))
    }

    async fn follow_tasks(
        &self,
        request: Request<v1::FollowTasksRequest>,
    ) -> Result<Response<Self::FollowTasksStream>, Status> {
        let (Admitted { who, account, .. }, request) = self.admit(request).await?;
        // Refuse at once rather than in the stream.
        let namespace = self.coordinator.may_see_tasks(&who, &request.team).await?;
        let watch = self.coordinator.notifier().watch_tasks(&namespace);
        let board = Board {
            coordinator: Arc::clone(&self.coordinator),
            who: Arc::clone(&who),
            seen: self.coordinator.history_end(&namespace).await?,
            listing: Some(v1::ListTasksRequest { team: request.team.clone(), ..Default::default() }),
            changed: VecDeque::new(),
            team: request.team,
        };
        Ok(Response::new(self.follow(Follower { who, account, namespace }, watch, board)))
    }

    async fn update_task(
        &self,
        request: Request<v1::UpdateTaskRequest>,
    ) -> Result<Response<v1::UpdateTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let task = self
            .coordinator
            .rule(&who, &request.team, Touches::Board(Some(request.task_id)), |tx| edit::update(tx, &who, &request))
            .await?;
        Ok(Response::new(v1::UpdateTaskResponse { task: Some(task) }))
    }

    async fn claim_task(
        &self,
        request: Request<v1::ClaimTaskRequest>,
    ) -> Result<Response<v1::ClaimTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let claim = self
            .coordinator
            .rule(&who, "", Touches::Board(Some(request.task_id)), |tx| claim::claim(tx, &who, &request))
            .await?;
        Ok(Response::new(v1::ClaimTaskResponse { claim: Some(claim) }))
    }

    async fn claim_next_task(
        &self,
        request: Request<v1::ClaimNextTaskRequest>,
    ) -> Result<Response<v1::ClaimNextTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let waits = request.wait.is_some_and(|wait| wait.seconds > 0 || wait.nanos > 0);
        let waited = async {
            let claimed = self.coordinator.claim_next_task(&who, &request);
            if !waits || who.credential.team().is_none() {
                return claimed.await;
            }
            // Authenticates the caller, who gives heartbeats from here on.
            self.coordinator.rule(&who, "", Touches::Team, |tx| team::get(tx, &who, "")).await?;
            self.heartbeats.while_waiting(&who, self.while_signed_in(&who, claimed)).await
        };
        // A waiting caller does not keep a coordinator from draining: it can ask the next one.
        let claim = match self.draining.run_until_cancelled(waited).await {
            Some(claim) => claim?,
            None => return Err(services::draining().into()),
        };
        Ok(Response::new(v1::ClaimNextTaskResponse { claim }))
    }

    async fn complete_task(
        &self,
        request: Request<v1::CompleteTaskRequest>,
    ) -> Result<Response<v1::CompleteTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let completed = self
            .coordinator
            .rule(&who, &request.team, Touches::Board(Some(request.task_id)), |tx| claim::complete(tx, &who, &request))
            .await?;
        Ok(Response::new(completed))
    }

    async fn release_task(
        &self,
        request: Request<v1::ReleaseTaskRequest>,
    ) -> Result<Response<v1::ReleaseTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let task = self
            .coordinator
            .rule(&who, &request.team, Touches::Board(Some(request.task_id)), |tx| claim::release(tx, &who, &request))
            .await?;
        Ok(Response::new(v1::ReleaseTaskResponse { task: Some(task) }))
    }

    async fn delete_task(
        &self,
        request: Request<v1::DeleteTaskRequest>,
    ) -> Result<Response<v1::DeleteTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let unblocked = self
            .coordinator
            .rule(&who, &request.team, Touches::Board(Some(request.task_id)), |tx| {
                edit::delete(tx, &who, &request.team, request.task_id)
            })
            .await?;
        Ok(Response::new(v1::DeleteTaskResponse { unblocked }))
    }
}

/// The board, and then its changes.
struct Board {
    coordinator: Arc<Coordinator>,
    who: Arc<CallerCredentials>,
    team: String,
    /// The page to show next. `None` if all was shown, and changes follow.
    listing: Option<v1::ListTasksRequest>,
    /// How far the history was searched for changes.
    seen: u64,
    /// Tasks that have changed and were not shown since.
    changed: VecDeque<u64>,
}

#[tonic::async_trait]
impl Followed for Board {
    type Frame = v1::FollowTasksResponse;

    async fn next(&mut self) -> Result<(Vec<Self::Frame>, bool), Refusal> {
        let frame = |task| v1::FollowTasksResponse { task: Some(task), caught_up: false };
        let Some(request) = &mut self.listing else {
            let (tasks, has_more) = self.changes().await?;
            return Ok((tasks.into_iter().map(frame).collect(), has_more));
        };
        let page = self.coordinator.list_tasks_within(&self.who, request, READ_BYTES_MAX).await?;
        request.page_token = page.next_page_token;
        let mut frames: Vec<_> = page.tasks.into_iter().map(frame).collect();
        if request.page_token.is_empty() {
            self.listing = None;
            frames.push(v1::FollowTasksResponse { task: None, caught_up: true });
        }
        Ok((frames, true))
    }
}

impl Board {
    /// Returns the current state of some tasks that have changed, and whether there may be more.
    async fn changes(&mut self) -> Result<(Vec<v1::Task>, bool), Refusal> {
        let namespace = self.coordinator.may_see_tasks(&self.who, &self.team).await?;
        let mut has_more = true;
        if self.changed.is_empty() {
            let (ids, looked_to) = self.coordinator.changed_tasks(&namespace, self.seen).await?;
            has_more = looked_to != self.seen;
            (self.seen, self.changed) = (looked_to, ids.into());
        }
        let ids: Vec<u64> = self.changed.drain(..self.changed.len().min(SHOWN_AT_ONCE)).collect();
        let tasks = self.coordinator.show_tasks(&namespace, &ids).await?;
        // Tasks that waited for a closed task have changed, too.
        let mut known: HashSet<u64> = self.changed.iter().chain(&ids).copied().collect();
        let waited = tasks.iter().filter(|task| task.closed_at.is_some()).flat_map(|task| &task.blocks);
        self.changed.extend(waited.copied().filter(|id| known.insert(*id)));
        Ok((tasks, has_more))
    }
}
