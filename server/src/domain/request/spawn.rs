//! The order that a host start a member: how it is made, handed to a host, and approved. `host/ending.rs` says how else
//! it ends.
//!
//! The name is reserved while the order is pending. The first session of the member approves the order. However else it
//! ends, the name is free afterwards, the join token is void, and the prompt is gone from the inbox.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    id::{MessageId, RequestId},
    name::Name,
    v1::{self, DeadLetterCause, MemberState, NoticeKind, RequestKind, RequestState, message::Body},
};

use super::{conclude, expect_kind, find, leave_pending, member_mut, new_request, remove_pending, requester};
use crate::domain::{
    actor::Actor,
    history::{self, member_event},
    inbox, notices,
    post::{self, Urgency},
    records::{EndCause, Exit, JoinTokenRecord, Life, Ordered, Pending, TeamRecord},
    streams::REQUESTS,
    subscriptions,
    time::timestamp,
    topics::Topic,
    tx::{RuleError, Tx},
};

/// An order that is about to be made.
#[derive(Debug)]
pub struct NewOrder<'a> {
    /// Who orders.
    pub requester: &'a Actor,
    /// The member, whose name is reserved already.
    pub member: &'a Name,
    /// The host that was chosen.
    pub host: &'a Name,
    /// What was ordered.
    pub terms: v1::SpawnTerms,
    /// What the member is to do, and the message that tells it, if it gets one.
    pub prompt: Option<(&'a str, MessageId)>,
    /// How long the start may take.
    pub deadline_ms: u64,
}

/// Makes an order, and puts it into the host's inbox. The caller puts the team.
pub fn open(tx: &mut Tx<'_>, team: &mut TeamRecord, order: NewOrder<'_>) -> Result<v1::Request, RuleError> {
    let pending = Pending::new(tx.new_request_id(), tx.ctx.now_ms, order.deadline_ms);
    let member = member_mut(team, order.member)?;
    let reschedule = order.terms.reschedule;
    let request = v1::Request {
        content: order.prompt.map_or("", |(prompt, _)| prompt).to_owned(),
        created_at: Some(timestamp(tx.ctx.now_ms)),
        spawn: Some(order.terms),
        ..new_request(RequestKind::Spawn, order.requester, member, &pending)
    };
    member.ordered = Some(Ordered {
        request_id: pending.id.clone(),
        host: order.host.clone(),
        prompt_id: order.prompt.map(|(_, id)| id),
        token_id: None,
        reschedule,
    });
    member.pending_order = Some(pending);
    let request = hand_to(tx, team, request, order.host);
    tx.append(REQUESTS, request.id.clone().into(), 0, None);
    Ok(request)
}

/// Puts an order into a host's inbox.
fn hand_to(tx: &mut Tx<'_>, team: &TeamRecord, request: v1::Request, host: &Name) -> v1::Request {
    let terms = request.spawn.clone().unwrap_or_default();
    let summary = format!("Start {} with the profile {}", request.member, terms.profile);
    let body = Body::SpawnOrder(v1::SpawnOrder {
        recipient: host.to_string(),
        summary: summary.clone(),
        member: request.member.clone(),
        terms: Some(terms),
    });
    let message = v1::Message {
        request_id: request.id.clone(),
        request_expires_at: request.expires_at,
        ..post::compose(tx, team, &Actor::Coordinator, body)
    };
    let message = post::post(tx, message, &[host], Urgency::Answer);
    let request = v1::Request { approver: host.to_string(), message_id: message.id, summary, ..request };
    tx.put(&request.id, &request);
    request
}

/// Returns an order that this host has. Refuses one that another host has.
pub fn find_for(tx: &mut Tx<'_>, host: &Name, request_id: &str) -> Result<Arc<v1::Request>, RuleError> {
    RequestId::parse(request_id, "request_id")?;
    let request = find(tx, request_id)?;
    expect_order(&request)?;
    if Name::parse(&request.approver, "approver")? == *host {
        return Ok(request);
    }
    let text = format!("This order is not yours. {} has it.", request.approver);
    Err(Refusal::new(Reason::NotRequestTarget, text).field("request_id").into())
}

fn expect_order(request: &v1::Request) -> Result<(), Refusal> {
    if request.kind() == RequestKind::Spawn { Ok(()) } else { expect_kind(request, RequestKind::Spawn) }
}

