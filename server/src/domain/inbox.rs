//! The entries of an inbox, how many of them a sender may have, and how they leave it.

use std::collections::HashSet;

use bytes::Bytes;
use teamwire_proto::{
    Refusal,
    id::MessageId,
    name::Name,
    v1::{self, DeadLetterCause, SenderKind},
};
use uuid::Uuid;

use super::{
    limits::Limits,
    records::{EndCause, Life, MemberRecord, ReceiptRecord, TeamRecord, receipt_id},
    streams,
    topics::Topic,
    tx::{Allowance, RuleError, Tx},
};

/// How many messages of one sender a full inbox takes at least.
pub const SHARE_ENTRIES: u64 = 16;

/// How many bytes of messages of one sender a full inbox takes at least.
const SHARE_BYTES: u64 = 128 * 1024;

/// A bound is at least so many times that.
const SHARES_MIN: u64 = 8;

/// An entry of an inbox: the message that it names, whose records hold the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxEntry {
    /// The message.
    pub message_id: MessageId,
    /// The length of its encoding.
    pub bytes: u32,
    /// Who sent it.
    pub sender: EntrySender,
}

/// Who sent a message, as the entry of an inbox says it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EntrySender {
    /// The coordinator: it is a notice.
    Coordinator,
    /// The operator.
    Operator,
    /// The member with this folded name.
    Member(String),
}

/// How the entry of an inbox names the operator. No member has this name.
const OPERATOR: &str = "*";

impl InboxEntry {
    /// Makes the entry of a message of this length.
    pub(super) fn new(message_id: MessageId, bytes: u64, sender: &v1::Sender) -> Self {
        let sender = match sender.kind() {
            SenderKind::Member => EntrySender::Member(sender.name.to_lowercase()),
            SenderKind::Operator => EntrySender::Operator,
            SenderKind::Coordinator | SenderKind::Unspecified => EntrySender::Coordinator,
        };
        Self { message_id, bytes: u32::try_from(bytes).unwrap_or(u32::MAX), sender }
    }

    /// Writes the id, the length, and the sender's name, which is empty if that is the coordinator.
    pub(super) fn encode(&self) -> Bytes {
        let sender = match &self.sender {
            EntrySender::Coordinator => "",
            EntrySender::Operator => OPERATOR,
            EntrySender::Member(name) => name,
        };
        let id = Uuid::from(self.message_id);
        [id.as_bytes(), &self.bytes.to_be_bytes()[..], sender.as_bytes()].concat().into()
    }

    /// Reads an entry. `None` if it is not one of an inbox.
    pub fn decode(entry: &[u8]) -> Option<Self> {
        let (id, rest) = entry.split_first_chunk::<16>()?;
        let (bytes, sender) = rest.split_first_chunk::<4>()?;
        let sender = match std::str::from_utf8(sender).ok()? {
            "" => EntrySender::Coordinator,
            OPERATOR => EntrySender::Operator,
            name => EntrySender::Member(name.to_owned()),
        };
        let message_id = Uuid::from_bytes(*id).into();
        Some(Self { message_id, bytes: u32::from_be_bytes(*bytes), sender })
    }
}

/// Returns the id of the message that an entry names. `None` if it is not an entry of an inbox.
pub fn message_id_of(entry: &[u8]) -> Option<MessageId> {
    InboxEntry::decode(entry).map(|entry| entry.message_id)
}

/// Returns how much of an inbox takes no room from messages: notices, and what members have sent that were stopped by
/// force since.
pub fn uncounted(entries: &[InboxEntry], team: Option<&TeamRecord>) -> Allowance {
    let stopped: HashSet<&str> = team.into_iter().flat_map(|team| &team.members).filter_map(stopped_by_force).collect();
    sum(entries, |entry| match &entry.sender {
        EntrySender::Coordinator => true,
        EntrySender::Operator => false,
        EntrySender::Member(name) => stopped.contains(name.as_str()),
    })
}

