//! The entries of an inbox, and how they leave it.

use bytes::Bytes;
use teamwire_proto::{name::Name, v1::DeadLetterCause};
use uuid::Uuid;

use super::{
    records::{ReceiptRecord, receipt_id},
    streams,
    tx::Tx,
};

/// Returns the entry of a message.
pub(super) fn entry_of(id: &str) -> Bytes {
    let id = Uuid::try_parse(id).expect("an id that this coordinator has drawn");
    Bytes::copy_from_slice(id.as_bytes())
}

/// Returns the id of the message that an entry names. `None`: it is not an entry of an inbox.
pub fn message_id_of(entry: &[u8]) -> Option<String> {
    Uuid::from_slice(entry).ok().map(|id| id.to_string())
}

/// A message that is about to leave an inbox.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// Its sequence.
    pub sequence: u64,
    /// Its id.
    pub message_id: String,
    /// When it was last delivered, in milliseconds since 1970. Zero: unknown.
    pub delivered_ms: u64,
    /// How many sessions have or may have delivered it.
    pub delivery_count: u32,
}

/// Removes messages from an inbox and writes their receipts. `cause`: why they become dead letters. `None`: they were
/// processed.
pub(super) fn remove_from_inbox(tx: &mut Tx<'_>, member: &Name, messages: &[Leaving], cause: Option<DeadLetterCause>) {
    tx.remove(streams::inbox(member), messages.iter().map(|message| message.sequence).collect());
    for message in messages {
        let receipt = ReceiptRecord {
            sequence: message.sequence,
            delivered_ms: message.delivered_ms,
            finished_ms: tx.ctx.now_ms,
            delivery_count: message.delivery_count,
            cause: cause.map_or("", |cause| cause.as_str_name()).to_owned(),
        };
        tx.put(&receipt_id(&message.message_id, member), &receipt);
    }
}
