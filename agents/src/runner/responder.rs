//! Carries out what a program says.

use std::sync::Arc;

use serde_json::{Value, json};
use teamwire_proto::{Reason, Refusal, v1};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::Mutex,
};

use super::{RunnerEvent, config::OnEvent, in_flight::InFlight, task_claimer};
use crate::adapters::output_parser::OutputLine;
use teamwire_client::{Client, Error};

/// Where a program's lines go that are not meant for the runner.
pub(crate) type Output = Arc<Mutex<Box<dyn AsyncWrite + Send + Sync + Unpin>>>;

/// Speaks for a program, with the credential of its member.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(crate) client: Client,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) output: Output,
    pub(crate) on_event: OnEvent,
}

impl Responder {
    /// Carries a line out and returns what the program is told of it. None: nothing.
    pub(crate) async fn say(&self, line: &[u8]) -> Option<Value> {
        let speech = std::str::from_utf8(line).map_or(OutputLine::Other, OutputLine::of);
        match speech {
            OutputLine::Other => {
                self.pass(line).await;
                self.pass(b"\n").await;
                None
            }
            OutputLine::Ack(ids) => self.ack(&ids),
            OutputLine::Complete(id, result, written) => Some(self.complete(id, result, written).await),
            OutputLine::Release(id, reason, written) => Some(self.release(id, reason, written).await),
            OutputLine::Send(request, written) => Some(match *request {
                Ok(request) => self.send(request, written).await,
                Err(refusal) => self.refused(&refusal, written),
            }),
        }
    }

    /// Lets bytes through.
    pub(crate) async fn pass(&self, bytes: &[u8]) {
        let mut output = self.output.lock().await;
        // An output that nobody reads any more is no reason to end a member of a team.
        if output.write_all(bytes).await.is_ok() {
            let _ = output.flush().await;
        }
    }

    /// Sends a message and returns what the program is told of it.
    pub(crate) async fn send(&self, request: v1::SendRequest, written: Value) -> Value {
        match self.client.send(request.clone()).await {
            Ok(response) => {
                self.in_flight.sent(&request);
                sent(&response, written)
            }
            Err(error) => self.failed(&error, written),
        }
    }

    /// Completes a task and returns what the program is told of it.
    pub(crate) async fn complete(&self, task_id: u64, result: String, written: Value) -> Value {
        let completed = async {
            let claim_token = self.claim_token(task_id).await?;
            let request = v1::CompleteTaskRequest { task_id, claim_token, result, ..Default::default() };
            self.client.complete_task(request).await
        };
        match completed.await {
            Ok(_) => self.dealt_with("completed", task_id, written),
            Err(error) => self.failed_on(task_id, &error, written),
        }
    }

    /// Gives a task back and returns what the program is told of it.
    pub(crate) async fn release(&self, task_id: u64, reason: String, written: Value) -> Value {
        let released = async {
            let claim_token = self.claim_token(task_id).await?;
            let request = v1::ReleaseTaskRequest { task_id, claim_token, reason, ..Default::default() };
            self.client.release_task(request).await
        };
        match released.await {
            Ok(_) => self.dealt_with("released", task_id, written),
            Err(error) => self.failed_on(task_id, &error, written),
        }
    }

    /// Returns the token of a task that the runner or the program has taken.
    async fn claim_token(&self, task_id: u64) -> Result<String, Error> {
        match self.in_flight.task_token(task_id) {
            Some(token) => Ok(token),
            None => Ok(self.client.get_task(v1::GetTaskRequest { task_id, ..Default::default() }).await?.claim_token),
        }
    }

    fn dealt_with(&self, kind: &str, task_id: u64, written: Value) -> Value {
        self.in_flight.drop_task(task_id);
        task_claimer::told(kind, task_id, written)
    }

    fn failed_on(&self, task_id: u64, error: &Error, written: Value) -> Value {
        // It is not the member's any more, or never was.
        if matches!(error.reason(), Some(Reason::StaleClaim | Reason::TaskClosed | Reason::TaskClaimed)) {
            self.in_flight.drop_task(task_id);
        }
        self.failed(error, written)
    }

    fn ack(&self, ids: &[String]) -> Option<Value> {
        let unknown: Vec<&String> = ids.iter().filter(|id| !self.in_flight.ack(id)).collect();
        let first = unknown.first()?;
        let message = format!("You were given no message {first:?}. Give the id of a message as it was given to you.");
        Some(self.refused(&Refusal::new(Reason::MessageNotFound, message).field("ack"), json!({ "ack": ids })))
    }

    fn failed(&self, error: &Error, written: Value) -> Value {
        if let Error::Refused(refusal) = error {
            return self.refused(refusal, written);
        }
        let reason = match error {
            Error::OutcomeUnknown { .. } => "OUTCOME_UNKNOWN",
            _ => "UNREACHABLE",
        };
        (self.on_event)(&RunnerEvent::NotSent { detail: error.to_string() });
        json!({"type": "error", "reason": reason, "message": error.to_string(), "request": written})
    }

    fn refused(&self, refusal: &Refusal, written: Value) -> Value {
        (self.on_event)(&RunnerEvent::NotSent { detail: format!("{}: {refusal}", refusal.reason) });
        let mut told = json!({"type": "error", "reason": refusal.reason.as_str(), "message": refusal.message});
        if let Some(field) = &refusal.field {
            told["field"] = json!(field);
        }
        if !refusal.metadata.is_empty() {
            told["metadata"] = json!(refusal.metadata);
        }
        told["request"] = written;
        told
    }
}

fn sent(response: &v1::SendResponse, written: Value) -> Value {
    let mut told = json!({"type": "sent", "message_id": response.message_id, "recipients": response.recipients});
    if !response.request_id.is_empty() {
        told["request_id"] = json!(response.request_id);
    }
    if !response.warnings.is_empty() {
        told["warnings"] = json!(response.warnings);
    }
    told["request"] = written;
    told
}