fn stopped_by_force(member: &MemberRecord) -> Option<&str> {
    let is_forced = matches!(
        member.life,
        Life::Stopping { cause: EndCause::Forced { .. }, .. } | Life::Exited { cause: EndCause::Forced { .. }, .. }
    );
    is_forced.then_some(member.name.folded())
}

/// Returns how much more than its bound a full inbox takes of a message: what others have put there if its sender has
/// less than its share, so that no one shuts anyone else out; or else what takes no room.
///
/// The share is the bound divided by the number of senders that have messages in the inbox, until the inbox holds half
/// more than its bound; and at least `SHARE_ENTRIES` and `SHARE_BYTES`. So plans and answers still find room.
pub fn allowance(entries: &[InboxEntry], new: &InboxEntry, team: Option<&TeamRecord>, limits: &Limits) -> Allowance {
    let own = sum(entries, |entry| entry.sender == new.sender);
    let mut senders: HashSet<&EntrySender> = entries.iter().map(|entry| &entry.sender).collect();
    senders.remove(&EntrySender::Coordinator);
    senders.insert(&new.sender);
    let all = sum(entries, |entry| entry.sender != EntrySender::Coordinator);
    let of = |held: u64, bound: u64, least: u64| {
        let fair = if held < bound + bound / 2 { bound / senders.len() as u64 } else { 0 };
        fair.max(least.min(bound / SHARES_MIN).max(1))
    };
    let share = Allowance {
        entries: of(all.entries, limits.inbox_entries_max, SHARE_ENTRIES),
        weight: of(all.weight, limits.inbox_bytes_max, SHARE_BYTES),
    };
    let fits = own.entries == 0 || own.weight + u64::from(new.bytes) <= share.weight;
    if own.entries < share.entries && fits {
        sum(entries, |entry| entry.sender != new.sender)
    } else {
        uncounted(entries, team)
    }
}

fn sum(entries: &[InboxEntry], is_counted: impl Fn(&InboxEntry) -> bool) -> Allowance {
    let counted = entries.iter().filter(|entry| is_counted(entry));
    counted.fold(Allowance::default(), |sum, entry| Allowance {
        entries: sum.entries + 1,
        weight: sum.weight + u64::from(entry.bytes),
    })
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

/// Returns the flood of a member that was stopped by force: what it has in an inbox, if that is more than half of what
/// fits, except its latest messages: a share, which takes no room from anyone. Less than that is its work, of which
/// nothing is lost.
pub fn flood(entries: Vec<(u64, InboxEntry)>, sender: &str, limits: &Limits) -> Vec<Leaving> {
    let sender = EntrySender::Member(sender.to_lowercase());
    let its = entries.iter().map(|(_, entry)| entry).filter(|entry| entry.sender == sender);
    let (count, bytes) = its.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + u64::from(entry.bytes)));
    if count <= limits.inbox_entries_max / 2 && bytes <= limits.inbox_bytes_max / 2 {
        return Vec::new();
    }
    let its = entries.into_iter().filter(|(_, entry)| entry.sender == sender);
    let its: Vec<Leaving> = its.map(|(sequence, entry)| Leaving::withdrawn(sequence, entry.message_id)).collect();
    let kept = its.len().min(usize::try_from(SHARE_ENTRIES).unwrap_or(usize::MAX));
    its[..its.len() - kept].to_vec()
}

/// Takes these messages out of an inbox, because their sender was stopped by force.
pub fn clear_flood(tx: &mut Tx<'_>, owner: &Name, messages: &[Leaving]) -> Result<(), RuleError> {
    tx.needs_no_room();
    remove_from_inbox(tx, owner, messages, Some(DeadLetterCause::SenderStopped));
    tx.notify(Topic::Withdrawn(owner.folded()));
    Ok(())
}

