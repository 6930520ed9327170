//! The entries of an inbox, and how they leave it.

use bytes::Bytes;
use teamwire_proto::{
    Refusal,
    id::MessageId,
    name::Name,
    v1::{self, DeadLetterCause},
};
use uuid::Uuid;

use super::{
    records::{ReceiptRecord, receipt_id},
    streams,
    tx::Tx,
};

/// Returns the entry of a message.
pub(super) fn entry_of(id: MessageId) -> Bytes {
    Bytes::copy_from_slice(Uuid::from(id).as_bytes())
}

/// Returns the id of the message that an entry names. `None` if it is not an entry of an inbox.
pub fn message_id_of(entry: &[u8]) -> Option<MessageId> {
    Uuid::from_slice(entry).ok().map(MessageId::from)
}

/// Returns the id of a message that the coordinator has composed or stored.
pub fn id_of(message: &v1::Message) -> Result<MessageId, Refusal> {
    MessageId::parse(&message.id, "id")
}

/// A message that is about to leave an inbox.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// Its sequence.
    pub sequence: u64,
    /// Its id.
    pub message_id: MessageId,
    /// When it was last delivered, in milliseconds since 1970, as far as is known.
    pub delivered_ms: Option<u64>,
    /// How many sessions have or may have delivered it.
    pub delivery_count: u32,
}

impl Leaving {
    /// Describes a message that leaves without regard to whether it was delivered.
    pub(super) fn withdrawn(sequence: u64, message_id: MessageId) -> Self {
        Self { sequence, message_id, delivered_ms: None, delivery_count: 0 }
    }
}

/// Removes messages from an inbox and writes their receipts. `dead_letter`: why they become dead letters. `None` if
/// they were processed.
pub(super) fn remove_from_inbox(
    tx: &mut Tx<'_>,
    member: &Name,
    messages: &[Leaving],
    dead_letter: Option<DeadLetterCause>,
) {
    tx.remove(streams::inbox(member), messages.iter().map(|message| message.sequence).collect());
    for message in messages {
        let receipt = ReceiptRecord {
            sequence: message.sequence,
            delivered_ms: message.delivered_ms,
            finished_ms: tx.ctx.now_ms,
            delivery_count: message.delivery_count,
            dead_letter,
        };
        tx.put(&receipt_id(message.message_id, member), &receipt);
    }
}
