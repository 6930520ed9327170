//! Sessions: opening one on an inbox, how far it may deliver, what it has delivered, and acknowledgements.
//!
//! A session delivers an inbox in order from its oldest unprocessed message on. So a message was seen by an earlier
//! session exactly if that session came as far as the message's sequence, and a handful of numbers tells how often each
//! message was delivered: how far each earlier session came. A session *reserves* sequences in the store before it
//! delivers them, a window at a time; when a coordinator dies, its session counts as having delivered all that it had
//! reserved. So a message that may have been seen is always marked, at no cost for each message. Giving a message up
//! goes by what is known to have been delivered.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, DeadLetterCause, NoticeKind, history_entry::Event, message::Body},
};

use super::{
    identity::{self, Admit, CallerCredentials, is_lost, superseded},
    post,
    record::{CursorRecord, Life, ReceiptRecord, SessionEnd, SessionRecord, TeamRecord, inbox, topic_session},
    roster::Actor,
    tx::{RuleError, Tx},
};

/// How many sequences a session reserves at a time.
pub const RESERVED_AHEAD: u64 = 128;

/// What came of opening a session.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A session.
    Session {
        /// Whose.
        member: Name,
        /// The team's name.
        team: Name,
        /// The record as it was put.
        record: SessionRecord,
        /// It delivers nothing above this before it has raised it.
        reserved: u64,
    },
    /// The member has approved its shutdown: there is nothing to deliver but that.
    Stopping {
        /// Whose.
        member: Name,
        /// The team's name.
        team: Name,
        /// The life.
        incarnation: u64,
        /// The request that it approved.
        request_id: String,
    },
}

/// Opens a session on the caller's own inbox; an older one is superseded. `tail`: the highest sequence of the inbox.
pub fn open(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::StreamRequest,
    tail: u64,
) -> Result<Opened, RuleError> {
    let instance = &request.instance_id;
    if instance.len() > 64 || !instance.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Refusal::new(Reason::InvalidField, "instance_id must be up to 64 visible ASCII characters.")
            .field("instance_id")
            .into());
    }
    // The session that the caller had before is about to be superseded by this one: it proves nothing here.
    let who = CallerCredentials { session_id: None, ..who.clone() };
    let (team, name) = identity::member(tx, &who, Admit::Stopping)?;
    let member = team.member(&name).ok_or_else(identity::invalid)?;
    if let Life::Stopping { request_id: Some(request_id), .. } = &member.life {
        return Ok(Opened::Stopping {
            member: name.clone(),
            team: team.name.clone(),
            incarnation: member.incarnation,
            request_id: request_id.clone(),
        });
    }
    let before = tx.read::<SessionRecord>(name.folded())?;
    let cursor = tx.read::<CursorRecord>(name.folded())?;
    let before = before.as_deref().cloned().unwrap_or_default();
    let taken_over = before.epoch > 0
        && before.ended.is_none()
        && before.incarnation == member.incarnation
        && (instance.is_empty() || before.instance != *instance);

    let (mut maybe, mut surely) = (before.maybe_delivered, before.surely_delivered);
    if let Some(cursor) = cursor.as_deref().filter(|cursor| cursor.epoch == before.epoch) {
        let keep = tx.ctx.limits.deliveries_max;
        insert_descending(&mut maybe, cursor.reserved, keep);
        insert_descending(&mut surely, cursor.delivered, keep);
    }
    let epoch = before.epoch + 1;
    let record = SessionRecord {
        epoch,
        session_id: format!("{epoch}-{}", &tx.new_secret()[..24]),
        instance: instance.clone(),
        incarnation: member.incarnation,
        opened_ms: tx.ctx.now_ms,
        ended: None,
        maybe_delivered: maybe,
        surely_delivered: surely,
    };
    let reserved = tail + RESERVED_AHEAD;
    tx.put(name.folded(), &record);
    tx.put(name.folded(), &CursorRecord { epoch, reserved, ..CursorRecord::default() });
    tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    tx.notification(topic_session(&name));
    if taken_over && !team.is_lead(&name) {
        let notice = v1::Notice {
            kind: NoticeKind::SessionSuperseded.into(),
            member: name.to_string(),
            text: format!("A second process has opened the inbox of {name}; the first was told to end."),
            ..v1::Notice::default()
        };
        post::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice);
    }
    Ok(Opened::Session { member: name, team: team.name.clone(), record, reserved })
}

