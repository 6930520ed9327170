//! The JSON forms of SendMessage.

use std::str;

use prost::Message as _;
use serde_json::{Map, Value, json};
use teamwire_proto::{
    Refusal, dialect,
    v1::{self, message, send_request::Body},
};

/// What an agent has written.
pub(crate) fn read(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let request = match dialect::read(text) {
        Ok(request) => request,
        Err(refusal) => return check_refusal(&refusal),
    };
    let value: Value = serde_json::from_str(text).expect("what was read is JSON");
    let object = value.as_object().expect("what was read is an object");
    check_meaning(object, &request);
    check_nulls(object, &request);
    check_repeated(text, object);
    for written in [classic(&request), newer(&request)].into_iter().flatten() {
        let written = written.to_string();
        assert_eq!(dialect::read(&written).as_ref(), Ok(&request), "{written}");
    }
    let delivered = dialect::write(&accepted(&request));
    let again = Value::Object(as_sent(delivered)).to_string();
    let sent = v1::SendRequest { idempotency_key: String::new(), ..request };
    assert_eq!(dialect::read(&again).as_ref(), Ok(&sent), "{again}");
}

/// A message as it is delivered: an object that says what the message says, and reads back as what was sent.
pub(crate) fn write(input: &[u8]) {
    let Ok(message) = v1::Message::decode(input) else { return };
    let written = dialect::write(&message);
    let again: Value = serde_json::from_str(&written.to_string()).expect("JSON");
    assert_eq!(again, written);
    let sender = message.sender.as_ref().map_or("", |sender| sender.name.as_str());
    assert_eq!(written["from"], json!(sender), "the sender is the coordinator's word");
    assert_eq!(written["id"], json!(message.id));
    if !message.request_id.is_empty() && answered(&message).is_none() {
        assert_eq!(written["request_id"], json!(message.request_id));
    }
    let Some(sent) = sent(&message) else { return };
    let again = Value::Object(as_sent(written)).to_string();
    assert_eq!(dialect::read(&again).as_ref(), Ok(&sent), "{again}");
}

fn check_refusal(refusal: &Refusal) {
    assert!(refusal.field.is_some() && refusal.message.ends_with(['.', '?']), "no help: {refusal}");
    // Agents read it in their context, and people in a terminal.
    assert!(refusal.message.len() < 4_000, "{refusal}");
    assert!(!refusal.message.chars().any(char::is_control), "{refusal:?}");
    assert!(refusal.field.iter().all(|field| !field.chars().any(char::is_control)), "{refusal:?}");
}

/// Nobody may be taken to have approved what it did not approve, nor to have meant another member.
fn check_meaning(object: &Map<String, Value>, request: &v1::SendRequest) {
    let body = request.body.as_ref().expect("a body");
    let inner = object.get("message").and_then(Value::as_object).unwrap_or(object);
    let answer = match body {
        Body::ShutdownResponse(body) => body.approve,
        Body::PlanApprovalResponse(body) => body.approve,
        Body::PermissionResponse(body) => body.approve,
        Body::ReviewResponse(body) => body.approve,
        _ => None,
    };
    let given: Vec<_> = ["approve", "approved"].iter().filter_map(|key| inner.get(*key)?.as_bool()).collect();
    match answer {
        Some(answer) => assert!(!given.is_empty() && given.iter().all(|given| *given == answer)),
        None => assert!(given.is_empty(), "an answer was left out"),
    }
    let recipient = match body {
        Body::Message(body) => &body.recipient,
        Body::ShutdownRequest(body) => &body.recipient,
        Body::PlanApprovalResponse(body) => &body.recipient,
        Body::PermissionRequest(body) => &body.recipient,
        _ => return,
    };
    let mut named =
        ["to", "recipient"].iter().filter_map(|key| object.get(*key)?.as_str()).filter(|name| !name.is_empty());
    let may_be_left_out = matches!(body, Body::PermissionRequest(_));
    assert!((may_be_left_out || !recipient.is_empty()) && named.all(|name| name == recipient));
}

/// Whatever a key says, it says it once: with any of its keys given again, a message is refused, and the refusal names
/// the key.
fn check_repeated(text: &str, object: &Map<String, Value>) {
    let Some((_, inside)) = text.split_once('{') else { panic!("an object begins with a brace") };
    for (key, value) in object {
        for again in [value, &Value::Null] {
            let json = format!("{{{}:{again},{inside}", json!(key));
            let refusal = dialect::read(&json).expect_err(&json);
            assert!(refusal.field.is_some(), "{json}");
            check_refusal(&refusal);
        }
    }
}

