//! Takes tasks off the board while the member has nothing else in hand, one at a time.
//!
//! A task goes back to the board by itself when the life of the member ends, so nothing has to be done for it here.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use teamwire_proto::{
    Reason,
    v1::{self, TaskStatus},
};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{RunnerEvent, config::OnEvent, heartbeat::Work, in_flight::InFlight};
use teamwire_client::{Client, Error};

use crate::text;

/// How long one question for a task waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked whether the program has dealt with its task by another way than the runner.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long to wait after a question was refused: a plan may have to be approved first.
const REFUSED_DELAY: Duration = Duration::from_secs(2);

/// Takes tasks for as long as it is kept.
pub(crate) struct TaskClaimer {
    claims: mpsc::Receiver<v1::Claim>,
    _taking: Option<AbortOnDropHandle<()>>,
}

impl TaskClaimer {
    /// Takes tasks for the member. On a task of its own: a question that is given up half way could have taken one.
    pub(crate) fn start(client: Client, in_flight: Arc<InFlight>, on_event: OnEvent) -> Self {
        let (sender, claims) = mpsc::channel(1);
        let taking = Taking { client, in_flight, on_event };
        Self { claims, _taking: Some(AbortOnDropHandle::new(tokio::spawn(taking.run(sender)))) }
    }

    /// Takes none.
    pub(crate) fn none() -> Self {
        Self { claims: mpsc::channel(1).1, _taking: None }
    }

    /// Returns a task that was just claimed. Waits for ever where none are taken.
    pub(crate) async fn next(&mut self) -> v1::Claim {
        match self.claims.recv().await {
            Some(claim) => claim,
            None => std::future::pending().await,
        }
    }
}

struct Taking {
    client: Client,
    in_flight: Arc<InFlight>,
    on_event: OnEvent,
}

impl Taking {
    async fn run(self, claims: mpsc::Sender<v1::Claim>) {
        let mut work = self.in_flight.work();
        let mut said = None;
        loop {
            if work.wait_for(Work::is_free).await.is_err() {
                return;
            }
            match self.client.claim_next_task(PATIENCE).await {
                Ok(Some(claim)) => {
                    said = None;
                    let id = claim.task.as_ref().map_or(0, |task| task.id);
                    self.in_flight.take_task(id, &claim.token);
                    (self.on_event)(&RunnerEvent::TaskTaken { task_id: id });
                    let token = claim.token.clone();
                    if claims.send(claim).await.is_err() {
                        return;
                    }
                    self.await_end(id, &token, &mut work).await;
                }
                Ok(None) => {}
                Err(error) => {
                    let reason = error.reason();
                    // Said once, and not again with every question.
                    if said.replace(reason) != Some(reason) {
                        (self.on_event)(&RunnerEvent::NoTask { detail: error.to_string() });
                    }
                    sleep(REFUSED_DELAY).await;
                }
            }
        }
    }

    /// Returns when the program is through with the task, or the task is not the member's any more.
    async fn await_end(&self, id: u64, token: &str, work: &mut watch::Receiver<Work>) {
        loop {
            let is_dealt_with = timeout(LOOK_EVERY, work.wait_for(|work| work.tasks == 0)).await.is_ok();
            if is_dealt_with {
                return;
            }
            let request = v1::GetTaskRequest { task_id: id, ..Default::default() };
            match self.client.get_task(request).await {
                Ok(reply) if reply.claim_token == token => {}
                Ok(reply) => {
                    let is_done = reply.task.is_some_and(|task| task.status() == TaskStatus::Completed);
                    if !is_done {
                        (self.on_event)(&RunnerEvent::TaskGone { task_id: id });
                    }
                    return self.in_flight.drop_task(id);
                }
                Err(Error::Refused(refusal)) if refusal.reason == Reason::TaskNotFound => {
                    return self.in_flight.drop_task(id);
                }
                Err(_) => {}
            }
        }
    }
}

/// Writes a task as the line that a program reads.
pub(crate) fn line(claim: &v1::Claim) -> String {
    let task = claim.task.clone().unwrap_or_default();
    let line = json!({
        "type": "task",
        "task_id": task.id,
        "subject": task.subject,
        "description": task.description,
        "metadata": task.metadata.iter().collect::<std::collections::BTreeMap<_, _>>(),
        "attempt": task.attempts,
        "claim_token": claim.token,
        "text": text::task(&task),
    });
    format!("{line}\n")
}

/// What a program is told when its task is dealt with.
pub(crate) fn told(kind: &str, task_id: u64, written: Value) -> Value {
    json!({"type": kind, "task_id": task_id, "request": written})
}

/// How long to wait before the next task after so many failures in a row: 1 s, doubling, to 60 s.
pub(crate) fn delay_after(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_takes_tasks_ever_more_slowly() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 99].map(|n| delay_after(n).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn a_task_is_a_line_with_all_that_is_needed() {
        let task =
            v1::Task { id: 7, subject: "a < b".into(), description: "x\ny".into(), attempts: 2, ..Default::default() };
        let line = line(&v1::Claim { task: Some(task), token: "t".into() });
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&read["task_id"], &read["claim_token"], &read["attempt"]), (&json!(7), &json!("t"), &json!(2)));
        assert!(read["text"].as_str().expect("a text").contains("a &lt; b"));
    }
}
