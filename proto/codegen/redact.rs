//! Keeps credentials out of logs: messages with a `debug_redact` field get a `Debug` that leaves it out.

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};

/// Returns the messages that hold a secret.
pub(crate) fn secret_messages(pool: &DescriptorPool) -> Vec<MessageDescriptor> {
    pool.all_messages().filter(|message| message.fields().any(|field| is_secret(&field))).collect()
}

/// Returns whether a field holds a secret.
pub(crate) fn is_secret(field: &FieldDescriptor) -> bool {
    let flag = field.options().get_field_by_name("debug_redact").and_then(|flag| flag.as_bool());
    flag.unwrap_or_default()
}

pub(crate) fn table(pool: &DescriptorPool) -> String {
    secret_messages(pool).iter().map(debug).collect()
}

fn debug(message: &MessageDescriptor) -> String {
    let name = message.name();
    let fields = message.fields().map(|field| match is_secret(&field) {
        true => format!(".field({:?}, &Redacted(self.{}.is_empty()))", field.name(), field.name()),
        false => format!(".field({:?}, &self.{})", field.name(), field.name()),
    });
    let fields: String = fields.collect();
    format!(
        "impl fmt::Debug for v1::{name} {{\nfn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{\n\
         f.debug_struct({name:?}){fields}.finish()\n}}\n}}\n"
    )
}
