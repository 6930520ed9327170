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
    line_protocol::{input_lines, lines::LINE_BYTES_MAX, output_parser::OutputLine},
    pending_replies::Answerable,
};

/// How much of a refused line is logged, in characters.
const LOGGED_CHARS_MAX: usize = 200;

impl Incarnation<'_> {
    /// Takes a line that the program wrote, and returns the reply if there is one at once.
    ///
    /// A line that needs a call starts it; the reply then comes from [`Incarnation::next`]. Must not be called while
    /// [`Incarnation::can_listen`] is false.
    pub(crate) fn handle_line(&mut self, line: &[u8]) -> Option<Value> {
        match OutputLine::parse(line) {
            OutputLine::Other => {
                self.pass(line);
                self.pass(b"\n");
                None
            }
            OutputLine::Ack(ids) => self.acknowledge(&ids),
            OutputLine::Activity(text) => {
                self.activity(text);
                None
            }
            OutputLine::Usage(usage) => {
                self.usage(usage);
                None
            }
            OutputLine::Complete(id, result, written) => {
                self.start(Action::Complete(id, result), written);
                None
            }
            OutputLine::Release(id, reason, written) => {
                self.start(Action::Release(id, reason), written);
                None
            }
            OutputLine::Send(request, written) => {
                self.start(Action::Send(request), written);
                None
            }
            OutputLine::Refused(refusal, written) => Some(self.refused_line(&refusal, written)),
        }
    }

    /// Takes a part of a line that is too long to be read, and returns the reply if the line is meant for the runner.
    pub(crate) fn handle_part(&mut self, part: &[u8]) -> Option<Value> {
        let is_first = !self.is_within_long;
        self.is_within_long = part.last() != Some(&b'\n');
        let refused = if is_first { OutputLine::too_long(part, LINE_BYTES_MAX) } else { None };
        self.is_dropping = refused.is_some() || (self.is_dropping && !is_first);
        if !self.is_dropping {
            self.pass(part);
        }
        refused.map(|(refusal, written)| self.refused_line(&refusal, written))
    }

    /// Starts a call for the program. Its reply comes from [`Incarnation::next`] or [`Incarnation::finish_current`].
    pub(crate) fn start(&mut self, action: Action, written: Value) {
        let claim_token = match &action {
            Action::Complete(id, _) | Action::Release(id, _) => self.in_flight.task_token(*id).map(str::to_owned),
            Action::Send(_) => None,
        };
        let answerable = match &action {
            Action::Send(request) => self.in_flight.answerable(request),
            _ => Answerable::Unknown,
        };
        self.responder.start(action, claim_token, answerable, written);
    }

    /// Passes a part of the program's output on.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.carried.passthrough.push(bytes);
    }

    /// Acknowledges messages, and returns a reply only if one of them is unknown.
    fn acknowledge(&mut self, ids: &[String]) -> Option<Value> {
        let unknown: Vec<&String> = ids.iter().filter(|id| !self.in_flight.acknowledged(id)).collect();
        let first = unknown.first()?;
        let message =
            format!("You were not given message {first:?}. Acknowledge the \"id\" of a message that you were given.");
        let refusal = Refusal::new(Reason::MessageNotFound, message).field("ack");
        Some(self.refused(&refusal, json!({ "ack": ids })))
    }

    /// Records the outcome of an action, and returns the reply for the program.
    pub(super) fn conclude(&mut self, done: Done) -> Value {
        let Done { action, result, in_reply_to, written } = done;
        match (action, result) {
            (Action::Send(request), Ok(response)) => {
                self.in_flight.sent(&request);
                if let Some(id) = &in_reply_to {
                    self.in_flight.taken_for_answer(id);
                }
                input_lines::sent(&response, in_reply_to.as_deref(), written)
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

    /// Reports a line of the program that cannot be carried out as it is.
    fn refused_line(&self, refusal: &Refusal, written: Value) -> Value {
        let line = match &written {
            Value::String(line) => line.clone(),
            written => written.to_string(),
        };
        self.tell(RunnerEvent::LineRefused { detail: format!("{}: {refusal}", refusal.reason), line: quoted(&line) });
        input_lines::refused(refusal, written)
    }

    fn refused(&self, refusal: &Refusal, written: Value) -> Value {
        self.tell(RunnerEvent::NotSent { detail: format!("{}: {refusal}", refusal.reason) });
        input_lines::refused(refusal, written)
    }
}

/// Returns the beginning of a line for the log, in visible characters.
fn quoted(line: &str) -> String {
    let beginning: String = line.chars().take(LOGGED_CHARS_MAX).flat_map(char::escape_debug).collect();
    if line.chars().nth(LOGGED_CHARS_MAX).is_some() { beginning + "…" } else { beginning }
}
