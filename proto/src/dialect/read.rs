//! Reads all JSON forms of SendMessage into the one protobuf form.

use serde_json::{Map, Value};

use super::{
    fields::{Fields, is_similar, other_word, shown, wrong_type},
    json::Json,
};
use crate::{
    Kind, Reason, Refusal,
    body::Parts,
    v1::{self, send_request::Body},
};

/// The fields that every kind may have in every form.
const COMMON: [&str; 3] = ["in_reply_to", "attachments", "idempotency_key"];

/// The fields of the classic form, as errors list them.
const CLASSIC: [&str; 9] =
    ["type", "recipient", "content", "summary", "request_id", "approve", COMMON[0], COMMON[1], COMMON[2]];

/// The fields of the newer form, as errors list them.
const NEWER: [&str; 6] = ["to", "message", "summary", COMMON[0], COMMON[1], COMMON[2]];

/// The kinds that the newer form writes as a string. It writes every other kind as an object with a type.
const STRINGS: [Kind; 2] = [Kind::Message, Kind::Broadcast];

/// The equivalent names of a recipient.
const RECIPIENTS: [&str; 2] = ["recipient", "to"];

/// The equivalent names of the text of a request or an answer.
const TEXTS: [&str; 6] = ["content", "message", "reason", "feedback", "plan", "detail"];

/// The equivalent names of the text of a message or a broadcast.
const CONTENTS: [&str; 2] = ["content", "message"];

/// The equivalent names of the id of the request that an answer answers.
const REQUEST_IDS: [&str; 2] = ["request_id", "requestId"];

/// The equivalent names of a decision.
const DECISIONS: [&str; 2] = ["approve", "approved"];

/// What answers in the inbox files of some agent teams carry besides. Ignored: the coordinator itself knows the sender
/// and the time.
const INBOX_FILE: [&str; 2] = ["from", "timestamp"];

/// The field of a permission request that says what the sender wants to use.
const TOOL: &str = "tool";

/// Returns the fields that only some kinds have.
fn special(kind: Kind) -> &'static [&'static str] {
    if kind.has_tool() { &[TOOL] } else { &[] }
}

/// Returns the fields of a kind that are accepted and ignored.
fn ignored(kind: Kind) -> &'static [&'static str] {
    if kind.is_answer() { &INBOX_FILE } else { &[] }
}

/// Returns the equivalent names of a kind's text.
fn texts(kind: Kind) -> &'static [&'static str] {
    if STRINGS.contains(&kind) { &CONTENTS } else { &TEXTS }
}

/// Returns whether a field is one of SendMessage in any form, or looks like a misspelling of one.
pub fn resembles_field(name: &str) -> bool {
    let all = [&["type", TOOL, "summary"][..], &RECIPIENTS, &TEXTS, &REQUEST_IDS, &DECISIONS, &COMMON].concat();
    other_word(name).is_some() || all.iter().any(|field| is_similar(field, name))
}

/// Returns whether a type is one that can be sent, or looks like a misspelling of one.
pub fn resembles_type(name: &str) -> bool {
    Kind::SENDABLE.iter().any(|kind| is_similar(kind.name(), name))
}

/// Reads one SendMessage in any of its forms.
///
/// Refuses with INVALID_JSON input that is not a JSON object, a repeated key, a value of the wrong type, an unknown
/// field, a field that the type does not have, and two spellings of one field that differ; INVALID_TYPE: a missing or
/// unknown type; MISSING_RECIPIENT, UNEXPECTED_RECIPIENT: a recipient that the type needs or does not have;
/// APPROVE_MISSING: an answer without true or false; MISSING_CONTENT: the newer form without a text. Each refusal names
/// the field at fault and says what to do.
pub fn read(json: &str) -> Result<v1::SendRequest, Refusal> {
    let json = Json::parse(json).map_err(|error| {
        let message = format!("This cannot be read as JSON: {error}. Send one JSON object.");
        Refusal::new(Reason::InvalidJson, message).field("json")
    })?;
    match json.into_unique()? {
        Value::Object(map) => read_object(map),
        other => Err(wrong_type("json", "an object, such as {\"type\": \"message\", …}", &other)),
    }
}

