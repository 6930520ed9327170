//! Carries out what the program writes.

use serde_json::{Value, json};
use teamwire_client::Error;
use teamwire_proto::{Reason, Refusal};

use super::{
    Incarnation,
    responder::{Action, Done},
};
use crate::{
    event::RunnerEvent,
    line_protocol::{input_lines, output_parser::OutputLine},
};

impl Incarnation<'_> {
    /// Takes a line that the program wrote, and returns the reply if there is one at once.
    ///
    /// A line that needs a call starts it; the reply then comes from [`Incarnation::next`]. Must not be called while
    /// [`Incarnation::can_listen`] is false.
    pub(crate) fn handle_line(&mut self, line: &[u8]) -> Option<Value> {
        match std::str::from_utf8(line).map_or(OutputLine::Other, OutputLine::parse) {
            OutputLine::Other => {
                self.pass(line);
                self.pass(b"\n");
                None
            }
            OutputLine::Ack(ids) => self.acknowledge(&ids),
            OutputLine::Complete(id, result, written) => {
                self.start(Action::Complete(id, result), written);
                None
            }
            OutputLine::Release(id, reason, written) => {
                self.start(Action::Release(id, reason), written);
                None
            }
            OutputLine::Send(request, written) => match *request {
                Ok(request) => {
                    self.start(Action::Send(Box::new(request)), written);
                    None
                }
                Err(refusal) => Some(self.refused(&refusal, written)),
            },
        }
    }

    /// Starts a call for the program. Its reply comes from [`Incarnation::next`] or [`Incarnation::carry_on`].
    pub(crate) fn start(&mut self, action: Action, written: Value) {
        let claim_token = match &action {
            Action::Complete(id, _) | Action::Release(id, _) => self.in_flight.task_token(*id).map(str::to_owned),
            Action::Send(_) => None,
        };
        self.responder.start(action, claim_token, written);
    }

    /// Passes a part of the program's output on.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.passthrough.push(bytes);
    }

    /// Acknowledges messages, and returns a reply only if one of them is unknown.
    fn acknowledge(&mut self, ids: &[String]) -> Option<Value> {
        let unknown: Vec<&String> = ids.iter().filter(|id| !self.in_flight.processed(id)).collect();
        let first = unknown.first()?;
        let message =
            format!("You were not given message {first:?}. Acknowledge the \"id\" of a message that you were given.");
        let refusal = Refusal::new(Reason::MessageNotFound, message).field("ack");
        Some(self.refused(&refusal, json!({ "ack": ids })))
    }

    /// Records the outcome of an action, and returns the reply for the program.
    pub(super) fn conclude(&mut self, done: Done) -> Value {
        let Done { action, result, written } = done;
        match (action, result) {
            (Action::Send(request), Ok(response)) => {
                self.in_flight.sent(&request);
                input_lines::sent(&response, written)
            }
            (Action::Complete(task_id, _), Ok(_)) => {
                self.in_flight.drop_task(task_id);
                input_lines::task_closed("completed", task_id, written)
            }
            (Action::Release(task_id, _), Ok(_)) => {
                self.in_flight.drop_task(task_id);
                input_lines::task_closed("released", task_id, written)
            }
            (Action::Complete(task_id, _) | Action::Release(task_id, _), Err(error)) => {
                // The task is no longer the member's, or never was.
                if matches!(error.reason(), Some(Reason::StaleClaim | Reason::TaskClosed | Reason::TaskClaimed)) {
                    self.in_flight.drop_task(task_id);
                }
                self.failed(&error, written)
            }
            (Action::Send(_), Err(error)) => self.failed(&error, written),
        }
    }

    fn failed(&self, error: &Error, written: Value) -> Value {
        let reason = match error {
            Error::Refused(refusal) => return self.refused(refusal, written),
            Error::OutcomeUnknown { .. } => "OUTCOME_UNKNOWN",
            _ => "UNREACHABLE",
        };
        self.tell(RunnerEvent::NotSent { detail: error.to_string() });
        input_lines::failed(reason, &error.to_string(), written)
    }

    fn refused(&self, refusal: &Refusal, written: Value) -> Value {
        self.tell(RunnerEvent::NotSent { detail: format!("{}: {refusal}", refusal.reason) });
        input_lines::refused(refusal, written)
    }
}
