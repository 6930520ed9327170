//! `teamwire echo-teammate`: the program of `teamwire run --echo`, hidden from the help.

use clap::Args;
use serde_json::{Value, json};

use super::line_loop::answer_lines;
use crate::failure::Failure;

/// How much of a message is said back, in characters. Less than what a message may hold, however it is encoded.
const SAID_CHARS_MAX: usize = 15_000;

#[derive(Args, Debug)]
pub(super) struct EchoTeammate {}

impl EchoTeammate {
    pub(super) fn run(&self) -> Result<(), Failure> {
        answer_lines(answers)
    }
}

/// Returns the lines that answer a line from the runner.
fn answers(line: &Value) -> Vec<Value> {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let said = |name: &str| text(name).chars().take(SAID_CHARS_MAX).collect::<String>();
    let ack = json!({ "ack": line["id"] });
    match text("type") {
        "shutdown_request" => {
            vec![json!({"type": "shutdown_response", "request_id": text("request_id"), "approve": true})]
        }
        "task" => vec![json!({"complete": line["task_id"], "result": format!("Echo: {}", said("subject"))})],
        // Two echoes that answer each other's answers would never stop. The operator has no inbox.
        "message" if text("in_reply_to").is_empty() && text("from") != "operator" => {
            let message = format!("You said: {}", said("content"));
            vec![json!({"to": text("from"), "message": message, "summary": "an echo", "in_reply_to": text("id")}), ack]
        }
        _ if line["id"].is_string() => vec![ack],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_answers_messages_and_not_answers() {
        let message = json!({"type": "message", "id": "m", "from": "ann", "content": "hi"});
        let reply = json!({"to": "ann", "message": "You said: hi", "summary": "an echo", "in_reply_to": "m"});
        assert_eq!(answers(&message), [reply, json!({"ack": "m"})]);
        let answer = json!({"type": "message", "id": "m", "from": "ann", "content": "hi", "in_reply_to": "l"});
        assert_eq!(answers(&answer), [json!({"ack": "m"})]);
        assert_eq!(answers(&json!({"type": "welcome", "member": "echo"})), Vec::<Value>::new());
        assert_eq!(answers(&json!({"type": "error", "message": "no"})), Vec::<Value>::new());
    }

    #[test]
    fn an_echo_completes_tasks_and_approves_its_shutdown() {
        assert_eq!(
            answers(&json!({"type": "task", "task_id": 3, "subject": "s"})),
            [json!({"complete": 3, "result": "Echo: s"})]
        );
        let asks = json!({"type": "shutdown_request", "id": "m", "request_id": "r"});
        assert_eq!(answers(&asks), [json!({"type": "shutdown_response", "request_id": "r", "approve": true})]);
    }
}
