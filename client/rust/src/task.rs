//! The task board: adds and claims tasks, and follows the board.

use std::time::Duration;

use teamwire_proto::{Method, Wait, v1};
use tokio::time::{Instant, sleep};

use crate::{
    Client, Error,
    client::{Call, tasks, time_left},
    follow::Follower,
};

/// How long one call waits for a task.
const WAIT: Wait = Method::ClaimNextTask.wait().expect("a call that waits");

impl Client {
    /// Adds a task, with the request's idempotency key or a new one.
    pub async fn create_task(&self, mut request: v1::CreateTaskRequest) -> Result<v1::CreateTaskResponse, Error> {
        self.fill(&mut request.team);
        let call = self.repeatable(Method::CreateTask, &mut request.idempotency_key);
        self.call(call, request, |channel, request| async move { tasks(channel).create_task(request).await }).await
    }

    /// Claims one task. A retry returns the same token.
    pub async fn claim_task(&self, task_id: u64) -> Result<v1::ClaimTaskResponse, Error> {
        let mut request = v1::ClaimTaskRequest { task_id, idempotency_key: String::new() };
        let call = self.repeatable(Method::ClaimTask, &mut request.idempotency_key);
        self.call(call, request, |channel, request| async move { tasks(channel).claim_task(request).await }).await
    }

    /// Claims the task that the caller should do next, and waits up to `patience` for one. `None` if there was none.
    ///
    /// Dropping the future does not undo a claim that the coordinator has already made.
    pub async fn claim_next_task(&self, patience: Duration) -> Result<Option<v1::Claim>, Error> {
        let until = Instant::now().checked_add(patience);
        let mut delays = self.retry().delays();
        loop {
            let wait = time_left(until).min(WAIT.max);
            let called = Instant::now();
            let mut request = v1::ClaimNextTaskRequest::default();
            // A coordinator that does not answer must not make the wait longer.
            let call = self.repeatable(Method::ClaimNextTask, &mut request.idempotency_key).waiting(wait).until(until);
            let asked = self.call(call, request, |channel, mut request| {
                let wait = time_left(until).min(WAIT.max);
                request.get_mut().wait = prost_types::Duration::try_from(wait).ok();
                async move { tasks(channel).claim_next_task(request).await }
            });
            if let Some(claim) = asked.await?.claim {
                return Ok(Some(claim));
            }
            if time_left(until).is_zero() {
                return Ok(None);
            }
            // A coordinator that drains may answer early.
            if called.elapsed() < wait {
                sleep(delays.next()).await;
            }
        }
    }

    /// Follows the board: every task once, then every change. Sends nothing before the first [`TaskFollower::next`].
    pub fn follow_tasks(&self, mut request: v1::FollowTasksRequest) -> TaskFollower {
        self.fill(&mut request.team);
        TaskFollower(Follower::new(self, Method::FollowTasks, request, |channel, request| {
            Box::pin(async move { tasks(channel).follow_tasks(request).await })
        }))
    }

    fn repeatable(&self, method: Method, key: &mut String) -> Call {
        Call::of(method).with_key(&self.key(key))
    }
}

/// The task board as it changes. Reconnects automatically, and then starts over with every task.
#[derive(Debug)]
pub struct TaskFollower(Follower<v1::FollowTasksRequest, v1::FollowTasksResponse>);

impl TaskFollower {
    /// Waits for the next frame. An error is final: None follows.
    pub async fn next(&mut self) -> Option<Result<v1::FollowTasksResponse, Error>> {
        self.0.next().await
    }
}
