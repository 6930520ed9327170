//! Replies as a person or a program reads them: tables, lines and JSON.

mod history;
mod member;
mod message;
mod request;
mod style;
mod table;
mod task;
mod text;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

use crate::failure::Failure;

pub use self::{
    history::{entry, entry_json},
    member::{exit_text, members},
    message::{delivery, delivery_json, message_life, says},
    request::{request_kind, request_text},
    style::{bold, dim, paint, warning},
    table::table,
    task::{task, task_line, tasks},
    text::{plain, short, time},
};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(teamwire_proto::DESCRIPTORS).expect("the protocol's own descriptors"));

/// Returns a message of the protocol as JSON, in the names of the protocol. `name`: its name, such as `Team`.
pub fn json(name: &str, message: &impl prost::Message) -> Value {
    let descriptor = POOL.get_message_by_name(&format!("teamwire.v1.{name}")).expect("a message of the protocol");
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()).expect("its own encoding");
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).expect("no failing serializers")
}

/// Prints one line of JSON.
pub fn line(value: &Value) {
    anstream::println!("{value}");
}

/// Says that a thing that must be in a reply is not.
pub fn incomplete() -> Failure {
    Failure::with_code(crate::failure::UNREACHABLE, "The coordinator's reply is incomplete. Is it of another version?")
}
