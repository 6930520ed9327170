//! Prints replies: as tables and lines for a person, as JSON for a program.
//!
//! One file for each noun. Text from other members never reaches the terminal unfiltered: [`plain`] removes control
//! characters.

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
    member::members,
    message::{delivery, delivery_json, message, summary_and_content},
    request::{request_kind, request_text},
    style::{bold, dim, paint, warning},
    table::table,
    task::{task, task_line, tasks},
    text::{one_line, plain, shorten, time},
};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(teamwire_proto::DESCRIPTORS).expect("the descriptors are generated"));

/// Converts a protobuf message to JSON with the protocol's field names. `name` is the message's type, such as `Team`.
pub fn json(name: &str, message: &impl prost::Message) -> Value {
    let descriptor = POOL.get_message_by_name(&format!("teamwire.v1.{name}")).expect("a message type of the protocol");
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .expect("a message decodes from its own encoding");
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    dynamic.serialize_with_options(serde_json::value::Serializer, &options).expect("serializing to a value cannot fail")
}

/// Prints one line of JSON.
pub fn line(value: &Value) {
    anstream::println!("{value}");
}

/// Creates the failure for a reply that lacks a required field.
pub fn incomplete() -> Failure {
    Failure::with_code(
        crate::failure::UNREACHABLE,
        "The coordinator's reply is incomplete. Does it run the same version of teamwire?",
    )
}
