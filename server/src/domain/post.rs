//! Putting messages into inboxes and into the history.
//!
//! A message is stored once, under its id. Inboxes and the history hold ids, in order of arrival.

use std::time::Duration;

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    id::MessageId,
    name::Name,
    v1::{self, history_entry::Event, message::Body},
};

use super::{
    actor::Actor, history, inbox::InboxEntry, limits::Limits, records::TeamRecord, streams, time::timestamp,
    topics::Topic, tx::Tx,
};
use crate::store::{Bound, WhenFull};

/// How far a message may overfill an inbox, and what happens if it does not fit. Notices in the inbox do not count; see
/// [`Tx::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Fits up to the bound; beyond it the send is refused.
    Ordinary,
    /// An answer, or a permission request, for whose answer a program waits. Fits up to twice the bound, so that a full
    /// inbox does not keep a request from being answered; then the send is refused.
    Answer,
    /// A shutdown request or its answer. Fits up to three times the bound, then the send is refused. Nothing else may
    /// fill that last third, and a member has at most one pending shutdown request and gives it one answer: the send is
    /// refused only if as many earlier ones as the bound allows were never processed.
    Shutdown,
    /// Fits up to twice the bound and the bound of notices; then it is only in the history.
    Notice,
}

impl Urgency {
    fn bound(self, limits: &Limits) -> Bound {
        let (factor, notices, when_full) = match self {
            Self::Ordinary => (1, 0, WhenFull::Refuse),
            Self::Answer => (2, 0, WhenFull::Refuse),
            Self::Shutdown => (3, 0, WhenFull::Refuse),
            Self::Notice => (2, limits.inbox_notices_max as u64, WhenFull::Skip),
        };
        Bound {
            entries_max: limits.inbox_entries_max.saturating_mul(factor).saturating_add(notices),
            weight_max: limits.inbox_bytes_max.saturating_mul(factor),
            when_full,
        }
    }
}

/// Composes a message with a new id, its sender and the time.
pub fn compose(tx: &mut Tx<'_>, team: &TeamRecord, sender: &Actor, body: Body) -> v1::Message {
    let id = tx.new_message_id();
    compose_with_id(tx, id, team, sender, body)
}

/// Composes a message with this id, its sender and the time.
pub fn compose_with_id(tx: &Tx<'_>, id: MessageId, team: &TeamRecord, sender: &Actor, body: Body) -> v1::Message {
    v1::Message {
        id: id.to_string(),
        team: team.name.to_string(),
        sender: Some(sender.into()),
        sent_at: Some(timestamp(tx.ctx.now_ms)),
        body: Some(body),
        ..v1::Message::default()
    }
}

/// Stores a message, and appends it to the inboxes and the history.
pub fn post(tx: &mut Tx<'_>, mut message: v1::Message, to: &[&Name], urgency: Urgency) -> v1::Message {
    message.recipients = to.iter().map(|name| name.to_string()).collect();
    let id = message.id.clone();
    let weight = message.encoded_len() as u64;
    tx.put(&id, &message);
    let message_id = MessageId::known(&id).expect("an id that this coordinator has drawn");
    let entry = InboxEntry::new(message_id, weight, &message.sender.clone().unwrap_or_default()).encode();
    let bound = urgency.bound(&tx.ctx.limits);
    for name in to {
        tx.append(streams::inbox(name), entry.clone(), weight, Some(bound));
    }
    match to {
        [] => {}
        [name] => tx.notify(Topic::Inbox(name.folded())),
        _ => tx.notify(Topic::Inboxes),
    }
    history::append(tx, Event::Message(v1::Message { id, ..v1::Message::default() }));
    message
}

/// Returns the refusal of a send whose transaction failed because this stream, an inbox of the team, is full.
pub fn inbox_full(team: Option<&TeamRecord>, stream: &str, limits: &Limits) -> Refusal {
    let folded = streams::inbox_owner(stream).unwrap_or(stream);
    let member = team.and_then(|team| team.members.iter().find(|member| member.name.folded() == folded));
    let name = member.map_or(folded, |member| member.name.as_str());
    Refusal::new(
        Reason::InboxFull,
        format!(
            "The inbox of {name} is full ({} messages or {} bytes). Nothing was sent. Wait until {name} has processed some \
             of them, then send again.",
            limits.inbox_entries_max, limits.inbox_bytes_max
        ),
    )
    .with("member", name)
    .retry_after(Duration::from_secs(5))
}
