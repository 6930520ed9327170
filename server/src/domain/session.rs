//! Sessions: opening one on an inbox, how far it may deliver, what it has delivered, and acknowledgements.
//!
//! A session delivers an inbox in order, from its oldest unprocessed message. So an earlier session has delivered a
//! message if and only if it got as far as the message's sequence, and how far each earlier session got is enough to
//! tell how many times each message was delivered. The one exception is a pending shutdown request, which overtakes the
//! messages before it when credit runs out; a session lists those by sequence. A session *reserves* sequences in the
//! store before it delivers them, a window at a time; when a coordinator dies, its session counts as having delivered
//! everything that it had reserved. So a message that may have been delivered before is always marked, at no cost per
//! message. Whether a message becomes a dead letter depends only on deliveries that are certain, and a process that
//! reconnects counts once: it still has the message. If the process reports that it failed on the message and wants it
//! again, that delivery counts.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id::{MessageId, RequestId},
    name::Name,
    v1::{self, NoticeKind},
};

use super::{
    actor::Actor,
    identity::{self, Admit, CallerCredentials, superseded},
    inbox::{Leaving, remove_from_inbox},
    notices,
    records::{CursorRecord, Life, SessionEnd, SessionRecord, TeamRecord, is_lost},
    request,
    secret::SessionId,
    topics::Topic,
    tx::{RuleError, Tx},
};

/// How many ids one acknowledgement may carry.
const ACK_IDS_MAX: usize = 1_000;

/// How many sequences a session reserves at a time.
pub const RESERVED_AHEAD: u64 = 128;

/// How many deliveries ahead of their turn a session's record counts exactly. More are possible only if as many
/// shutdown requests were never acknowledged. Then everything up to the oldest counts as possibly delivered, which
/// stays true.
const OVERTOOK_MAX: usize = 64;

/// How many messages one call may say that its process has failed on, and for how many of them a session's record
/// counts the failures.
const FAILED_MAX: usize = 64;

/// How many possible deliveries of a message are counted, and so how high its delivery count can get. A
/// process that reconnects may have more.
const COUNTED_MAX: usize = 100;

/// The outcome of opening a session.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A session.
    Session {
        /// The member.
        member: Name,
        /// The team's name.
        team: Name,
        /// The session's record.
        record: SessionRecord,
        /// The session delivers nothing above this sequence before it has reserved more.
        reserved: u64,
    },
    /// The member has approved its shutdown; the stream only says so.
    Stopping {
        /// The member.
        member: Name,
        /// The team's name.
        team: Name,
        /// The number of its life.
        incarnation: u64,
        /// The request that it approved. `None` if it has left.
        request_id: Option<RequestId>,
    },
}

/// Returns the member on whose inbox the caller may open a session: its own.
pub fn subscriber(who: &CallerCredentials) -> Result<&Name, Refusal> {
    match &who.credential {
        Credential::Member { member, .. } => Ok(member),
        _ => Err(Refusal::new(
            Reason::NotPermitted,
            "Only a member has an inbox. Use a member's credential; to watch a team, follow its history.",
        )),
    }
}

/// Where the session was that the next one supersedes.
#[derive(Clone, Debug)]
pub enum Earlier {
    /// On this coordinator. It has gotten as far as this says, which the store may not know yet.
    Here(CursorRecord),
    /// Perhaps on another coordinator, where it may still deliver what it has reserved.
    Elsewhere,
    /// On a coordinator that no longer runs. It can have delivered nothing that came after this sequence.
    Over(u64),
}