fn insert_descending(cursors: &mut Vec<u64>, cursor: u64, keep: usize) {
    let at = cursors.partition_point(|known| *known >= cursor);
    cursors.insert(at, cursor);
    cursors.truncate(keep);
}

impl SessionRecord {
    /// Returns how many earlier sessions may have delivered the message at this place.
    pub fn maybe_seen(&self, sequence: u64) -> u32 {
        count(&self.maybe_delivered, sequence)
    }

    /// Returns how many earlier sessions have delivered the message at this place, as far as is known.
    pub fn surely_seen(&self, sequence: u64) -> u32 {
        count(&self.surely_delivered, sequence)
    }
}

fn count(cursors: &[u64], sequence: u64) -> u32 {
    u32::try_from(cursors.partition_point(|cursor| *cursor >= sequence)).unwrap_or(u32::MAX)
}

/// Ends whatever session is on the member's inbox.
pub fn end(tx: &mut Tx<'_>, member: &Name, why: SessionEnd) -> Result<(), RuleError> {
    let Some(session) = tx.read::<SessionRecord>(member.folded())? else { return Ok(()) };
    let ended = match &session.ended {
        // A process that has ended because it approved must still be told so if it asks.
        Some(SessionEnd::ShutdownApproved(_)) if why == SessionEnd::Stopped => return Ok(()),
        _ => Some(why),
    };
    tx.put(member.folded(), &SessionRecord { ended, ..SessionRecord::clone(&session) });
    tx.notification(topic_session(member));
    Ok(())
}

/// Returns the session's record if it is still the one that holds.
fn hold(tx: &mut Tx<'_>, member: &Name, session_id: &str) -> Result<std::sync::Arc<SessionRecord>, RuleError> {
    let session = tx.read::<SessionRecord>(member.folded())?;
    match session {
        Some(session) if session.session_id == session_id => Ok(session),
        session if is_lost(session_id, session.as_deref()) => {
            Err(Refusal::new(Reason::StoreUnavailable, "The store has lost this session. Open another one.").into())
        }
        _ => Err(superseded(member).into()),
    }
}

/// Records how far a session has come, and how far it may go.
pub fn advance(tx: &mut Tx<'_>, member: &Name, session_id: &str, cursor: &CursorRecord) -> Result<(), RuleError> {
    let session = hold(tx, member, session_id)?;
    if session.ended.is_some() {
        return Err(superseded(member).into());
    }
    tx.put(member.folded(), cursor);
    Ok(())
}

/// Closes a session because its stream has ended. `cursor`: exactly how far it came.
pub fn close(tx: &mut Tx<'_>, member: &Name, session_id: &str, cursor: &CursorRecord) -> Result<(), RuleError> {
    let session = hold(tx, member, session_id)?;
    let exact = CursorRecord { reserved: cursor.delivered, ..cursor.clone() };
    tx.put(member.folded(), &exact);
    if session.ended.is_none() {
        let ended = Some(SessionEnd::Closed);
        tx.put(member.folded(), &SessionRecord { ended, ..SessionRecord::clone(&session) });
    }
    Ok(())
}

/// A message that leaves an inbox.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// Its place.
    pub sequence: u64,
    /// Its id.
    pub message_id: String,
    /// When it was last delivered. Zero: not known.
    pub delivered_ms: u64,
    /// How many sessions have delivered it or may have.
    pub delivery_count: u32,
}

/// Marks messages as processed.
pub fn acknowledge(tx: &mut Tx<'_>, who: &CallerCredentials, messages: &[Leaving]) -> Result<(), RuleError> {
    let (_, name) = identity::member(tx, who, Admit::Stopping)?;
    remove_from_inbox(tx, &name, messages, None);
    Ok(())
}

