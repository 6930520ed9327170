//! The lines that a program reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use teamwire_client::Delivery;
use teamwire_proto::{Refusal, dialect, v1};

use super::input::InputLine;
use crate::agent_text;

/// Returns the first line that a program reads.
pub(crate) fn welcome(joined: &v1::JoinResponse) -> String {
    let team = joined.team.as_ref().map(|team| team.name.as_str()).unwrap_or_default();
    let member = joined.member.clone().unwrap_or_default();
    let mut welcome =
        json!({"type": "welcome", "team": team, "member": member.name, "incarnation": member.incarnation});
    if member.plan_required {
        welcome["plan_required"] = json!(true);
        welcome["text"] = json!(agent_text::plan_required());
    }
    format!("{welcome}\n")
}

/// Returns a message as a program reads it: the SendMessage object with its text form and its delivery count.
pub(crate) fn message(delivery: &Delivery) -> InputLine {
    let mut line = dialect::write(&delivery.message);
    line["text"] = json!(agent_text::teammate_message(&delivery.message));
    line["delivery_count"] = json!(delivery.delivery_count);
    InputLine { text: format!("{line}\n"), message_id: delivery.message.id.clone() }
}

/// Returns a claimed task as a program reads it.
pub(crate) fn task(claim: &v1::Claim) -> InputLine {
    let task = claim.task.clone().unwrap_or_default();
    let line = json!({
        "type": "task",
        "task_id": task.id,
        "subject": task.subject,
        "description": task.description,
        "metadata": task.metadata.iter().collect::<BTreeMap<_, _>>(),
        "attempt": task.attempts,
        "claim_token": claim.token,
        "text": agent_text::task(&task),
    });
    InputLine { text: format!("{line}\n"), message_id: String::new() }
}

/// Returns the reply to a message that was sent. `request`: what the program wrote.
pub(crate) fn sent(response: &v1::SendResponse, request: Value) -> Value {
    let mut reply = json!({"type": "sent", "message_id": response.message_id, "recipients": response.recipients});
    if !response.request_id.is_empty() {
        reply["request_id"] = json!(response.request_id);
    }
    if !response.warnings.is_empty() {
        reply["warnings"] = json!(response.warnings);
    }
    reply["request"] = request;
    reply
}

/// Returns the reply to a task that was `completed` or `released`.
pub(crate) fn task_closed(kind: &str, task_id: u64, request: Value) -> Value {
    json!({"type": kind, "task_id": task_id, "request": request})
}

/// Returns the reply to something that was refused.
pub(crate) fn refused(refusal: &Refusal, request: Value) -> Value {
    let mut reply = json!({"type": "error", "reason": refusal.reason.as_str(), "message": refusal.message});
    if let Some(field) = &refusal.field {
        reply["field"] = json!(field);
    }
    if !refusal.metadata.is_empty() {
        reply["metadata"] = json!(refusal.metadata);
    }
    reply["request"] = request;
    reply
}

/// Returns the reply to something that failed without a refusal.
pub(crate) fn failed(reason: &str, message: &str, request: Value) -> Value {
    json!({"type": "error", "reason": reason, "message": message, "request": request})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_line_that_says_everything_about_it() {
        let task =
            v1::Task { id: 7, subject: "a < b".into(), description: "x\ny".into(), attempts: 2, ..Default::default() };
        let line = task_line(task);
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&read["task_id"], &read["claim_token"], &read["attempt"]), (&json!(7), &json!("t"), &json!(2)));
        assert!(read["text"].as_str().expect("a text").contains("a &lt; b"));
    }

    fn task_line(task: v1::Task) -> String {
        super::task(&v1::Claim { task: Some(task), token: "t".into() }).text
    }
}
