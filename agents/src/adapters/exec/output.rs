//! Interprets what a program has written.

use std::collections::VecDeque;

use serde_json::Value;
use teamwire_client::message;
use teamwire_proto::{
    v1::{self, send_request::Body},
    visible::is_visible,
};

use crate::{
    exit::Exit,
    incarnation::{Action, Incarnation},
    line_protocol::output_parser::OutputLine,
};

/// How much of a program's output goes into a reply or a result: less than the coordinator's default limit. The rest is
/// left out.
const REPLY_BYTES_MAX: usize = 60 * 1024;

/// What a program has said, to be carried out in order.
pub(super) struct PendingOutput {
    pub(super) lines: VecDeque<Vec<u8>>,
    pub(super) last: Option<Last>,
}

/// What is done after all lines.
pub(super) enum Last {
    Act(Action),
    Pass(String),
    /// Completes the task unless the program has closed it.
    Complete(u64, String),
}

impl PendingOutput {
    /// Starts the next thing if nothing is under way. Returns false when everything is done.
    pub(super) fn go_on(&mut self, incarnation: &mut Incarnation<'_>) -> bool {
        while !incarnation.is_busy() {
            if let Some(line) = self.lines.pop_front() {
                incarnation.handle_line(&line);
                continue;
            }
            match self.last.take() {
                Some(Last::Act(action)) => incarnation.start(action, Value::Null),
                Some(Last::Pass(text)) => incarnation.pass(text.as_bytes()),
                Some(Last::Complete(id, result)) if incarnation.has_task(id) => {
                    incarnation.start(Action::Complete(id, result), Value::Null);
                }
                Some(Last::Complete(..)) => {}
                None => return false,
            }
        }
        true
    }
}

/// Separates the lines that are meant for the runner from the text.
pub(super) fn sort(output: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, String) {
    let (mut lines, mut text) = (Vec::new(), String::new());
    for line in output {
        if OutputLine::parse(&line) == OutputLine::Other {
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
        } else {
            lines.push(line);
        }
    }
    (lines, text)
}

/// Makes the answer to a shutdown request from a program's exit and output.
pub(super) fn answer(request_id: &str, exit: &Exit, output: Vec<Vec<u8>>) -> PendingOutput {
    let (lines, text) = sort(output);
    let is_answered = exit.is_success() && lines.iter().any(|line| is_shutdown_response(line));
    if is_answered {
        return PendingOutput { lines: lines.into(), last: Some(Last::Pass(text)) };
    }
    let text = cut(text.trim().to_owned());
    let reason = if text.is_empty() && !exit.is_success() { exit.text() } else { text };
    let answer = message::shutdown_response(request_id, exit.is_success(), reason);
    // What a failed program asks for is not carried out.
    let lines = if exit.is_success() { lines.into() } else { VecDeque::new() };
    PendingOutput { lines, last: Some(Last::Act(Action::Send(Box::new(answer)))) }
}

fn is_shutdown_response(line: &[u8]) -> bool {
    let OutputLine::Send(request, _) = OutputLine::parse(line) else { return false };
    matches!(request.body, Some(Body::ShutdownResponse(_)))
}

/// Makes a reply from a text. `None` if the text is blank.
pub(super) fn reply(to: &v1::Message, text: &str) -> Option<v1::SendRequest> {
    let text = text.trim_end();
    let first = text.lines().find(|line| is_visible(line))?;
    let summary: String = first.trim().chars().filter(|c| !c.is_control()).take(200).collect();
    let summary = if is_visible(&summary) { summary } else { "A reply".to_owned() };
    let content = cut(text.to_owned());
    let recipient = to.sender.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
    let in_reply_to = to.id.clone();
    Some(v1::SendRequest { in_reply_to, ..message::direct(recipient, summary, content) })
}

/// Truncates a text that is too long for a reply or a result.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > REPLY_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REPLY_BYTES_MAX));
        text.push_str("\n[the rest was left out]");
    }
    text
}
