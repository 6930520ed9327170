//! The task board: adding and claiming tasks, and following the board.

use std::time::Duration;

use teamwire_proto::{Method, v1};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    Client, Error,
    client::{Call, tasks},
    follow::Follower,
};

/// How long one call waits for a task: the coordinator's own bound.
const WAIT_MAX: Duration = Duration::from_secs(60);

impl Client {
    /// Adds a task, under the idempotency key that it has or a new one.
    pub async fn create_task(&self, mut request: v1::CreateTaskRequest) -> Result<v1::CreateTaskResponse, Error> {
        self.fill(&mut request.team);
        let call = repeatable(Method::CreateTask, &mut request.idempotency_key);
        self.call(call, request, |channel, request| async move { tasks(channel).create_task(request).await }).await
    }

    /// Claims one task. A repeated attempt is given the same token.
    pub async fn claim_task(&self, task_id: u64) -> Result<v1::ClaimTaskResponse, Error> {
        let mut request = v1::ClaimTaskRequest { task_id, idempotency_key: String::new() };
        let call = repeatable(Method::ClaimTask, &mut request.idempotency_key);
        self.call(call, request, |channel, request| async move { tasks(channel).claim_task(request).await }).await
    }

    /// Claims the task that the caller should do next, and waits for one first: up to `patience`, however long that is.
    /// `None`: there was none.
    pub async fn claim_next_task(&self, patience: Duration) -> Result<Option<v1::Claim>, Error> {
        let began = Instant::now();
        let mut delays = self.retry().delays();
        loop {
            let wait = patience.saturating_sub(began.elapsed()).min(WAIT_MAX);
            let called = Instant::now();
            let mut request = v1::ClaimNextTaskRequest {
                idempotency_key: String::new(),
                wait: prost_types::Duration::try_from(wait).ok(),
            };
            let call = repeatable(Method::ClaimNextTask, &mut request.idempotency_key).waiting(wait);
            let asked = self
                .call(call, request, |channel, request| async move { tasks(channel).claim_next_task(request).await });
            if let Some(claim) = asked.await?.claim {
                return Ok(Some(claim));
            }
            if began.elapsed() >= patience {
                return Ok(None);
            }
            // A coordinator that is about to go away may answer early.
            if called.elapsed() < wait {
                sleep(delays.next()).await;
            }
        }
    }

    /// Follows the board: every task once, then every change. Nothing is sent before the first [`TaskFollower::next`].
    pub fn follow_tasks(&self, mut request: v1::FollowTasksRequest) -> TaskFollower {
        self.fill(&mut request.team);
        TaskFollower(Follower::new(self, Method::FollowTasks, request, |channel, request| {
            Box::pin(async move { tasks(channel).follow_tasks(request).await })
        }))
    }
}

fn repeatable(method: Method, key: &mut String) -> Call {
    if key.is_empty() {
        *key = Uuid::now_v7().to_string();
    }
    Call::of(method).with_key(key)
}

/// The task board as it changes. Reconnects by itself, and then begins with every task again.
#[derive(Debug)]
pub struct TaskFollower(Follower<v1::FollowTasksRequest, v1::FollowTasksResponse>);

impl TaskFollower {
    /// Returns the next frame, and waits for it first. After an error, which is a refusal, there is nothing more.
    pub async fn next(&mut self) -> Option<Result<v1::FollowTasksResponse, Error>> {
        self.0.next().await
    }
}
