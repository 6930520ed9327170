//! Reads both dialects into the one protobuf form.

use serde_json::{Map, Value};

use super::fields::{Fields, shown, wrong_type};
use crate::{
    Reason, Refusal,
    v1::{self, send_request::Body},
};

/// The six types, as both dialects write them. The last four are the protocol messages.
pub const TYPES: [&str; 6] = [
    "message",
    "broadcast",
    "shutdown_request",
    "shutdown_response",
    "plan_approval_request",
    "plan_approval_response",
];

/// What either dialect may carry besides.
const COMMON: [&str; 3] = ["in_reply_to", "attachments", "idempotency_key"];

/// How a dialect writes what all kinds of messages are made of.
struct Spelling {
    recipient: &'static str,
    texts: &'static [&'static str],
    request_ids: &'static [&'static str],
    answers: &'static [&'static str],
}

const CLASSIC: Spelling =
    Spelling { recipient: "recipient", texts: &["content"], request_ids: &["request_id"], answers: &["approve"] };

const NEWER: Spelling = Spelling {
    recipient: "to",
    texts: &["reason", "feedback", "content", "plan"],
    request_ids: &["request_id", "requestId"],
    answers: &["approve", "approved"],
};

/// Reads one SendMessage in either dialect.
///
/// Refused with INVALID_JSON: what is no JSON object, a value of the wrong type, an unknown field, a field that the
/// type does not have. INVALID_TYPE: a type that is missing or unknown. MISSING_RECIPIENT, UNEXPECTED_RECIPIENT: a
/// recipient that the type needs, or does not have. APPROVE_MISSING: an answer without a true or a false.
/// MISSING_CONTENT: the newer dialect without its `message`. Each names the field at fault and says what to do.
pub fn read(json: &str) -> Result<v1::SendRequest, Refusal> {
    let value: Value = serde_json::from_str(json).map_err(|error| {
        let message = format!("This cannot be read as JSON: {error}. Send one JSON object.");
        Refusal::new(Reason::InvalidJson, message).field("json")
    })?;
    let Value::Object(map) = value else {
        return Err(wrong_type("json", "an object, such as {\"type\": \"message\", …}", &value));
    };
    let has = |name: &str| map.get(name).is_some_and(|value| !value.is_null());
    if !has("type") && (has("to") || has("message")) { newer(map) } else { classic(map) }
}

fn classic(map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    let kind = kind(map.get("type"), "type", &TYPES)?;
    let known = [&["type", "recipient", "content", "summary", "request_id", "approve"][..], &COMMON[..]].concat();
    let mut fields = Fields::new("", map, &known)?;
    let goes_to = match kind {
        "broadcast" => "every other member",
        "shutdown_response" => "whoever made the request",
        "plan_approval_request" => "the lead",
        _ => "",
    };
    if !goes_to.is_empty() {
        let message = format!("A {kind} goes to {goes_to}. Leave recipient out.");
        fields.refuse(&["recipient"], Reason::UnexpectedRecipient, &message)?;
    }
    let recipient = fields.text("recipient")?;
    let summary = fields.text("summary")?;
    let body = match kind {
        "message" | "broadcast" => {
            refuse_answer(&fields, kind, &CLASSIC)?;
            text(kind, recipient, summary, fields.text("content")?, &CLASSIC)?
        }
        _ => protocol(kind, recipient, summary, &mut fields, &CLASSIC)?,
    };
    request(fields, body)
}

fn newer(mut map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    let message = map.remove("message").unwrap_or_default();
    // Here it is null, or this would be the classic dialect.
    map.remove("type");
    // `message` is out already; it stands here so that an error can propose it.
    let known = [&["to", "message", "summary"][..], &COMMON[..]].concat();
    let mut fields = Fields::new("", map, &known)?;
    let to = fields.text("to")?;
    let summary = fields.text("summary")?;
    let body = match message {
        Value::Null => {
            let message = "message is required: the text to send, or an object that is a protocol message.";
            return Err(Refusal::new(Reason::MissingContent, message).field("message"));
        }
        Value::String(content) if to == "*" => text("broadcast", to, summary, content, &NEWER)?,
        Value::String(content) => text("message", to, summary, content, &NEWER)?,
        Value::Object(inner) => {
            let kind = kind(inner.get("type"), "message.type", &TYPES[2..])?;
            let known = [&["type"][..], NEWER.request_ids, NEWER.answers, NEWER.texts].concat();
            let mut inner = Fields::new("message.", inner, &known)?;
            // Nobody can be asked as "*". Where the recipient follows from the request, `to` is of no account: the
            // tool that this dialect comes from demands one of every call.
            let to = if to == "*" { String::new() } else { to };
            protocol(kind, to, summary, &mut inner, &NEWER)?
        }
        other => return Err(wrong_type("message", "a string, or an object that is a protocol message", &other)),
    };
    request(fields, body)
}

