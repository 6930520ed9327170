//! Receipts: what happened to messages at their recipients.

use serde::{Deserialize, Serialize};
use teamwire_proto::{id::MessageId, name::Name, v1::DeadLetterCause};

use super::record_type::stored_as_json;

/// What happened to a message at a recipient, written when it leaves the inbox. Id: `MESSAGE/member`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiptRecord {
    /// Its sequence in the inbox.
    pub sequence: u64,
    /// When it was last delivered, as far as is known.
    pub delivered_ms: Option<u64>,
    /// When it left the inbox.
    pub finished_ms: u64,
    /// How many sessions have or may have delivered it.
    pub delivery_count: u32,
    /// Why it became a dead letter. `None` if its recipient processed it.
    #[serde(with = "by_name")]
    pub dead_letter: Option<DeadLetterCause>,
}

/// Stores a cause by the name that the protocol gives it.
mod by_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use teamwire_proto::v1::DeadLetterCause;

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(cause: &Option<DeadLetterCause>, serializer: S) -> Result<S::Ok, S::Error> {
        cause.as_ref().map(DeadLetterCause::as_str_name).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DeadLetterCause>, D::Error> {
        let name = Option::<String>::deserialize(deserializer)?;
        let known = |name: String| {
            DeadLetterCause::from_str_name(&name).ok_or_else(|| D::Error::custom(format!("unknown cause `{name}`")))
        };
        name.map(known).transpose()
    }
}

stored_as_json!(ReceiptRecord, "receipt");

/// The latest notice to the lead of unprocessed messages. Id: the inbox's owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnprocessedRecord {
    /// The sequence of the oldest of them.
    pub sequence: u64,
    /// When the notice was sent.
    pub told_ms: u64,
}

stored_as_json!(UnprocessedRecord, "unprocessed");

/// Returns the id of a receipt's record.
pub fn receipt_id(message_id: MessageId, member: &Name) -> String {
    format!("{message_id}/{}", member.folded())
}
