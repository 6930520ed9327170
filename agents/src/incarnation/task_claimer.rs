//! Claims tasks for the member, one at a time, while it has nothing else to do.
//!
//! When the incarnation ends, the coordinator puts a claimed task back on the board, so this module does not.

use std::{future::pending, time::Duration};

use teamwire_client::{Client, Error};
use teamwire_proto::{
    Reason,
    v1::{self, TaskStatus},
};
use tokio::time::{Instant, sleep_until};

use super::{
    background::{Background, finished, start},
    in_flight::InFlight,
};

/// How long one call for the next task waits at the coordinator.
const QUESTION_DEADLINE: Duration = Duration::from_secs(60);

/// How often to check whether the program has closed its task without the runner, as with `teamwire task complete`.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How long to wait after a refused call: a plan may have to be approved first.
const REFUSED_DELAY: Duration = Duration::from_secs(2);

/// Claims tasks as long as it is polled.
#[derive(Debug)]
pub(crate) struct TaskClaimer {
    client: Client,
    state: ClaimState,
    /// Why the last call failed. Reported once, not with every call.
    last_failure: Option<Option<Reason>>,
}

#[derive(Debug)]
enum ClaimState {
    /// It claims none.
    Off,
    /// It asks once the member is free.
    Ready,
    /// A call is under way. It runs in its own task, because an abandoned call may still claim a task.
    Asking(Background<Result<Option<v1::Claim>, Error>>),
    /// The last call failed.
    WaitingUntil(Instant),
    /// The member has this task.
    Holding { task_id: u64, token: String, check_at: Instant },
    /// It is checking whether the member still has this task.
    Checking { task_id: u64, token: String, reply: Background<Result<v1::GetTaskResponse, Error>> },
}

/// News from the claimer.
#[derive(Debug)]
pub(crate) enum Found {
    /// A task for the member.
    Task(Box<v1::Claim>),
    /// No task can be claimed just now, for this reason.
    NoTask(Error),
    /// The member's task was closed, but not by the runner.
    Closed(u64),
    /// The member's task is no longer its own.
    Lost(u64),
}

impl TaskClaimer {
    /// Creates a claimer, which claims nothing if `is_on` is false.
    pub(crate) fn new(client: Client, is_on: bool) -> Self {
        Self { client, state: if is_on { ClaimState::Ready } else { ClaimState::Off }, last_failure: None }
    }

    /// Waits for the next task, or for news of the one that the member has. Cancel-safe.
    pub(crate) async fn next(&mut self, in_flight: &InFlight) -> Found {
        loop {
            match &mut self.state {
                ClaimState::Off => return pending().await,
                // What is in flight changes only between two calls of this function.
                ClaimState::Ready if !in_flight.is_free() => return pending().await,
                ClaimState::Ready => {
                    let client = self.client.clone();
                    let question = async move { client.claim_next_task(QUESTION_DEADLINE).await };
                    self.state = ClaimState::Asking(start(question));
                }
                ClaimState::Asking(question) => {
                    let answer = finished(question).await;
                    if let Some(found) = self.answered(answer) {
                        return found;
                    }
                }
                ClaimState::WaitingUntil(at) => {
                    sleep_until(*at).await;
                    self.state = ClaimState::Ready;
                }
                ClaimState::Holding { task_id, .. } if in_flight.task_token(*task_id).is_none() => {
                    self.state = ClaimState::Ready
                }
                ClaimState::Holding { task_id, token, check_at } => {
                    sleep_until(*check_at).await;
                    let (client, task_id) = (self.client.clone(), *task_id);
                    let request = v1::GetTaskRequest { task_id, ..Default::default() };
                    let reply = start(async move { client.get_task(request).await });
                    self.state = ClaimState::Checking { task_id, token: std::mem::take(token), reply };
                }
                ClaimState::Checking { task_id, token, reply } => {
                    let reply = finished(reply).await;
                    let (task_id, token) = (*task_id, std::mem::take(token));
                    self.state = ClaimState::Ready;
                    match reply {
                        Ok(reply) if is_done(&reply) => return Found::Closed(task_id),
                        Ok(reply) if reply.claim_token == token => self.hold(task_id, token),
                        Ok(_) => return Found::Lost(task_id),
                        Err(error) if error.reason() == Some(Reason::TaskNotFound) => return Found::Closed(task_id),
                        Err(_) => self.hold(task_id, token),
                    }
                }
            }
        }
    }

    fn answered(&mut self, answer: Result<Option<v1::Claim>, Error>) -> Option<Found> {
        self.state = ClaimState::Ready;
        match answer {
            Ok(Some(claim)) => {
                self.last_failure = None;
                self.hold(claim.task.as_ref().map_or(0, |task| task.id), claim.token.clone());
                Some(Found::Task(Box::new(claim)))
            }
            Ok(None) => None,
            Err(error) => {
                self.state = ClaimState::WaitingUntil(Instant::now() + REFUSED_DELAY);
                let reason = error.reason();
                (self.last_failure.replace(reason) != Some(reason)).then_some(Found::NoTask(error))
            }
        }
    }

    fn hold(&mut self, task_id: u64, token: String) {
        self.state = ClaimState::Holding { task_id, token, check_at: Instant::now() + CHECK_INTERVAL };
    }
}

/// Returns how long to wait before the next task after so many failures in a row: 1 s, doubling, to 60 s.
pub(crate) fn delay_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

/// Returns whether the member has completed a task, which may await its review.
fn is_done(reply: &v1::GetTaskResponse) -> bool {
    let status = reply.task.as_ref().map(v1::Task::status);
    matches!(status, Some(TaskStatus::Completed | TaskStatus::InReview))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_claims_tasks_ever_more_slowly() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 99].map(|n| delay_after(n).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