/// Opens a session on the caller's inbox, which supersedes an older one. `tail`: the highest sequence of the inbox.
pub fn open(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::StreamRequest,
    tail: u64,
    earlier: &Earlier,
) -> Result<Opened, RuleError> {
    let instance = &request.instance_id;
    if instance.len() > 64 || !instance.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Refusal::new(Reason::InvalidField, "instance_id must be up to 64 visible ASCII characters.")
            .field("instance_id")
            .into());
    }
    let failed = &request.failed_sequences;
    if failed.len() > FAILED_MAX {
        let text = format!("failed_sequences takes up to {FAILED_MAX} sequences.");
        return Err(Refusal::new(Reason::InvalidField, text).field("failed_sequences").into());
    }
    // This session is about to supersede the caller's earlier one, which therefore proves nothing.
    let who = CallerCredentials { session_id: None, ..who.clone() };
    let (team, name) = identity::process(tx, &who, Admit::Stopping)?;
    // A session replaces the previous one.
    tx.needs_no_room();
    let member = team.member(&name).ok_or_else(identity::invalid)?;
    if let Life::Stopping { cause, .. } = &member.life
        && cause.is_own_decision()
    {
        return Ok(Opened::Stopping {
            member: name.clone(),
            team: team.name.clone(),
            incarnation: member.incarnation,
            request_id: cause.approved().cloned(),
        });
    }
    let before = tx.read::<SessionRecord>(name.folded())?;
    let cursor = tx.read::<CursorRecord>(name.folded())?;
    let before = before.as_deref().cloned().unwrap_or_default();
    let is_same_life = before.incarnation == member.incarnation;
    let is_reconnect = is_same_life && !instance.is_empty() && before.instance == *instance;
    let taken_over = before.epoch > 0 && before.ended.is_none() && is_same_life && !is_reconnect;

    let before = match cursor.as_deref() {
        Some(cursor) if cursor.epoch == before.epoch => {
            let cursor = match earlier {
                Earlier::Here(here) if here.epoch == cursor.epoch && here.delivered >= cursor.delivered => {
                    CursorRecord { reserved: cursor.reserved, ..here.clone() }
                }
                Earlier::Over(last) => CursorRecord { reserved: cursor.reserved.min(*last), ..cursor.clone() },
                Earlier::Here(_) | Earlier::Elsewhere => cursor.clone(),
            };
            let mut counted = count_in(before, &cursor, is_reconnect, tx.ctx.limits.deliveries_max);
            if is_reconnect {
                count_failures(&mut counted, &cursor, failed);
            }
            counted
        }
        _ => before,
    };
    let epoch = before.epoch + 1;
    let record = SessionRecord {
        epoch,
        session_id: SessionId::new(&member.credential, epoch, &tx.new_secret()),
        instance: instance.clone(),
        incarnation: member.incarnation,
        opened_ms: tx.ctx.now_ms,
        ended: None,
        ..before
    };
    let reserved = tail + RESERVED_AHEAD;
    tx.put(name.folded(), &record);
    tx.put(name.folded(), &CursorRecord { epoch, reserved, ..CursorRecord::default() });
    tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    tx.notify(Topic::Session(name.folded()));
    if member.pending_order.is_some() {
        let mut changed = TeamRecord::clone(&team);
        request::spawn::started(tx, &mut changed, &name)?;
        tx.put("", &changed);
    }
    if taken_over && !team.is_lead(&name) {
        let notice = v1::Notice {
            kind: NoticeKind::SessionSuperseded.into(),
            member: name.to_string(),
            text: format!("A second process has opened the inbox of {name}; the first was asked to exit."),
            ..v1::Notice::default()
        };
        notices::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice)?;
    }
    Ok(Opened::Session { member: name, team: team.name.clone(), record, reserved })
}

/// Counts the deliveries of a session that is over: it got as far as `cursor` says. `is_reconnect`: the process that
/// had the session opens the next one. `keep`: how many certain deliveries are worth counting.
fn count_in(mut session: SessionRecord, cursor: &CursorRecord, is_reconnect: bool, keep: usize) -> SessionRecord {
    insert_descending(&mut session.maybe_delivered, cursor.reserved, COUNTED_MAX);
    let delivered = session.process_delivered.max(cursor.delivered);
    session.process_delivered = if is_reconnect { delivered } else { 0 };
    if !is_reconnect {
        insert_descending(&mut session.surely_delivered, delivered, keep);
    }
    // What a session has passed and does not list as unacknowledged has left the inbox.
    let is_left = |sequence: &u64| *sequence > cursor.delivered || cursor.is_unacked(*sequence);
    session.maybe_overtook.retain(is_left);
    session.surely_overtook.retain(is_left);
    session.failures.retain(|(sequence, _)| is_left(sequence));
    for sequence in cursor.overtook.iter().copied().filter(|sequence| cursor.is_unacked(*sequence)) {
        if !is_reconnect {
            session.surely_overtook.push(sequence);
        }
        if sequence > cursor.reserved {
            session.maybe_overtook.push(sequence);
        }
    }
    let SessionRecord { maybe_delivered, maybe_overtook, surely_overtook, .. } = &mut session;
    for sequence in maybe_overtook.drain(..maybe_overtook.len().saturating_sub(OVERTOOK_MAX)) {
        insert_descending(maybe_delivered, sequence, COUNTED_MAX);
    }
    surely_overtook.drain(..surely_overtook.len().saturating_sub(OVERTOOK_MAX));
    session
}

/// Counts one more delivery of each message that the process failed on and that, according to `cursor`, is
/// unacknowledged.
fn count_failures(session: &mut SessionRecord, cursor: &CursorRecord, failed: &[u64]) {
    let failures = &mut session.failures;
    for sequence in failed.iter().copied().filter(|sequence| cursor.is_unacked(*sequence)) {
        match failures.iter_mut().find(|(known, _)| *known == sequence) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => failures.push((sequence, 1)),
        }
    }
    failures.drain(..failures.len().saturating_sub(FAILED_MAX));
}

fn insert_descending(cursors: &mut Vec<u64>, cursor: u64, keep: usize) {
    let at = cursors.partition_point(|known| *known >= cursor);
    cursors.insert(at, cursor);
    cursors.truncate(keep);
}

