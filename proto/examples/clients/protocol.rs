//! The protocol's calls and messages.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::{FileDescriptorSet, field_descriptor_proto::Type};

/// All calls and messages, by name.
pub(crate) struct Protocol {
    calls: HashMap<String, Call>,
    messages: HashMap<String, Message>,
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub name: String,
    /// The name of its service, such as `HostService`.
    pub service: String,
    pub request: String,
    pub reply: String,
}

/// A message type.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Its name, such as `HostOffer`.
    pub name: String,
    /// The name of its file, such as `host`.
    pub file: String,
    /// How many fields it has; a field of a `oneof` counts, too.
    pub field_count: usize,
    /// Those that a helper can set or return.
    fields: Vec<Field>,
}

/// A field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub kind: FieldKind,
    /// Whether it is `optional`.
    pub is_optional: bool,
}

/// What a field holds.
#[derive(Clone, Debug)]
pub(crate) enum FieldKind {
    Text,
    Flag,
    /// A message with this name.
    Message(String),
}

impl Protocol {
    pub(crate) fn read() -> Self {
        let set = FileDescriptorSet::decode(teamwire_proto::DESCRIPTORS).expect("descriptors");
        let (mut calls, mut messages) = (HashMap::new(), HashMap::new());
        for file in set.file.iter().filter(|file| file.package() == "teamwire.v1") {
            let stem = file.name().rsplit('/').next().unwrap_or_default().trim_end_matches(".proto");
            for message in &file.message_type {
                let fields = message.field.iter().filter_map(|field| {
                    let kind = match field.r#type() {
                        Type::String => FieldKind::Text,
                        Type::Bool => FieldKind::Flag,
                        Type::Message => FieldKind::Message(bare(field.type_name())),
                        _ => return None,
                    };
                    Some(Field { name: field.name().to_owned(), kind, is_optional: field.proto3_optional() })
                });
                let (name, file) = (message.name().to_owned(), stem.to_owned());
                let message =
                    Message { name: name.clone(), file, field_count: message.field.len(), fields: fields.collect() };
                messages.insert(name, message);
            }
            for service in &file.service {
                for method in &service.method {
                    let (name, service) = (method.name().to_owned(), service.name().to_owned());
                    let (request, reply) = (bare(method.input_type()), bare(method.output_type()));
                    calls.insert(name.clone(), Call { name, service, request, reply });
                }
            }
        }
        Self { calls, messages }
    }

    pub(crate) fn call(&self, name: &str) -> Result<Call, String> {
        self.calls.get(name).cloned().ok_or_else(|| format!("there is no call {name}"))
    }

    pub(crate) fn message(&self, name: &str) -> Result<Message, String> {
        self.messages.get(name).cloned().ok_or_else(|| format!("there is no message {name}"))
    }
}

impl Message {
    pub(crate) fn field(&self, name: &str) -> Result<Field, String> {
        let field = self.fields.iter().find(|field| field.name == name).cloned();
        field.ok_or_else(|| format!("{} has no field {name} that a helper can set or return", self.name))
    }
}

/// Returns the last part of a name.
fn bare(name: &str) -> String {
    name.rsplit('.').next().unwrap_or_default().to_owned()
}
