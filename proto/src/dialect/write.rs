//! Writes a delivered message as JSON.

use prost_types::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    duration,
    v1::{self, message::Body},
};

/// Returns the canonical JSON form of a message as it was delivered.
///
/// It always has `id`, `team`, `from` (members cannot be named `operator` or `coordinator`), `type` (the [`Kind`]'s
/// name, or `unknown` for a kind that this version does not know), `recipients`, `sent_at` (RFC 3339). Where they
/// apply: `to` (as the sender wrote it; `*` for a broadcast, and `@TAG` for one to
/// a tag), `tool`, `summary`, `content` (also the reason, the plan,
/// the feedback, the detail, and a notice's sentence), `request_id`, `approve`, `request_expires_at`,
/// `target_incarnation`, `in_reply_to`, `prompt`, `automatic`, `wants_reply`, `interrupt`, `attachments`, `notice`. Empty fields are left
/// out.
pub fn write(message: &v1::Message) -> Value {
    let mut json = Map::new();
    let sender = message.sender.as_ref().map(|sender| sender.name.as_str()).unwrap_or_default();
    json.insert("id".to_owned(), json!(message.id));
    json.insert("team".to_owned(), json!(message.team));
    json.insert("from".to_owned(), json!(sender));
    json.insert("type".to_owned(), json!(message.body.as_ref().map_or("unknown", |body| body.kind().name())));
    json.insert("recipients".to_owned(), json!(message.recipients));
    json.insert("sent_at".to_owned(), json!(message.sent_at.as_ref().map(rfc3339)));
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            json.insert(key.to_owned(), json!(value));
        }
    };
    put("request_id", &message.request_id);
    put("in_reply_to", &message.in_reply_to);
    put("request_expires_at", &message.request_expires_at.as_ref().map(rfc3339).unwrap_or_default());
    if let Some(body) = &message.body {
        let to = match body {
            Body::Broadcast(broadcast) if broadcast.tag.is_empty() => "*".to_owned(),
            Body::Broadcast(broadcast) => format!("@{}", broadcast.tag),
            _ => body.recipient().to_owned(),
        };
        put("to", &to);
        put("tool", body.tool());
        put("summary", body.summary());
        put("content", body.text());
        put("request_id", body.request_id());
        if let Some(approve) = body.approve() {
            json.insert("approve".to_owned(), json!(approve));
        }
        if let Body::Notice(body) = body {
            json.insert("notice".to_owned(), notice(body));
        }
    }
    if message.target_incarnation != 0 {
        json.insert("target_incarnation".to_owned(), json!(message.target_incarnation));
    }
    let marks = [
        ("prompt", message.prompt),
        ("automatic", message.automatic),
        ("wants_reply", message.wants_reply),
        ("interrupt", message.interrupt),
    ];
    for (key, is_set) in marks {
        if is_set {
            json.insert(key.to_owned(), json!(true));
        }
    }
    if !message.attachments.is_empty() {
        json.insert("attachments".to_owned(), message.attachments.iter().map(attachment).collect());
    }
    Value::Object(json)
}

fn notice(notice: &v1::Notice) -> Value {
    let kind = notice.kind().as_str_name().trim_start_matches("NOTICE_KIND_").to_ascii_lowercase();
    let mut json = Map::from_iter([("kind".to_owned(), json!(kind))]);
    for (key, value) in
        [("member", &notice.member), ("request_id", &notice.request_id), ("message_id", &notice.message_id)]
    {
        if !value.is_empty() {
            json.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(task) = &notice.task {
        json.insert("task".to_owned(), task_summary(task));
    }
    if let Some(exit) = &notice.exit {
        json.insert("exit".to_owned(), exit_report(exit));
    }
    if notice.important {
        json.insert("important".to_owned(), json!(true));
    }
    if notice.count > 1 {
        json.insert("count".to_owned(), json!(notice.count));
    }
    if !notice.gathered.is_empty() {
        let with_text = |gathered: &v1::Notice| {
            let mut json = self::notice(gathered);
            json["text"] = json!(gathered.text);
            json
        };
        json.insert("gathered".to_owned(), notice.gathered.iter().map(with_text).collect());
    }
    Value::Object(json)
}

fn task_summary(task: &v1::TaskSummary) -> Value {
    let by = task.assigned_by.as_ref().map(|sender| sender.name.as_str()).unwrap_or_default();
    let mut json = Map::from_iter([
        ("id".to_owned(), json!(task.id)),
        ("subject".to_owned(), json!(task.subject)),
        ("assigned_by".to_owned(), json!(by)),
    ]);
    if !task.description.is_empty() {
        json.insert("description".to_owned(), json!(task.description));
    }
    Value::Object(json)
}

fn exit_report(exit: &v1::ExitReport) -> Value {
    let mut json = Map::new();
    if let Some(code) = exit.code {
        json.insert("code".to_owned(), json!(code));
    }
    if exit.signal != 0 {
        json.insert("signal".to_owned(), json!(exit.signal));
    }
    if let Some(duration) = exit.duration.and_then(duration::from_proto) {
        json.insert("duration_ms".to_owned(), json!(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)));
    }
    if !exit.detail.is_empty() {
        json.insert("detail".to_owned(), json!(exit.detail));
    }
    if !exit.approved_request_id.is_empty() {
        json.insert("approved_request_id".to_owned(), json!(exit.approved_request_id));
    }
    if exit.runner_action() != v1::RunnerAction::Unspecified {
        let action = exit.runner_action().as_str_name().trim_start_matches("RUNNER_ACTION_").to_ascii_lowercase();
        json.insert("runner_action".to_owned(), json!(action));
    }
    Value::Object(json)
}

fn attachment(attachment: &v1::Attachment) -> Value {
    let mut json = Map::from_iter([("uri".to_owned(), json!(attachment.uri))]);
    if !attachment.media_type.is_empty() {
        json.insert("media_type".to_owned(), json!(attachment.media_type));
    }
    if attachment.size_bytes != 0 {
        json.insert("size_bytes".to_owned(), json!(attachment.size_bytes));
    }
    if !attachment.sha256.is_empty() {
        json.insert("sha256".to_owned(), json!(attachment.sha256));
    }
    Value::Object(json)
}

/// Returns an instant as RFC 3339, in UTC.
fn rfc3339(at: &Timestamp) -> String {
    at.to_string()
}