/// A field that is null is a field that was not given.
fn check_nulls(object: &Map<String, Value>, request: &v1::SendRequest) {
    let mut bare = object.clone();
    bare.retain(|_, value| !value.is_null());
    let bare = Value::Object(bare).to_string();
    assert_eq!(dialect::read(&bare).as_ref(), Ok(request), "{bare}");
}

fn common(request: &v1::SendRequest) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("in_reply_to".to_owned(), json!(request.in_reply_to));
    object.insert("idempotency_key".to_owned(), json!(request.idempotency_key));
    let attachments = request.attachments.iter().map(|attachment| {
        let v1::Attachment { uri, media_type, size_bytes, sha256 } = attachment;
        json!({"uri": uri, "media_type": media_type, "size_bytes": size_bytes, "sha256": sha256})
    });
    object.insert("attachments".to_owned(), attachments.collect());
    object
}

fn with(mut object: Map<String, Value>, fields: Value) -> Option<Value> {
    object.extend(fields.as_object()?.clone());
    Some(Value::Object(object))
}

/// Writes a request in the classic dialect. `None` if it cannot say it.
fn classic(request: &v1::SendRequest) -> Option<Value> {
    let fields = match request.body.as_ref()? {
        Body::Message(b) => {
            json!({"type": "message", "recipient": b.recipient, "summary": b.summary, "content": b.content})
        }
        Body::Broadcast(b) => json!({"type": "broadcast", "summary": b.summary, "content": b.content}),
        Body::ShutdownRequest(b) => {
            json!({"type": "shutdown_request", "recipient": b.recipient, "content": b.reason})
        }
        Body::ShutdownResponse(b) => {
            json!({"type": "shutdown_response", "request_id": b.request_id, "approve": b.approve, "content": b.reason})
        }
        Body::PlanApprovalRequest(b) => {
            json!({"type": "plan_approval_request", "summary": b.summary, "content": b.plan})
        }
        Body::PlanApprovalResponse(b) => json!({
            "type": "plan_approval_response", "recipient": b.recipient, "request_id": b.request_id,
            "approve": b.approve, "content": b.feedback
        }),
        Body::PermissionRequest(b) => json!({
            "type": "permission_request", "recipient": b.recipient, "tool": b.tool, "summary": b.summary,
            "content": b.detail
        }),
        Body::PermissionResponse(b) => json!({
            "type": "permission_response", "request_id": b.request_id, "approve": b.approve, "content": b.reason
        }),
        Body::ReviewResponse(b) => json!({
            "type": "review_response", "request_id": b.request_id, "approve": b.approve, "content": b.reason
        }),
    };
    with(common(request), fields)
}

/// Writes a request in the newer dialect. `None` if it cannot say it.
fn newer(request: &v1::SendRequest) -> Option<Value> {
    let fields = match request.body.as_ref()? {
        Body::Message(b) => json!({"to": b.recipient, "summary": b.summary, "message": b.content}),
        Body::Broadcast(b) => json!({"to": "*", "summary": b.summary, "message": b.content}),
        Body::ShutdownRequest(b) => {
            json!({"to": b.recipient, "message": {"type": "shutdown_request", "reason": b.reason}})
        }
        Body::ShutdownResponse(b) => json!({"to": "team-lead", "message": {
            "type": "shutdown_response", "request_id": b.request_id, "approve": b.approve, "reason": b.reason
        }}),
        Body::PlanApprovalRequest(b) => {
            json!({"summary": b.summary, "message": {"type": "plan_approval_request", "plan": b.plan}})
        }
        Body::PlanApprovalResponse(b) => json!({"to": b.recipient, "message": {
            "type": "plan_approval_response", "request_id": b.request_id, "approve": b.approve, "feedback": b.feedback
        }}),
        Body::PermissionRequest(b) => json!({"to": b.recipient, "summary": b.summary, "message": {
            "type": "permission_request", "tool": b.tool, "detail": b.detail
        }}),
        Body::PermissionResponse(b) => json!({"to": "team-lead", "message": {
            "type": "permission_response", "request_id": b.request_id, "approve": b.approve, "reason": b.reason
        }}),
        Body::ReviewResponse(b) => json!({"to": "team-lead", "message": {
            "type": "review_response", "request_id": b.request_id, "approve": b.approve, "reason": b.reason
        }}),
    };
    with(common(request), fields)
}

