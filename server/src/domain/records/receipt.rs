//! Receipts: what happened to messages at their recipients.

use serde::{Deserialize, Serialize};
use teamwire_proto::name::Name;

use super::record_type::stored_as_json;

/// What happened to a message at a recipient, written when it leaves the inbox. Id: `MESSAGE/member`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiptRecord {
    /// Its sequence in the inbox.
    pub sequence: u64,
    /// When it was last delivered. Zero: unknown.
    pub delivered_ms: u64,
    /// When it left the inbox.
    pub finished_ms: u64,
    /// How many sessions have or may have delivered it.
    pub delivery_count: u32,
    /// Why it became a dead letter: the name of a `DeadLetterCause`. Empty: it was processed.
    pub cause: String,
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
pub fn receipt_id(message_id: &str, member: &Name) -> String {
    format!("{message_id}/{}", member.folded())
}