/// Refuses an order that is no longer pending.
pub fn check_pending(tx: &Tx<'_>, request: &v1::Request) -> Result<(), Refusal> {
    let (reason, text) = match request.state() {
        RequestState::Pending if !super::is_overdue(tx, request) => return Ok(()),
        RequestState::Approved => {
            (Reason::AlreadyDecided, format!("{} has started: nothing is left to do for this order.", request.member))
        }
        RequestState::Rejected => {
            (Reason::AlreadyDecided, "The order was refused before: do not start the member.".to_owned())
        }
        RequestState::Cancelled => {
            (Reason::RequestCancelled, "The order was cancelled: do not start the member.".to_owned())
        }
        RequestState::Pending | RequestState::Expired | RequestState::Unspecified => {
            (Reason::RequestExpired, "The order expired: do not start the member.".to_owned())
        }
    };
    Err(Refusal::new(reason, text).field("request_id"))
}

/// Approves the order that began the member's life, if it is pending: its first session opens. Refuses the session if
/// the order is overdue. The caller puts the team.
pub fn started(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<(), RuleError> {
    let Some(pending) = team.member(name).and_then(|member| member.pending_order.clone()) else { return Ok(()) };
    let request = find(tx, pending.id.as_str())?;
    if super::is_overdue(tx, &request) {
        let text = format!("{name} started after its order had expired. End this process.");
        return Err(Refusal::new(Reason::MemberStopped, text).into());
    }
    remove_pending(team, &request)?;
    let by = Some((&Actor::Member(name.clone())).into());
    conclude(tx, &v1::Request { decided_by: by, ..leave_pending(tx, &request, RequestState::Approved) });
    let text = format!("{name} has started on {}.", request.approver);
    tell(tx, team, &request, NoticeKind::SpawnStarted, text)
}

/// Hands a refused order to another host. The caller puts the team.
pub fn hand_on(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    request: &v1::Request,
    to: &Name,
) -> Result<v1::Request, RuleError> {
    let name = Name::parse(&request.member, "member")?;
    let mut terms = request.spawn.clone().unwrap_or_default();
    terms.refused_by.push(request.approver.clone());
    void_token(tx, team, &name)?;
    if let Some(ordered) = &mut member_mut(team, &name)?.ordered {
        ordered.host = to.clone();
    }
    Ok(hand_to(tx, team, v1::Request { spawn: Some(terms), ..request.clone() }, to))
}

/// Clears up after an order that ended without an approval: its token is void, its prompt leaves the inbox, and the
/// name is free if no one has joined with it. The caller puts the team.
pub fn clear_up(tx: &mut Tx<'_>, team: &mut TeamRecord, request: &v1::Request, why: &str) -> Result<(), RuleError> {
    withdraw_prompt(tx, team, request)?;
    let name = Name::parse(&request.member, "member")?;
    void_token(tx, team, &name)?;
    if team.member(&name).is_some_and(|member| member.life == Life::Spawning) {
        end_reserved(tx, team, &name, why)?;
    }
    Ok(())
}

fn end_reserved(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name, why: &str) -> Result<(), RuleError> {
    let now_ms = tx.ctx.now_ms;
    let member = member_mut(team, name)?;
    member.enter(Life::Exited { exit: Exit::unseen(why), cause: EndCause::NotStarted }, now_ms);
    history::append(tx, member_event(name, MemberState::Exited, member.incarnation, why));
    subscriptions::life_ended(tx, team, name, format!("{name} has not started: {why}"))?;
    tx.notify(Topic::Team);
    Ok(())
}

/// Takes the prompt back out of the inbox, so that no later life gets it.
fn withdraw_prompt(tx: &mut Tx<'_>, team: &TeamRecord, request: &v1::Request) -> Result<(), RuleError> {
    let name = Name::parse(&request.member, "member")?;
    let ordered = team.member(&name).and_then(|member| member.ordered.as_ref());
    let ordered = ordered.filter(|ordered| ordered.request_id.as_str() == request.id);
    let Some(prompt_id) = ordered.and_then(|ordered| ordered.prompt_id) else { return Ok(()) };
    inbox::withdraw(tx, &name, prompt_id, DeadLetterCause::NotStarted)
}

/// Voids the join token that a host has taken an order with.
pub fn void_token(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<(), RuleError> {
    let ordered = &mut member_mut(team, name)?.ordered;
    if let Some(id) = ordered.as_mut().and_then(|ordered| ordered.token_id.take()) {
        tx.delete::<JoinTokenRecord>(&id);
    }
    Ok(())
}

/// Sends a notice about an order to the lead and to the member that made it.
pub fn tell(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    request: &v1::Request,
    kind: NoticeKind,
    text: String,
) -> Result<(), RuleError> {
    let lead = Actor::Member(team.lead.clone());
    let requester = requester(team, request).map(Actor::Member);
    let to: Vec<&Actor> = std::iter::once(&lead).chain(&requester).collect();
    let notice = v1::Notice {
        kind: kind.into(),
        member: request.member.clone(),
        request_id: request.id.clone(),
        text,
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &to, notice)
}