/// Returns what is delivered of a request that was accepted.
fn accepted(request: &v1::SendRequest) -> v1::Message {
    let body = request.body.clone().map(|body| match body {
        Body::Message(body) => message::Body::Message(body),
        Body::Broadcast(body) => message::Body::Broadcast(body),
        Body::ShutdownRequest(body) => message::Body::ShutdownRequest(body),
        Body::ShutdownResponse(body) => message::Body::ShutdownResponse(body),
        Body::PlanApprovalRequest(body) => message::Body::PlanApprovalRequest(body),
        Body::PlanApprovalResponse(body) => message::Body::PlanApprovalResponse(body),
        Body::PermissionRequest(body) => message::Body::PermissionRequest(body),
        Body::PermissionResponse(body) => message::Body::PermissionResponse(body),
        Body::ReviewResponse(body) => message::Body::ReviewResponse(body),
    });
    let (in_reply_to, attachments) = (request.in_reply_to.clone(), request.attachments.clone());
    v1::Message { id: "m".to_owned(), in_reply_to, attachments, body, ..v1::Message::default() }
}

/// Returns what an accepted request looked like. `None` if nobody could have sent it so.
fn sent(message: &v1::Message) -> Option<v1::SendRequest> {
    let is_named = |name: &String| !name.is_empty();
    let body = match message.body.clone()? {
        message::Body::Message(body) => {
            // To everyone else it would be a broadcast.
            (is_named(&body.recipient) && body.recipient != "*").then_some(Body::Message(body))
        }
        message::Body::Broadcast(body) => Some(Body::Broadcast(body)),
        message::Body::ShutdownRequest(body) => {
            let body = v1::ShutdownRequest { ttl: None, ..body };
            (is_named(&body.recipient) && body.recipient != "*").then_some(Body::ShutdownRequest(body))
        }
        message::Body::ShutdownResponse(body) => {
            let is_sound = body.approve.is_some() && is_named(&body.request_id);
            is_sound.then_some(Body::ShutdownResponse(body))
        }
        message::Body::PlanApprovalRequest(body) => {
            Some(Body::PlanApprovalRequest(v1::PlanApprovalRequest { ttl: None, ..body }))
        }
        message::Body::PlanApprovalResponse(body) => {
            let is_to_one = is_named(&body.recipient) && body.recipient != "*";
            let is_sound = body.approve.is_some() && is_named(&body.request_id) && is_to_one;
            is_sound.then_some(Body::PlanApprovalResponse(body))
        }
        message::Body::PermissionRequest(body) => {
            Some(Body::PermissionRequest(v1::PermissionRequest { ttl: None, ..body }))
        }
        message::Body::PermissionResponse(body) => {
            let is_sound = body.approve.is_some() && is_named(&body.request_id);
            is_sound.then_some(Body::PermissionResponse(body))
        }
        message::Body::ReviewResponse(body) => {
            let is_sound = body.approve.is_some() && is_named(&body.request_id);
            let (request_id, reason) = (body.request_id, body.reason);
            let body = v1::ReviewResponse { request_id, approve: body.approve, reason, ..Default::default() };
            is_sound.then_some(Body::ReviewResponse(body))
        }
        message::Body::ReviewRequest(_) | message::Body::SpawnOrder(_) | message::Body::Notice(_) => None,
    };
    Some(v1::SendRequest {
        in_reply_to: message.in_reply_to.clone(),
        attachments: message.attachments.clone(),
        body: Some(body?),
        ..v1::SendRequest::default()
    })
}

/// Returns the id of the request that a message answers.
fn answered(message: &v1::Message) -> Option<&str> {
    match message.body.as_ref()? {
        message::Body::ShutdownResponse(body) => Some(&body.request_id),
        message::Body::PlanApprovalResponse(body) => Some(&body.request_id),
        message::Body::PermissionResponse(body) => Some(&body.request_id),
        message::Body::ReviewResponse(body) => Some(&body.request_id),
        _ => None,
    }
}

/// Leaves what a sender writes of what is delivered. `to` is there the word for `recipient`.
fn as_sent(written: Value) -> Map<String, Value> {
    let Value::Object(mut written) = written else { panic!("a message is an object") };
    let is_answer = written.contains_key("approve");
    // What only the coordinator sets.
    for key in ["id", "team", "from", "recipients", "sent_at", "request_expires_at", "target_incarnation", "prompt"] {
        written.remove(key);
    }
    if !is_answer {
        written.remove("request_id");
    }
    if let Some(to) = written.remove("to").filter(|_| written["type"] != "broadcast") {
        written.insert("recipient".to_owned(), to);
    }
    written
}
