//! Writes the crate's tables from the protocol's options; see `teamwire/v1/options.proto`.

pub(crate) mod body;
pub(crate) mod method;
pub(crate) mod notice;
pub(crate) mod reason;
pub(crate) mod redact;

use prost_reflect::{DescriptorPool, DynamicMessage, FileDescriptor, ReflectMessage as _};
use protox::prost_reflect;

/// Returns the value of an option that is a message. `None` if the option is not set.
fn policy(pool: &DescriptorPool, options: &DynamicMessage, extension: &str) -> Option<DynamicMessage> {
    let extension = pool.get_extension_by_name(&format!("teamwire.v1.{extension}")).expect("an extension");
    options.has_extension(&extension).then(|| message(&options.get_extension(&extension)))
}

fn message(value: &prost_reflect::Value) -> DynamicMessage {
    value.as_message().expect("a message").clone()
}

/// Returns a field that is a text.
fn text(policy: &DynamicMessage, field: &str) -> String {
    policy.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).expect("a text")
}

/// Returns a field that is a flag.
fn flag(policy: &DynamicMessage, field: &str) -> bool {
    policy.get_field_by_name(field).and_then(|value| value.as_bool()).expect("a flag")
}

/// Returns a field that is an enum, as the name of its value without the prefix.
fn word(policy: &DynamicMessage, field: &str, prefix: &str) -> String {
    value_name(policy, field, &policy.get_field_by_name(field).expect("a field"), prefix)
}

/// Returns a field that is a list of an enum, as the names of its values without the prefix.
fn words(policy: &DynamicMessage, field: &str, prefix: &str) -> Vec<String> {
    let values = policy.get_field_by_name(field).expect("a field");
    values.as_list().expect("a list").iter().map(|value| value_name(policy, field, value, prefix)).collect()
}

fn value_name(policy: &DynamicMessage, field: &str, value: &prost_reflect::Value, prefix: &str) -> String {
    let kind = policy.descriptor().get_field_by_name(field).expect("a field").kind();
    let number = value.as_enum_number().expect("an enum");
    let value = kind.as_enum().expect("an enum").get_value(number).expect("a known value");
    value.name().strip_prefix(prefix).expect("the prefix").to_owned()
}

/// Returns the comment in front of an element of a file as Rust documentation.
fn documentation(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref().expect("sources");
    let location = info.location.iter().find(|location| location.path == path).expect("a location");
    location.leading_comments().lines().map(|line| format!("///{line}\n")).collect()
}

/// Returns `SCREAMING_SNAKE` or `snake` as `Camel`.
fn camel(name: &str) -> String {
    let word = |word: &str| word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase();
    name.split('_').map(word).collect()
}

/// Writes a method that returns a value for each variant of an enum.
fn by_variant(signature: &str, documentation: &str, arms: impl Iterator<Item = (String, String)>) -> String {
    let arms: String = arms.map(|(variant, value)| format!("            Self::{variant} => {value},\n")).collect();
    format!(
        "    /// {documentation}\n    pub const fn {signature} {{\n        match self {{\n{arms}        }}\n    }}\n"
    )
}