/// Ends the session on the member's inbox, if there is one.
pub fn end(tx: &mut Tx<'_>, member: &Name, why: SessionEnd) -> Result<(), RuleError> {
    let Some(session) = tx.read::<SessionRecord>(member.folded())? else { return Ok(()) };
    let ended = match &session.ended {
        // A process that has exited by its own decision must still learn of that if it asks.
        Some(SessionEnd::ShutdownApproved(_) | SessionEnd::Left) if why == SessionEnd::Stopped => return Ok(()),
        _ => Some(why),
    };
    tx.put(member.folded(), &SessionRecord { ended, ..SessionRecord::clone(&session) });
    tx.notify(Topic::Session(member.folded()));
    Ok(())
}

/// Returns the session's record if the session still holds the inbox.
pub(super) fn hold(tx: &mut Tx<'_>, member: &Name, session_id: &SessionId) -> Result<Arc<SessionRecord>, RuleError> {
    let session = tx.read::<SessionRecord>(member.folded())?;
    match session {
        Some(session) if session.session_id == *session_id => Ok(session),
        session if is_lost(session_id, session.as_deref()) => {
            Err(Refusal::new(Reason::StoreUnavailable, "The store has lost this session. Open another one.").into())
        }
        _ => Err(superseded(member).into()),
    }
}

/// Records how far a session has gotten, and how far it may deliver.
pub fn advance(tx: &mut Tx<'_>, member: &Name, session_id: &SessionId, cursor: &CursorRecord) -> Result<(), RuleError> {
    let session = hold(tx, member, session_id)?;
    if session.ended.is_some() {
        return Err(superseded(member).into());
    }
    put_cursor(tx, member, cursor)
}

/// Closes a session because its stream has ended. `cursor`: exactly how far it got.
pub fn close(tx: &mut Tx<'_>, member: &Name, session_id: &SessionId, cursor: &CursorRecord) -> Result<(), RuleError> {
    let session = hold(tx, member, session_id)?;
    put_cursor(tx, member, &CursorRecord { reserved: cursor.delivered, ..cursor.clone() })?;
    if session.ended.is_none() {
        let ended = Some(SessionEnd::Closed);
        tx.put(member.folded(), &SessionRecord { ended, ..SessionRecord::clone(&session) });
    }
    Ok(())
}

/// Puts a member's cursor. While the store is full, also checks the one that it replaces: a full store takes only what
/// evidently adds nothing. At other times the read would cost every delivery a round trip.
fn put_cursor(tx: &mut Tx<'_>, member: &Name, cursor: &CursorRecord) -> Result<(), RuleError> {
    if tx.ctx.store_is_full {
        tx.read::<CursorRecord>(member.folded())?;
    }
    tx.put(member.folded(), cursor);
    Ok(())
}

/// An acknowledgement, checked.
#[derive(Debug)]
pub struct Acknowledgement {
    /// Who acknowledges.
    pub who: CallerCredentials,
    /// The member whose inbox the messages leave.
    pub member: Name,
    /// The messages.
    pub message_ids: Vec<MessageId>,
}

impl Acknowledgement {
    /// Checks the fields of an acknowledgement. `member`: whom a console credential acts for.
    pub fn check(who: &CallerCredentials, member: Option<Name>, request: &v1::AckRequest) -> Result<Self, Refusal> {
        if request.message_ids.len() > ACK_IDS_MAX {
            return Err(
                Refusal::new(Reason::InvalidField, "message_ids takes up to 1,000 ids a call.").field("message_ids")
            );
        }
        let mut message_ids = Vec::with_capacity(request.message_ids.len());
        for text in &request.message_ids {
            message_ids.push(MessageId::parse(text, "message_ids")?);
        }
        let (member, session_id) = match (&who.credential, member) {
            (Credential::Member { member, .. }, _) => {
                (member.clone(), SessionId::presented(request.session_id.as_str()))
            }
            (_, Some(member)) => (member, None),
            _ => return Err(Refusal::new(Reason::NotPermitted, "Only a member has an inbox to acknowledge from.")),
        };
        let session_id = session_id.or_else(|| who.session_id.clone());
        Ok(Self { member, who: CallerCredentials { session_id, ..who.clone() }, message_ids })
    }
}

/// Marks messages as processed. `messages`: those of the acknowledgement that are still in the inbox.
pub fn acknowledge(tx: &mut Tx<'_>, acknowledgement: &Acknowledgement, messages: &[Leaving]) -> Result<(), RuleError> {
    let (_, name) = identity::member_or_host(tx, &acknowledgement.who, Admit::Stopping)?;
    tx.needs_no_room();
    if acknowledgement.message_ids.is_empty() {
        let text = "message_ids is empty. Name the messages that were processed, 1 to 1,000 a call.";
        return Err(Refusal::new(Reason::InvalidField, text).field("message_ids").into());
    }
    remove_from_inbox(tx, &name, messages, None);
    Ok(())
}
