//! Reads both dialects into the one protobuf form.

use serde_json::{Map, Value};

use super::fields::{Fields, shown, wrong_type};
use crate::{
    Kind, Reason, Refusal,
    kind::Parts,
    v1::{self, send_request::Body},
};

/// The fields that both dialects have on every kind.
const COMMON: [&str; 3] = ["in_reply_to", "attachments", "idempotency_key"];

/// The kinds that the newer dialect writes as a string. It writes every other kind as an object with a type.
const STRINGS: [Kind; 2] = [Kind::Message, Kind::Broadcast];

/// The names of the fields that a dialect has for the parts of a message.
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
/// Refuses with INVALID_JSON input that is not a JSON object, a value of the wrong type, an unknown field, and a field that
/// the type does not have; INVALID_TYPE: a missing or unknown type; MISSING_RECIPIENT, UNEXPECTED_RECIPIENT: a recipient
/// that the type needs or does not have; APPROVE_MISSING: an answer without true or false; MISSING_CONTENT: the newer
/// dialect without `message`. Each refusal names the field at fault and says what to do.
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
    let kind = kind(map.get("type"), "type", Kind::SENDABLE)?;
    let known = [&["type", "recipient", "content", "summary", "request_id", "approve"][..], &COMMON[..]].concat();
    let mut fields = Fields::new("", map, &known)?;
    if !kind.has_recipient() {
        let message = format!("A {} goes to {}. Leave recipient out.", kind.name(), kind.goes_to());
        fields.refuse(&["recipient"], Reason::UnexpectedRecipient, &message)?;
    }
    let parts = Parts { recipient: fields.text("recipient")?, summary: fields.text("summary")?, ..Parts::default() };
    let body = body(kind, parts, &mut fields, &CLASSIC)?;
    request(fields, body)
}

fn newer(mut map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    let message = map.remove("message").unwrap_or_default();
    // It is null here: otherwise this would be the classic dialect.
    map.remove("type");
    // `message` is taken already; it is listed so that an error can suggest it.
    let known = [&["to", "message", "summary"][..], &COMMON[..]].concat();
    let mut fields = Fields::new("", map, &known)?;
    let to = fields.text("to")?;
    let summary = fields.text("summary")?;
    let body = match message {
        Value::Null => {
            let message = "message is required: the text to send, or an object that is a protocol message.";
            return Err(Refusal::new(Reason::MissingContent, message).field("message"));
        }
        Value::String(text) => {
            let kind = if to == "*" { Kind::Broadcast } else { Kind::Message };
            check_recipient(kind, &to, &NEWER)?;
            compose(kind, Parts { recipient: to, summary, text, ..Parts::default() })?
        }
        Value::Object(inner) => {
            let objects: Vec<Kind> = Kind::SENDABLE.iter().copied().filter(|kind| !STRINGS.contains(kind)).collect();
            let kind = kind(inner.get("type"), "message.type", &objects)?;
            let known = [&["type"][..], NEWER.request_ids, NEWER.answers, NEWER.texts].concat();
            let mut inner = Fields::new("message.", inner, &known)?;
            // None of these kinds goes to "*". Where the recipient follows from the request, `to`
            // is ignored: the tool that this dialect comes from requires it on every call.
            let recipient = if to == "*" { String::new() } else { to };
            body(kind, Parts { recipient, summary, ..Parts::default() }, &mut inner, &NEWER)?
        }
        other => return Err(wrong_type("message", "a string, or an object that is a protocol message", &other)),
    };
    request(fields, body)
}

/// Returns the kind that a type names, out of those allowed here.
fn kind(value: Option<&Value>, place: &str, allowed: &[Kind]) -> Result<Kind, Refusal> {
    let text = match value {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text,
        Some(other) => return Err(wrong_type(place, "a string", other)),
    };
    allowed.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
        let fault = match Kind::sendable(text) {
            _ if text.is_empty() => format!("{place} is required."),
            Some(_) => format!("A {text} has a string as its \"message\", not an object."),
            None => format!("\"{}\" is no type of message.", shown(text)),
        };
        let names: Vec<&str> = allowed.iter().map(|kind| kind.name()).collect();
        let message = format!("{fault} Use one of: {}.", names.join(", "));
        Refusal::new(Reason::InvalidType, message).field(place)
    })
}

/// Reads the rest of a message's parts, and makes its body.
fn body(kind: Kind, mut parts: Parts, fields: &mut Fields, spelling: &Spelling) -> Result<Body, Refusal> {
    if !kind.is_answer() {
        refuse_answer(fields, kind, spelling)?;
    }
    parts.text = fields.text_under(spelling.texts)?;
    check_recipient(kind, &parts.recipient, spelling)?;
    if kind.is_answer() {
        parts.request_id = fields.text_under(spelling.request_ids)?;
        parts.approve = Some(fields.approve_under(spelling.answers)?);
    }
    compose(kind, parts)
}

fn compose(kind: Kind, parts: Parts) -> Result<Body, Refusal> {
    kind.compose(parts).ok_or_else(|| {
        Refusal::new(Reason::InvalidType, format!("Only the coordinator sends a {}.", kind.name())).field("type")
    })
}

fn check_recipient(kind: Kind, recipient: &str, spelling: &Spelling) -> Result<(), Refusal> {
    if kind.has_recipient() && recipient.is_empty() {
        let message =
            format!("A {} needs a recipient. Name {} in \"{}\".", kind.name(), kind.goes_to(), spelling.recipient);
        return Err(Refusal::new(Reason::MissingRecipient, message).field(spelling.recipient));
    }
    Ok(())
}

/// Refuses the fields of an answer on a message that answers nothing. If they were ignored, an agent would believe that
/// it had answered.
fn refuse_answer(fields: &Fields, kind: Kind, spelling: &Spelling) -> Result<(), Refusal> {
    let name = kind.name();
    let answers: Vec<&str> = Kind::SENDABLE.iter().filter(|kind| kind.is_answer()).map(|kind| kind.name()).collect();
    let message = format!("A {name} answers nothing. To answer, use a {}.", answers.join(" or a "));
    fields.refuse(spelling.answers, Reason::InvalidJson, &message)?;
    let message = match kind.is_request() {
        true => format!("The coordinator makes the request_id of a {name}. Leave it out; the reply has it."),
        false => message,
    };
    fields.refuse(spelling.request_ids, Reason::InvalidJson, &message)
}

/// Adds the fields that every kind may have.
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
