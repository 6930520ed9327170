//! Prints replies: as tables and lines for a person, as JSON for a program.
//!
//! One file for each noun. Text from other members never reaches the terminal unfiltered: [`plain`] replaces control
//! characters and marks hidden ones, [`line`] writes them as JSON escapes.

mod activity;
mod audit;
mod change;
mod history;
mod host;
mod member;
mod message;
mod request;
mod rule;
#[cfg(test)]
pub(crate) mod schema;
mod style;
mod table;
mod task;
mod text;
mod transcript;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use teamwire_agents::visible::json_line;

use crate::failure::Failure;

pub(crate) use self::{
    activity::{activity_line, turn, usage, usage_of_all},
    audit::audit,
    change::{change, change_json},
    history::{entry, entry_json},
    host::{hosts, hosts_in_all},
    member::members,
    message::{delivery, delivery_json, message},
    request::{
        first_line_of_request, last_lines, order_in_full, permission_in_full, plain_lines, request_kind, request_text,
        review_of, summary_of_request,
    },
    rule::{rule_sentence, rules},
    style::{bold, dim, paint, warn, warning},
    table::{table, table_with_texts},
    task::{task, task_line, tasks},
    text::{count, one_line, plain, short_id, shorten, size, time},
    transcript::{transcript_entry, transcript_turn},
};

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(teamwire_proto::DESCRIPTORS).expect("the descriptors are generated"));

/// Converts a protobuf message to JSON with the protocol's field names. `name` is the message's type, such as `Team`.
///
/// Values of enums are short words, as in the JSON of agents: `exited`, not `MEMBER_STATE_EXITED`.
pub(crate) fn json(name: &str, message: &impl prost::Message) -> Value {
    let descriptor = POOL.get_message_by_name(&format!("teamwire.v1.{name}")).expect("a message type of the protocol");
    let dynamic = DynamicMessage::decode(descriptor.clone(), message.encode_to_vec().as_slice())
        .expect("a message decodes from its own encoding");
    let options = SerializeOptions::new().use_proto_field_name(true).stringify_64_bit_integers(false);
    let mut value = dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("serializing to a value cannot fail");
    shorten_enums(&descriptor, &mut value);
    value
}

fn shorten_enums(descriptor: &MessageDescriptor, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        let Some(field) = descriptor.get_field_by_name(name) else { continue };
        let values = match value {
            Value::Array(values) => values.iter_mut().collect::<Vec<_>>(),
            one => vec![one],
        };
        for value in values {
            match (field.kind(), value) {
                (Kind::Enum(kind), Value::String(text)) => *text = enum_word(kind.name(), text),
                (Kind::Message(inner), value) => shorten_enums(&inner, value),
                _ => {}
            }
        }
    }
}

/// Returns the word for a value of an enum: its name without the enum's, which the protocol's style repeats in each
/// value.
fn enum_word(kind: &str, value: &str) -> String {
    let mut prefix = String::new();
    for c in kind.chars() {
        if c.is_ascii_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.push(c.to_ascii_uppercase());
    }
    value.strip_prefix(&prefix).and_then(|rest| rest.strip_prefix('_')).unwrap_or(value).to_ascii_lowercase()
}

/// Prints one line of JSON, in which characters that no one sees are escapes.
pub(crate) fn line(value: &Value) {
    anstream::println!("{}", json_line(value));
}

/// Creates the failure for a reply that lacks a required field.
pub(crate) fn incomplete() -> Failure {
    Failure::with_code(
        crate::failure::UNREACHABLE,
        "The coordinator's reply is incomplete. Does it run the same version of teamwire?",
    )
}

#[cfg(test)]
mod tests {
    use teamwire_client::v1::{ExitReport, GetTeamResponse, ListMembersResponse, Member, MemberState, Role};

    use super::*;

    #[test]
    fn enums_are_short_words_at_every_depth() {
        let member = Member {
            state: MemberState::Exited.into(),
            role: Role::Lead.into(),
            exit: Some(ExitReport::default()),
            ..Member::default()
        };
        let value = json("ListMembersResponse", &ListMembersResponse { members: vec![member], ..Default::default() });
        assert_eq!((&value["members"][0]["state"], &value["members"][0]["role"]), (&"exited".into(), &"lead".into()));
        assert_eq!(json("GetTeamResponse", &GetTeamResponse::default()), serde_json::json!({}));
        assert_eq!(enum_word("TaskEventKind", "TASK_EVENT_KIND_LAPSED"), "lapsed");
        assert_eq!(enum_word("TaskStatus", "17"), "17");
    }
}
