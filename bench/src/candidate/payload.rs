//! The messages that the null server and the plain store write: composed as teamwire composes them.

use std::time::SystemTime;

use prost::Message as _;
use teamwire_proto::v1;
use uuid::Uuid;

use super::{SUMMARY, TEAM};
use crate::Result;

/// Composes a message to one member, and returns its id and encoding.
pub(crate) fn compose(recipient: &str, content: String) -> (Uuid, Vec<u8>) {
    let text = v1::DirectMessage { recipient: recipient.to_owned(), summary: SUMMARY.to_owned(), content };
    let (id, message) = message(vec![recipient.to_owned()], String::new(), v1::message::Body::Message(text));
    (id, message.encode_to_vec())
}

/// Returns the content of an encoded message.
pub(crate) fn content(body: &[u8]) -> Result<String> {
    match v1::Message::decode(body)?.body {
        Some(v1::message::Body::Message(text)) => Ok(text.content),
        _ => Err("the message is not the one that was sent".into()),
    }
}

/// Composes a message with a new id.
pub(super) fn message(recipients: Vec<String>, sender: String, body: v1::message::Body) -> (Uuid, v1::Message) {
    let id = Uuid::now_v7();
    let message = v1::Message {
        id: id.to_string(),
        team: TEAM.to_owned(),
        sender: Some(v1::Sender { kind: v1::SenderKind::Member.into(), name: sender }),
        sent_at: Some(SystemTime::now().into()),
        recipients,
        body: Some(body),
        ..v1::Message::default()
    };
    (id, message)
}