/// Takes messages out of an inbox and writes their receipts. `cause`: why they are given up; `None`: they are processed.
pub(super) fn remove_from_inbox(tx: &mut Tx<'_>, member: &Name, messages: &[Leaving], cause: Option<DeadLetterCause>) {
    tx.remove(inbox(member), messages.iter().map(|message| message.sequence).collect());
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

/// Returns the id of the record of a message's receipt.
pub fn receipt_id(message_id: &str, member: &Name) -> String {
    format!("{message_id}/{}", member.folded())
}

/// Why a message is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeliverable {
    /// Too many sessions saw it without an acknowledgement.
    DeliveryLimit,
    /// It asks an earlier life of the member to end.
    TargetReplaced,
}

impl Undeliverable {
    /// Returns the cause as the receipt has it.
    pub fn cause(self) -> DeadLetterCause {
        match self {
            Self::DeliveryLimit => DeadLetterCause::DeliveryLimit,
            Self::TargetReplaced => DeadLetterCause::TargetReplaced,
        }
    }

    /// Returns the cause as metrics label it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeliveryLimit => "delivery_limit",
            Self::TargetReplaced => "target_replaced",
        }
    }
}

/// Returns whether a message asks another life than this one to end. No other life may see it as its own.
pub fn is_for_another_life(message: &v1::Message, incarnation: u64) -> bool {
    matches!(message.body, Some(Body::ShutdownRequest(_))) && message.target_incarnation != incarnation
}

/// Says whether a message must not be delivered to this life of its recipient any more.
pub fn undeliverable(
    session: &SessionRecord,
    sequence: u64,
    message: &v1::Message,
    deliveries_max: usize,
) -> Option<Undeliverable> {
    if is_for_another_life(message, session.incarnation) {
        return Some(Undeliverable::TargetReplaced);
    }
    let seen = session.surely_seen(sequence) as usize;
    (seen >= deliveries_max).then_some(Undeliverable::DeliveryLimit)
}

/// Puts a message among the team's dead letters, and tells its sender and the lead.
pub fn dead_letter(
    tx: &mut Tx<'_>,
    member: &Name,
    session_id: &str,
    leaving: &Leaving,
    message: &v1::Message,
    why: Undeliverable,
) -> Result<(), RuleError> {
    hold(tx, member, session_id)?;
    // It may have been acknowledged outside of the session while this was decided.
    if tx.read::<ReceiptRecord>(&receipt_id(&leaving.message_id, member))?.is_some() {
        return Ok(());
    }
    let team = tx.read::<TeamRecord>("")?.ok_or_else(|| superseded(member))?;
    remove_from_inbox(tx, member, std::slice::from_ref(leaving), Some(why.cause()));
    post::record(
        tx,
        Event::DeadLetter(v1::DeadLetterEvent {
            message_id: message.id.clone(),
            recipient: member.to_string(),
            cause: why.cause().into(),
        }),
    );
    // Whoever asked the earlier life to end was told when that request was cancelled. And a notice about a lost notice
    // would go round in circles.
    if why == Undeliverable::TargetReplaced || matches!(message.body, Some(Body::Notice(_))) {
        return Ok(());
    }
    let sender = message.sender.as_ref().filter(|sender| sender.kind() == v1::SenderKind::Member);
    let sender = sender.and_then(|sender| Name::parse(&sender.name, "sender").ok()).map(Actor::Member);
    let lead = Actor::Member(team.lead.clone());
    let mut to: Vec<&Actor> = sender.iter().collect();
    to.push(&lead);
    let notice = v1::Notice {
        kind: NoticeKind::DeadLetter.into(),
        member: member.to_string(),
        message_id: message.id.clone(),
        text: format!(
            "{member} was given a message {} times and never acknowledged it; it was given up. See `teamwire history`.",
            leaving.delivery_count
        ),
        ..v1::Notice::default()
    };
    post::notify(tx, &team, &to, notice);
    Ok(())
}
