//! What became of messages at their recipients.

use serde::{Deserialize, Serialize};
use teamwire_proto::name::Name;

use super::record_type::stored_as_json;

/// What became of a message at a recipient, once it has left the inbox; id: `MESSAGE/member`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiptRecord {
    /// Its place in the inbox.
    pub sequence: u64,
    /// When it was last delivered. Zero: not known.
    pub delivered_ms: u64,
    /// When it left the inbox.
    pub finished_ms: u64,
    /// How many sessions have delivered it or may have.
    pub delivery_count: u32,
    /// Why it was given up, the name of a `DeadLetterCause`. Empty: it was processed.
    pub cause: String,
}

stored_as_json!(ReceiptRecord, "receipt");

/// The last alarm of unprocessed messages; id: the member whose they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnprocessedRecord {
    /// The place of the oldest of them.
    pub sequence: u64,
    /// When the lead was told.
    pub told_ms: u64,
}

stored_as_json!(UnprocessedRecord, "unprocessed");

/// Returns the id of the record of a message's receipt.
pub fn receipt_id(message_id: &str, member: &Name) -> String {
    format!("{message_id}/{}", member.folded())
}
