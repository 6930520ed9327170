//! `TaskService`.

use std::{collections::BTreeSet, pin::Pin, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    v1::{self, task_service_server::TaskService},
};
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use super::Services;
use crate::domain::identity::{Presented, team_not_found};

/// How many frames wait for a client that follows.
const FRAMES_MAX: usize = 32;

/// How often a follower looks by itself, in case a hint was lost.
const POLL: Duration = Duration::from_secs(2);

type Frames = Pin<Box<dyn Stream<Item = Result<v1::FollowTasksResponse, Status>> + Send>>;

#[tonic::async_trait]
impl TaskService for Services {
    type FollowTasksStream = Frames;

    async fn create_task(
        &self,
        request: Request<v1::CreateTaskRequest>,
    ) -> Result<Response<v1::CreateTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let created = self.coordinator.create_task(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(created))
    }

    async fn get_task(&self, request: Request<v1::GetTaskRequest>) -> Result<Response<v1::GetTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let found = self.coordinator.get_task(&who, &request.team, request.task_id).await?;
        self.heard_of(&who);
        Ok(Response::new(found))
    }

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let list = self.coordinator.list_tasks(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(list))
    }

    async fn follow_tasks(&self, request: Request<v1::FollowTasksRequest>) -> Result<Response<Frames>, Status> {
        let (who, request) = self.open(request).await?;
        // Refused at once rather than in the stream.
        self.coordinator.may_see_tasks(&who, &request.team).await?;
        let (frames, out) = mpsc::channel(FRAMES_MAX);
        let services = self.clone();
        tokio::spawn(async move {
            let followed = services.follow_board(&who, &request.team, &frames);
            let refusal = match services.draining.run_until_cancelled(followed).await {
                Some(Ok(())) => return,
                Some(Err(refusal)) => refusal,
                None => Refusal::new(Reason::Draining, "This coordinator is going away. Follow at another one."),
            };
            let _ = frames.send(Err(refusal.into())).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(out))))
    }

    async fn update_task(
        &self,
        request: Request<v1::UpdateTaskRequest>,
    ) -> Result<Response<v1::UpdateTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let task = self.coordinator.update_task(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(v1::UpdateTaskResponse { task: Some(task) }))
    }

    async fn claim_task(
        &self,
        request: Request<v1::ClaimTaskRequest>,
    ) -> Result<Response<v1::ClaimTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let claim = self.coordinator.claim_task(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(v1::ClaimTaskResponse { claim: Some(claim) }))
    }

    async fn claim_next_task(
        &self,
        request: Request<v1::ClaimNextTaskRequest>,
    ) -> Result<Response<v1::ClaimNextTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        if request.wait.is_some() && who.credential.team().is_some() {
            // Whoever waits is alive all the while; but not before it is known to be who it says.
            self.coordinator.get_team(&who, "").await?;
            self.heard_of(&who);
        }
        let waited = self.coordinator.claim_next_task(&who, &request);
        // A caller that waits is no reason for a coordinator to stay: it asks the next one.
        let claim = match self.draining.run_until_cancelled(waited).await {
            Some(claim) => claim?,
            None => return Err(super::draining().into()),
        };
        self.heard_of(&who);
        Ok(Response::new(v1::ClaimNextTaskResponse { claim }))
    }

    async fn complete_task(
        &self,
        request: Request<v1::CompleteTaskRequest>,
    ) -> Result<Response<v1::CompleteTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let completed = self.coordinator.complete_task(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(completed))
    }

    async fn release_task(
        &self,
        request: Request<v1::ReleaseTaskRequest>,
    ) -> Result<Response<v1::ReleaseTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let task = self.coordinator.release_task(&who, &request).await?;
        self.heard_of(&who);
        Ok(Response::new(v1::ReleaseTaskResponse { task: Some(task) }))
    }

    async fn delete_task(
        &self,
        request: Request<v1::DeleteTaskRequest>,
    ) -> Result<Response<v1::DeleteTaskResponse>, Status> {
        let (who, request) = self.open(request).await?;
        let unblocked = self.coordinator.delete_task(&who, &request.team, request.task_id).await?;
        self.heard_of(&who);
        Ok(Response::new(v1::DeleteTaskResponse { unblocked }))
    }
}

impl Services {
    /// Sends the board and then its changes, until the client is gone or no more can come.
    async fn follow_board(
        &self,
        who: &Presented,
        named: &str,
        frames: &mpsc::Sender<Result<v1::FollowTasksResponse, Status>>,
    ) -> Result<(), Refusal> {
        let space = self.coordinator.may_see_tasks(who, named).await?;
        let mut watch = self.coordinator.hub().watch_tasks(&space);
        let mut seen = self.coordinator.history_end(&space).await?;
        let mut request = v1::ListTasksRequest { team: named.to_owned(), ..Default::default() };
        loop {
            let page = self.coordinator.list_tasks(who, &request).await?;
            for task in page.tasks {
                let frame = v1::FollowTasksResponse { task: Some(task), caught_up: false };
                if frames.send(Ok(frame)).await.is_err() {
                    return Ok(());
                }
            }
            request.after_id = page.next_after_id;
            if !page.more {
                break;
            }
        }
        let caught_up = v1::FollowTasksResponse { task: None, caught_up: true };
        if frames.send(Ok(caught_up)).await.is_err() {
            return Ok(());
        }
        loop {
            watch.mark_unchanged();
            match self.changes(who, named, seen).await {
                Ok((tasks, looked_to)) => {
                    self.heard_of(who);
                    for task in tasks {
                        let frame = v1::FollowTasksResponse { task: Some(task), caught_up: false };
                        if frames.send(Ok(frame)).await.is_err() {
                            return Ok(());
                        }
                    }
                    if std::mem::replace(&mut seen, looked_to) != looked_to {
                        continue;
                    }
                }
                Err(refusal) if refusal.reason == Reason::StoreUnavailable => {}
                // The credential of a team that is gone is worth nothing; here that is known to be why.
                Err(refusal) if refusal.reason == Reason::CredentialInvalid => {
                    return Err(team_not_found(space.as_str()));
                }
                Err(refusal) => return Err(refusal),
            }
            tokio::select! {
                _ = watch.changed() => {}
                () = sleep(POLL) => {}
                () = frames.closed() => return Ok(()),
            }
        }
    }

    async fn changes(&self, who: &Presented, named: &str, seen: u64) -> Result<(Vec<v1::Task>, u64), Refusal> {
        let space = self.coordinator.may_see_tasks(who, named).await?;
        let (ids, looked_to) = self.coordinator.changed_tasks(&space, seen).await?;
        let mut tasks = self.coordinator.show_tasks(&space, &ids).await?;
        // What waited for a task that is closed looks different now.
        let closed = tasks.iter().filter(|task| task.closed_at.is_some());
        let waited: BTreeSet<u64> = closed.flat_map(|task| &task.blocks).copied().collect();
        let waited: Vec<u64> = waited.into_iter().filter(|id| !ids.contains(id)).collect();
        tasks.extend(self.coordinator.show_tasks(&space, &waited).await?);
        Ok((tasks, looked_to))
    }
}