/// Takes a message that is of no use any more out of an inbox, in which it may not be: its owner has not processed it.
pub(super) fn withdraw(
    tx: &mut Tx<'_>,
    owner: &Name,
    message_id: MessageId,
    why: DeadLetterCause,
) -> Result<(), RuleError> {
    if let Some(sequence) = tx.place_in_inbox(owner, message_id)? {
        remove_from_inbox(tx, owner, &[Leaving::withdrawn(sequence, message_id)], Some(why));
        tx.notify(Topic::Withdrawn(owner.folded()));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sender: &str, bytes: u32) -> InboxEntry {
        let sender = match sender {
            "" => EntrySender::Coordinator,
            OPERATOR => EntrySender::Operator,
            name => EntrySender::Member(name.to_owned()),
        };
        InboxEntry { message_id: Uuid::from_u128(7).into(), bytes, sender }
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for sender in ["", OPERATOR, "bob", "zoë"] {
            let written = entry(sender, 70_000);
            assert_eq!(InboxEntry::decode(&written.encode()), Some(written));
        }
        assert_eq!(InboxEntry::decode(b"too short"), None);
    }

    #[test]
    fn only_a_flood_of_a_stopped_member_leaves() {
        let limits = Limits { inbox_entries_max: 100, inbox_bytes_max: 1 << 20, ..Limits::default() };
        let inbox = |count: u64, bytes: u32| (0..count).map(|at| (at, entry("eve", bytes))).collect::<Vec<_>>();
        let leaves = |entries, sender: &str| flood(entries, sender, &limits).len();
        assert_eq!(leaves(inbox(50, 100), "eve"), 0);
        assert_eq!(leaves(inbox(51, 100), "Eve"), 35);
        assert_eq!(leaves(inbox(51, 100), "bob"), 0);
        assert_eq!(leaves(inbox(20, 30_000), "eve"), 4, "their bytes count, too");
    }

    #[test]
    fn a_full_inbox_takes_a_share_of_each_sender() {
        let limits = Limits { inbox_entries_max: 1_000, inbox_bytes_max: 1 << 20, ..Limits::default() };
        let flood: Vec<_> = (0..1_000).map(|_| entry("eve", 100)).collect();
        let allowance = |entries: &[InboxEntry], new: &InboxEntry| allowance(entries, new, None, &limits);
        let all = Allowance { entries: flood.len() as u64, weight: 100 * flood.len() as u64 };
        assert_eq!(allowance(&flood, &entry("bob", 100)), all);
        assert_eq!(allowance(&flood, &entry("eve", 100)), Allowance::default(), "it has more than its share");

        let with = |own: InboxEntry, count: usize| [flood.clone(), vec![own; count]].concat();
        assert_eq!(allowance(&with(entry("bob", 100), 499), &entry("bob", 100)), all, "they are two");
        assert_eq!(allowance(&with(entry("bob", 100), 500), &entry("bob", 100)), Allowance::default());
        assert_eq!(allowance(&with(entry("bob", 524_000), 1), &entry("bob", 1_000)), Allowance::default());
        assert_eq!(allowance(&flood, &entry("bob", 600_000)), all, "one message fits, however long");

        let more: Vec<_> = (0..500).map(|_| entry("ann", 100)).collect();
        let both = |own: usize| [flood.clone(), more.clone(), vec![entry("bob", 100); own]].concat();
        assert!(allowance(&both(15), &entry("bob", 100)).entries > 0);
        assert_eq!(allowance(&both(16), &entry("bob", 100)), Allowance::default(), "the rest is for plans and answers");

        let many: Vec<_> = (0..200).map(|of| entry(&format!("m{of}"), 100)).collect();
        let many = |own: usize| [flood.clone(), many.clone(), vec![entry("bob", 100); own]].concat();
        assert!(allowance(&many(15), &entry("bob", 100)).entries > 0, "a share is never too small");
        assert_eq!(allowance(&many(16), &entry("bob", 100)), Allowance::default());

        let notice = Allowance { entries: 1, weight: 50 };
        assert_eq!(allowance(&with(entry("", 50), 1), &entry("eve", 100)), notice);
    }
}