/// Returns the type out of those that may stand here.
fn kind(value: Option<&Value>, place: &str, types: &[&'static str]) -> Result<&'static str, Refusal> {
    let text = match value {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(wrong_type(place, "a string", other)),
    };
    types.iter().copied().find(|known| *known == text).ok_or_else(|| {
        let fault = match text {
            "" => format!("{place} is required."),
            "message" | "broadcast" => format!("A {text} has a string as its \"message\", not an object."),
            _ => format!("\"{}\" is no type of message.", shown(text)),
        };
        let message = format!("{fault} Use one of: {}.", types.join(", "));
        Refusal::new(Reason::InvalidType, message).field(place)
    })
}

fn text(kind: &str, recipient: String, summary: String, content: String, spelling: &Spelling) -> Result<Body, Refusal> {
    if kind == "broadcast" {
        return Ok(Body::Broadcast(v1::Broadcast { summary, content }));
    }
    let recipient = required(recipient, kind, spelling)?;
    Ok(Body::Message(v1::DirectMessage { recipient, summary, content }))
}

fn protocol(
    kind: &str,
    recipient: String,
    summary: String,
    fields: &mut Fields,
    spelling: &Spelling,
) -> Result<Body, Refusal> {
    if kind.ends_with("_request") {
        refuse_answer(fields, kind, spelling)?;
    }
    let text = fields.text_under(spelling.texts)?;
    Ok(match kind {
        "shutdown_request" => Body::ShutdownRequest(v1::ShutdownRequest {
            recipient: required(recipient, kind, spelling)?,
            reason: text,
            deadline_seconds: 0,
        }),
        "plan_approval_request" => {
            Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: text, summary, deadline_seconds: 0 })
        }
        "shutdown_response" => Body::ShutdownResponse(v1::ShutdownResponse {
            request_id: fields.text_under(spelling.request_ids)?,
            approve: Some(fields.approve_under(spelling.answers)?),
            reason: text,
        }),
        _ => Body::PlanApprovalResponse(v1::PlanApprovalResponse {
            recipient: required(recipient, kind, spelling)?,
            request_id: fields.text_under(spelling.request_ids)?,
            approve: Some(fields.approve_under(spelling.answers)?),
            feedback: text,
        }),
    })
}

fn required(recipient: String, kind: &str, spelling: &Spelling) -> Result<String, Refusal> {
    if recipient.is_empty() {
        let who = if kind == "plan_approval_response" { "the plan's author" } else { "one member, or team-lead" };
        let message = format!("A {kind} needs a recipient. Name {who} in \"{}\".", spelling.recipient);
        return Err(Refusal::new(Reason::MissingRecipient, message).field(spelling.recipient));
    }
    Ok(recipient)
}

/// Refuses what belongs to an answer on a message that is none. Ignored, it would let an agent believe that it answered.
fn refuse_answer(fields: &Fields, kind: &str, spelling: &Spelling) -> Result<(), Refusal> {
    let message = format!("A {kind} answers nothing. To answer, use a shutdown_response or a plan_approval_response.");
    fields.refuse(spelling.answers, Reason::InvalidJson, &message)?;
    let message = if kind.ends_with("_request") {
        format!("The request_id of a {kind} is made by the coordinator. Leave it out; the reply has it.")
    } else {
        message
    };
    fields.refuse(spelling.request_ids, Reason::InvalidJson, &message)
}

/// Puts the body and what any message may carry together.
fn request(mut fields: Fields, body: Body) -> Result<v1::SendRequest, Refusal> {
    Ok(v1::SendRequest {
        team: String::new(),
        idempotency_key: fields.text("idempotency_key")?,
        in_reply_to: fields.text("in_reply_to")?,
        attachments: match fields.take("attachments") {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                items.into_iter().enumerate().map(|(i, item)| attachment(i, item)).collect::<Result<_, _>>()?
            }
            Some(other) => return Err(wrong_type("attachments", "an array of objects", &other)),
        },
        body: Some(body),
    })
}

fn attachment(index: usize, item: Value) -> Result<v1::Attachment, Refusal> {
    let place = format!("attachments[{index}]");
    let Value::Object(map) = item else {
        return Err(wrong_type(&place, "an object with a uri", &item));
    };
    let mut fields = Fields::new(&format!("{place}."), map, &["uri", "media_type", "size_bytes", "sha256"])?;
    let size_bytes = match fields.take("size_bytes") {
        None => 0,
        Some(size) => {
            size.as_u64().ok_or_else(|| wrong_type(&fields.place("size_bytes"), "a whole number of bytes", &size))?
        }
    };
    Ok(v1::Attachment {
        uri: fields.text("uri")?,
        media_type: fields.text("media_type")?,
        size_bytes,
        sha256: fields.text("sha256")?,
    })
}
