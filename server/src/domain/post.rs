//! Putting messages into inboxes and into the history.
//!
//! A message is stored once, under its id. An inbox holds ids, in the order of arrival; so does the history.

use bytes::Bytes;
use prost::Message as _;
use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind, history_entry::Event, message::Body},
};
use uuid::Uuid;

use super::{
    limits::Limits,
    record::{HISTORY, TOPIC_INBOXES, TeamRecord, inbox, topic_inbox},
    roster::Actor,
    tx::Tx,
};
use crate::store::{Bound, WhenFull};

/// How hard an inbox tries to take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Up to the bound; beyond it the send is refused.
    Ordinary,
    /// Up to twice the bound, so that a full inbox does not keep a request from being answered; then refused.
    Answer,
    /// Up to twice the bound; then it is only in the history.
    Notice,
    /// Up to the bound; then it is only in the history.
    Advice,
}

impl Urgency {
    fn bound(self, limits: &Limits) -> Bound {
        let (factor, when_full) = match self {
            Self::Ordinary => (1, WhenFull::Refuse),
            Self::Answer => (2, WhenFull::Refuse),
            Self::Notice => (2, WhenFull::Skip),
            Self::Advice => (1, WhenFull::Skip),
        };
        Bound {
            entries_max: limits.inbox_entries_max.saturating_mul(factor),
            weight_max: limits.inbox_bytes_max.saturating_mul(factor),
            when_full,
        }
    }
}

/// Converts an instant to its protocol form.
pub fn timestamp(ms: u64) -> prost_types::Timestamp {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds, nanos }
}

/// Converts a number of milliseconds to its protocol form.
pub fn duration(ms: u64) -> prost_types::Duration {
    let prost_types::Timestamp { seconds, nanos } = timestamp(ms);
    prost_types::Duration { seconds, nanos }
}

/// Converts a duration from its protocol form, in milliseconds. Zero: absent, or negative.
pub fn duration_ms(duration: Option<&prost_types::Duration>) -> u64 {
    let duration = duration.and_then(|&duration| std::time::Duration::try_from(duration).ok());
    duration.map_or(0, super::limits::ms)
}

/// Converts an instant from its protocol form.
pub fn milliseconds(timestamp: &prost_types::Timestamp) -> u64 {
    u64::try_from(timestamp.seconds).unwrap_or(0) * 1000 + u64::try_from(timestamp.nanos).unwrap_or(0) / 1_000_000
}

/// Begins a message: a fresh id, the sender, the time.
pub fn compose(tx: &mut Tx<'_>, team: &TeamRecord, sender: &Actor, body: Body) -> v1::Message {
    v1::Message {
        id: tx.new_message_id().to_string(),
        team: team.name.to_string(),
        sender: Some(sender.into()),
        sent_at: Some(timestamp(tx.ctx.now_ms)),
        body: Some(body),
        ..v1::Message::default()
    }
}

/// Stores a message, and puts it into the inboxes and the history.
pub fn post(tx: &mut Tx<'_>, mut message: v1::Message, to: &[&Name], urgency: Urgency) -> v1::Message {
    message.recipients = to.iter().map(|name| name.to_string()).collect();
    let id = message.id.clone();
    let weight = message.encoded_len() as u64;
    tx.put(&id, &message);
    let entry = inbox_entry(&id);
    let bound = urgency.bound(&tx.ctx.limits);
    for name in to {
        tx.append(inbox(name), entry.clone(), weight, Some(bound));
    }
    match to {
        [] => {}
        [name] => tx.notification(topic_inbox(name)),
        _ => tx.notification(TOPIC_INBOXES),
    }
    record(tx, Event::Message(v1::Message { id, ..v1::Message::default() }));
    message
}

/// Adds an entry to the history.
pub fn record(tx: &mut Tx<'_>, event: Event) {
    let entry =
        v1::HistoryEntry { at: Some(timestamp(tx.ctx.now_ms)), event: Some(event), ..v1::HistoryEntry::default() };
    let data: Bytes = entry.encode_to_vec().into();
    tx.append(HISTORY, data, 0, None);
}

/// Returns what an inbox holds for a message.
fn inbox_entry(id: &str) -> Bytes {
    let id = Uuid::try_parse(id).expect("an id that this coordinator has drawn");
    Bytes::copy_from_slice(id.as_bytes())
}

/// Reads what an inbox holds.
pub fn message_id_of(entry: &[u8]) -> Option<String> {
    Uuid::from_slice(entry).ok().map(|id| id.to_string())
}

/// Sends a notice of the coordinator to the members among the parties, each of them once.
pub fn notify(tx: &mut Tx<'_>, team: &TeamRecord, to: &[&Actor], notice: v1::Notice) {
    let mut names: Vec<&Name> = Vec::new();
    for party in to {
        if let Actor::Member(name) = party
            && !names.contains(&name)
            && team.member(name).is_some()
        {
            names.push(name);
        }
    }
    let urgency = if notice.kind() == NoticeKind::Idle { Urgency::Advice } else { Urgency::Notice };
    let message = compose(tx, team, &Actor::Coordinator, Body::Notice(notice));
    post(tx, message, &names, urgency);
}