/// Reads one SendMessage that is already parsed and whose keys are unique. See [`read`].
pub fn read_object(map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    match map.get("message") {
        Some(Value::Object(_)) => nested(map),
        _ => flat(map),
    }
}

/// Reads the forms whose fields are all at the top level: the classic one, the newer one with a text, and mixtures.
fn flat(map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    let has = |name: &str| map.get(name).is_some_and(|value| !value.is_null());
    let is_newer = !has("type") && (has("to") || has("message"));
    let kind = if is_newer { Kind::Message } else { kind(map.get("type"), "type", Kind::SENDABLE)? };
    // To a tag, a broadcast and a message are the same.
    let names_tag = |name: &&str| map.get(*name).and_then(Value::as_str).is_some_and(|to| to.starts_with('@'));
    let kind = if kind == Kind::Broadcast && RECIPIENTS.iter().any(names_tag) { Kind::Message } else { kind };
    let known = [
        &["type", "summary"][..],
        special(kind),
        &RECIPIENTS,
        texts(kind),
        &REQUEST_IDS,
        &DECISIONS,
        &COMMON,
        ignored(kind),
    ]
    .concat();
    let named = if is_newer { NEWER.to_vec() } else { [&CLASSIC[..], special(kind)].concat() };
    let mut fields = Fields::new("", map, &known, &named)?;
    if is_newer && !texts(kind).iter().any(|name| fields.has(name)) {
        let message = "message is required: the text to send, or an object that is a protocol message.";
        return Err(Refusal::new(Reason::MissingContent, message).field("message"));
    }
    let recipient_field = if is_newer || fields.has("to") { "to" } else { "recipient" };
    let recipient = recipient(kind, &mut fields)?;
    // "*" is everyone else, in every form.
    let kind = if kind == Kind::Message && recipient == "*" { Kind::Broadcast } else { kind };
    let parts = Parts { recipient, summary: fields.text("summary")?, ..Parts::default() };
    let body = body(kind, parts, &mut fields, texts(kind), recipient_field)?;
    request(fields, body)
}

/// Reads the newer form whose `message` is an object, with the type in that object or beside it.
fn nested(mut map: Map<String, Value>) -> Result<v1::SendRequest, Refusal> {
    let Some(Value::Object(mut inner)) = map.remove("message") else { return flat(map) };
    let outer_type = map.remove("type").filter(|kind| !kind.is_null());
    let inner_type = inner.remove("type").filter(|kind| !kind.is_null());
    let objects: Vec<Kind> = Kind::SENDABLE.iter().copied().filter(|kind| !STRINGS.contains(kind)).collect();
    let kind = match (&outer_type, &inner_type) {
        (Some(outer), Some(inner)) if outer != inner => {
            let message = "type and message.type differ. Give the type once.";
            return Err(Refusal::new(Reason::InvalidType, message).field("message.type"));
        }
        (Some(outer), None) => kind(Some(outer), "type", &objects)?,
        (_, inner) => kind(inner.as_ref(), "message.type", &objects)?,
    };
    // `message` is taken already; it is listed so that an error can suggest it.
    let mut fields = Fields::new("", map, &[&RECIPIENTS[..], &["summary"], &COMMON].concat(), &NEWER)?;
    let named = [&["type"][..], special(kind), &REQUEST_IDS, &DECISIONS, &TEXTS].concat();
    let known = [special(kind), &REQUEST_IDS, &DECISIONS, &TEXTS, ignored(kind)].concat();
    let mut inner = Fields::new("message.", inner, &known, &named)?;
    let recipient_field = if fields.has("recipient") { "recipient" } else { "to" };
    let recipient = recipient(kind, &mut fields)?;
    let parts = Parts { recipient, summary: fields.text("summary")?, ..Parts::default() };
    let body = body(kind, parts, &mut inner, &TEXTS, recipient_field)?;
    request(fields, body)
}

