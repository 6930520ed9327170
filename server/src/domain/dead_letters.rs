//! Messages that cannot be delivered.

use teamwire_proto::{
    name::Name,
    v1::{self, DeadLetterCause, NoticeKind, history_entry::Event, message::Body},
};

use super::{
    actor::Actor,
    history,
    identity::superseded,
    inbox::{Leaving, remove_from_inbox},
    notices,
    records::{ReceiptRecord, SessionRecord, TeamRecord, receipt_id},
    secret::SessionId,
    session::hold,
    tx::{RuleError, Tx},
};

/// Why a message cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undeliverable {
    /// It was delivered too many times, and never acknowledged.
    DeliveryLimit,
    /// It is a shutdown request for an earlier life of the member.
    TargetReplaced,
}

impl Undeliverable {
    /// Returns the cause as receipts name it.
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

/// Returns whether a message is a shutdown request for another life of the member. This life must not act on it.
pub fn is_for_another_life(message: &v1::Message, incarnation: u64) -> bool {
    matches!(message.body, Some(Body::ShutdownRequest(_))) && message.target_incarnation != incarnation
}

/// Returns why a message must not be delivered to this life of its recipient. `None` if it may be.
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

/// Moves a message to the team's dead letters, and notifies its sender and the lead.
pub fn dead_letter(
    tx: &mut Tx<'_>,
    member: &Name,
    session_id: &SessionId,
    leaving: &Leaving,
    message: &v1::Message,
    why: Undeliverable,
) -> Result<(), RuleError> {
    hold(tx, member, session_id)?;
    // It may have been acknowledged outside the session in the meantime.
    if tx.read::<ReceiptRecord>(&receipt_id(leaving.message_id, member))?.is_some() {
        return Ok(());
    }
    let team = tx.read::<TeamRecord>("")?.ok_or_else(|| superseded(member))?;
    remove_from_inbox(tx, member, std::slice::from_ref(leaving), Some(why.cause()));
    history::append(
        tx,
        Event::DeadLetter(v1::DeadLetterEvent {
            message_id: message.id.clone(),
            recipient: member.to_string(),
            cause: why.cause().into(),
        }),
    );
    // The requester of an earlier life's shutdown got a notice when that request was cancelled. And notices about
    // undeliverable notices could continue forever.
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
            "A message was delivered to {member} {} times and never acknowledged; it is a dead letter now.",
            leaving.delivery_count
        ),
        ..v1::Notice::default()
    };
    notices::notify(tx, &team, &to, notice)?;
    Ok(())
}