/// Takes the recipient. Returns "*" for a message or broadcast to everyone else. Empty if none was given, or the kind
/// has none.
fn recipient(kind: Kind, fields: &mut Fields) -> Result<String, Refusal> {
    if !kind.has_recipient() {
        let message = format!("A {} goes to {}. Leave recipient out.", kind.name(), kind.goes_to());
        let unexpected = |field: &str| Refusal::new(Reason::UnexpectedRecipient, message.clone()).field(field);
        let (recipient, to) = (fields.text("recipient"), fields.text("to")?);
        return match recipient.as_deref() {
            Ok("") if kind != Kind::Broadcast => Ok(String::new()),
            // Where the recipient follows from the request, `to` is ignored: the tool that the newer form comes from
            // requires it on every call.
            Ok("" | "*") if kind == Kind::Broadcast && ["", "*"].contains(&to.as_str()) => Ok(String::new()),
            Ok("" | "*") if kind == Kind::Broadcast => Err(unexpected("to")),
            _ => Err(unexpected("recipient")),
        };
    }
    let recipient = fields.text_under(&RECIPIENTS)?;
    // Only a message can go to everyone; all other kinds need one member. If it may be left out, "*" is not the same as
    // that.
    let names_no_one = recipient == "*" && kind != Kind::Message && !kind.recipient_is_optional();
    Ok(if names_no_one { String::new() } else { recipient })
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
            None => format!("\"{}\" is not a message type.", shown(text)),
        };
        let names: Vec<&str> = allowed.iter().map(|kind| kind.name()).collect();
        let message = format!("{fault} Use one of: {}.", names.join(", "));
        Refusal::new(Reason::InvalidType, message).field(place)
    })
}

/// Reads the rest of a message's parts, and makes its body.
fn body(
    kind: Kind,
    mut parts: Parts,
    fields: &mut Fields,
    texts: &[&str],
    recipient_field: &str,
) -> Result<Body, Refusal> {
    if !kind.is_answer() {
        refuse_answer(fields, kind)?;
    }
    parts.text = fields.text_under(texts)?;
    if kind.has_tool() {
        parts.tool = fields.text(TOOL)?;
    }
    if kind.has_recipient() && !kind.recipient_is_optional() && parts.recipient.is_empty() {
        let message = format!("A {} needs a recipient. Name {} in \"{recipient_field}\".", kind.name(), kind.goes_to());
        return Err(Refusal::new(Reason::MissingRecipient, message).field(recipient_field));
    }
    if kind.is_answer() {
        parts.request_id = fields.text_under(&REQUEST_IDS)?;
        parts.approve = Some(fields.approve_under(&DECISIONS)?);
    }
    compose(kind, parts)
}

fn compose(kind: Kind, parts: Parts) -> Result<Body, Refusal> {
    kind.compose(parts).ok_or_else(|| {
        Refusal::new(Reason::InvalidType, format!("Only the coordinator sends a {}.", kind.name())).field("type")
    })
}

/// Refuses the fields of an answer on a message that answers nothing. If they were ignored, an agent would believe that
/// it had answered.
fn refuse_answer(fields: &Fields, kind: Kind) -> Result<(), Refusal> {
    let name = kind.name();
    let answers: Vec<&str> = Kind::SENDABLE.iter().filter(|kind| kind.is_answer()).map(|kind| kind.name()).collect();
    let message = format!("A {name} answers nothing. To answer, use a {}.", answers.join(" or a "));
    fields.refuse(&DECISIONS, Reason::InvalidJson, &message)?;
    let message = match kind.is_request() {
        true => format!("The coordinator makes the request_id of a {name}. Leave it out; the reply has it."),
        false => message,
    };
    fields.refuse(&REQUEST_IDS, Reason::InvalidJson, &message)
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
        ..v1::SendRequest::default()
    })
}

fn attachment(index: usize, item: Value) -> Result<v1::Attachment, Refusal> {
    let place = format!("attachments[{index}]");
    let Value::Object(map) = item else {
        return Err(wrong_type(&place, "an object with a uri", &item));
    };
    let known = ["uri", "media_type", "size_bytes", "sha256"];
    let mut fields = Fields::new(&format!("{place}."), map, &known, &known)?;
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
