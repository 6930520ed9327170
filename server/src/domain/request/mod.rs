//! The state machine that shutdowns, plans, permissions, reviews and orders share: `pending -> approved | rejected | expired |
//! cancelled`.
//!
//! A request is bound to one life of a member: the one that is asked to exit, the author of the plan, the one that asks
//! for permission, or the one that is to start. It is cancelled when that life ends. A review is bound to a task and a commit instead,
//! and outlives the life of the task's owner. When a request is over, the message
//! that made it leaves the inbox of the member that was to answer it. Pending requests are kept in the
//! roster, at most one shutdown, one plan, one order and a bounded number of permissions per member, so that every
//! change to a life sees them.

pub mod answerers;
pub mod cancel;
pub mod expiry;
pub mod hand_on;
pub mod permission;
pub mod plan;
pub mod review;
pub mod shutdown;
pub mod spawn;

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    id::{MessageId, RequestId},
    name::Name,
    v1::{
        self, CancelCause, DeadLetterCause, NoticeKind, RequestKind, RequestState, history_entry::Event, message::Body,
    },
};

use super::{
    actor::Actor,
    history,
    identity::Principal,
    inbox,
    limits::Limits,
    notices,
    post::{self, Urgency},
    query::{may_see_request, request_not_found},
    records::{MemberRecord, Pending, TeamRecord},
    streams::REQUESTS,
    text::check_size,
    time::{milliseconds, timestamp},
    topics::Topic,
    tx::{RuleError, Tx},
};

/// An answer, checked.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The request.
    pub request_id: RequestId,
    /// Yes or no.
    pub approve: bool,
    /// Why.
    pub reason: String,
}

impl Answer {
    /// Checks the fields of an answer.
    pub fn check(request_id: &str, approve: Option<bool>, reason: &str, limits: &Limits) -> Result<Self, Refusal> {
        let request_id = RequestId::parse(request_id, "request_id")?;
        let approve = approve.ok_or_else(|| {
            Refusal::new(Reason::ApproveMissing, "approve is missing. Say true to approve or false to reject.")
                .field("approve")
        })?;
        check_size(reason, "content", limits)?;
        Ok(Self { request_id, approve, reason: reason.to_owned() })
    }
}

/// The outcome of an answer.
#[derive(Clone, Debug)]
pub enum Decided {
    /// It decides the request; this message carries it to the requester or the author.
    Now(Box<v1::Message>),
    /// The same answer was given before.
    Before {
        /// The message that carried that answer.
        message_id: String,
        /// Its recipient. `None` means the operator.
        recipient: Option<Name>,
        /// When it was decided.
        at_ms: u64,
    },
}

/// Makes a request that concerns this member and is not stored yet.
fn new_request(kind: RequestKind, requester: &Actor, member: &MemberRecord, pending: &Pending) -> v1::Request {
    v1::Request {
        id: pending.id.to_string(),
        kind: kind.into(),
        state: RequestState::Pending.into(),
        requester: Some(requester.into()),
        member: member.name.to_string(),
        incarnation: member.incarnation,
        expires_at: (pending.expires_ms < u64::MAX).then(|| timestamp(pending.expires_ms)),
        ..v1::Request::default()
    }
}

/// Stores a new request, and posts the message that makes it.
fn open(tx: &mut Tx<'_>, request: v1::Request, message: v1::Message, to: &Name) -> v1::Message {
    let message = v1::Message { request_id: request.id.clone(), request_expires_at: request.expires_at, ..message };
    let urgency = match request.kind() {
        RequestKind::Shutdown => Urgency::Shutdown,
        RequestKind::Permission | RequestKind::PlanApproval | RequestKind::Review => Urgency::Answer,
        _ => Urgency::Ordinary,
    };
    let message = post::post(tx, message, &[to], urgency);
    let part = |part: fn(&Body) -> &str| message.body.as_ref().map_or("", part).to_owned();
    let request = v1::Request {
        content: part(Body::text),
        tool: part(Body::tool),
        summary: part(Body::summary),
        tool_use: match &message.body {
            Some(Body::PermissionRequest(asked)) => asked.tool_use.clone(),
            _ => None,
        },
        message_id: message.id.clone(),
        created_at: Some(timestamp(tx.ctx.now_ms)),
        ..request
    };
    tx.put(&request.id, &request);
    tx.append(REQUESTS, request.id.into(), 0, None);
    message
}

/// Returns the earlier decision if it was the same. Refuses the answer if the request can no longer be decided this
/// way.
fn settled(tx: &Tx<'_>, team: &TeamRecord, request: &v1::Request, answer: &Answer) -> Result<Option<Decided>, Refusal> {
    let approved = match request.state() {
        RequestState::Approved => true,
        RequestState::Rejected => false,
        RequestState::Cancelled => {
            return Err(Refusal::new(
                Reason::RequestCancelled,
                format!(
                    "The request was cancelled: {}. Nothing is left to answer.",
                    cause_text(request.cancel_cause())
                ),
            )
            .field("request_id"));
        }
        RequestState::Pending if !is_overdue(tx, request) => return Ok(None),
        RequestState::Pending | RequestState::Expired | RequestState::Unspecified => {
            return Err(Refusal::new(
                Reason::RequestExpired,
                "The request expired without an answer. If it still matters, it must be made again.",
            )
            .field("request_id"));
        }
    };
    if approved == answer.approve {
        return Ok(Some(Decided::Before {
            message_id: request.answer_message_id.clone(),
            recipient: requester(team, request),
            at_ms: request.decided_at.as_ref().map_or(0, milliseconds),
        }));
    }
    let was = if approved { "approved" } else { "rejected" };
    Err(Refusal::new(Reason::AlreadyDecided, format!("The request was {was} before; a decision is final."))
        .field("request_id")
        .with("state", was))
}

fn is_overdue(tx: &Tx<'_>, request: &v1::Request) -> bool {
    request.expires_at.as_ref().is_some_and(|at| milliseconds(at) <= tx.ctx.now_ms)
}

fn decide(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    request: &v1::Request,
    caller: &Actor,
    answer: &Answer,
    compose: impl FnOnce(&mut Tx<'_>) -> v1::Message,
) -> v1::Message {
    let state = if answer.approve { RequestState::Approved } else { RequestState::Rejected };
    let message = v1::Message { request_id: request.id.clone(), ..compose(tx) };
    let to = requester(team, request);
    let to: Vec<&Name> = to.iter().collect();
    let urgency = if request.kind() == RequestKind::Shutdown { Urgency::Shutdown } else { Urgency::Answer };
    let message = post::post(tx, message, &to, urgency);
    let decided = v1::Request {
        decided_by: Some(caller.into()),
        reason: answer.reason.clone(),
        answer_message_id: message.id.clone(),
        ..leave_pending(tx, request, state)
    };
    conclude(tx, &decided);
    message
}

pub(super) fn leave_pending(tx: &Tx<'_>, request: &v1::Request, state: RequestState) -> v1::Request {
    v1::Request { state: state.into(), decided_at: Some(timestamp(tx.ctx.now_ms)), ..request.clone() }
}

pub(super) fn conclude(tx: &mut Tx<'_>, request: &v1::Request) {
    tx.put(&request.id, request);
    history::append(tx, Event::Decision(v1::Request { id: request.id.clone(), ..v1::Request::default() }));
    tx.notify(Topic::Requests);
}

/// Returns the member that made the request. `None` if the operator made it, who has no inbox.
pub(super) fn requester(team: &TeamRecord, request: &v1::Request) -> Option<Name> {
    let sender = request.requester.as_ref().filter(|sender| sender.kind() == v1::SenderKind::Member)?;
    let name = Name::parse(&sender.name, "requester").ok()?;
    team.member(&name).map(|member| member.name.clone())
}

/// Returns the pending requests of a member that pass a filter.
fn find_pending(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    member: &Name,
    is_wanted: impl Fn(&Pending) -> bool,
) -> Result<Vec<Arc<v1::Request>>, RuleError> {
    let pending = team.member(member).into_iter().flat_map(MemberRecord::pending);
    let ids: Vec<String> = pending.filter(|pending| is_wanted(pending)).map(|pending| pending.id.to_string()).collect();
    tx.want::<v1::Request>(ids.iter().cloned())?;
    ids.iter().map(|id| find(tx, id)).collect()
}

fn tell_requester(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    request: &v1::Request,
    kind: NoticeKind,
    text: String,
) -> Result<(), RuleError> {
    let Some(requester) = requester(team, request) else { return Ok(()) };
    tell(tx, team, request, &requester, kind, text)
}

fn tell(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    request: &v1::Request,
    to: &Name,
    kind: NoticeKind,
    text: String,
) -> Result<(), RuleError> {
    let notice = v1::Notice {
        kind: kind.into(),
        member: request.member.clone(),
        request_id: request.id.clone(),
        text,
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&Actor::Member(to.clone())], notice)
}

/// Returns the member that is asked for a permission or a review: the one that the request names, or the lead.
fn approver(team: &TeamRecord, request: &v1::Request) -> Result<Name, RuleError> {
    if request.approver.is_empty() { Ok(team.lead.clone()) } else { Ok(Name::parse(&request.approver, "approver")?) }
}

/// Refuses a caller that may not answer a permission request or a review: only the member that was asked, the lead and the
/// operator may, and never the member that the request concerns.
fn check_may_answer(team: &TeamRecord, caller: &Actor, request: &v1::Request) -> Result<(), RuleError> {
    let approver = approver(team, request)?;
    let is_asker = is_by(request, caller);
    let may_answer = match caller {
        Actor::Operator => true,
        Actor::Member(name) => !is_asker && (*name == approver || team.is_lead(name)),
        Actor::Coordinator => false,
    };
    if may_answer {
        return Ok(());
    }
    let text = match is_asker {
        true => "You made this request, so another member must answer it.".to_owned(),
        false => format!("This request was sent to {approver}; only {approver} and the lead can answer it."),
    };
    Err(Refusal::new(Reason::NotRequestTarget, text).field("request_id").into())
}

/// Returns whether this member made the request, which concerns itself.
fn is_by(request: &v1::Request, caller: &Actor) -> bool {
    matches!(caller, Actor::Member(name) if request.member.eq_ignore_ascii_case(name.folded()))
}

/// Takes the message that asked for a plan's approval, a permission or a review out of the inbox of the member that was to answer
/// it, because the request is over.
pub(super) fn take_back(tx: &mut Tx<'_>, team: &TeamRecord, request: &v1::Request) -> Result<(), RuleError> {
    if !matches!(request.kind(), RequestKind::PlanApproval | RequestKind::Permission | RequestKind::Review) {
        return Ok(());
    }
    let Some(message_id) = MessageId::known(&request.message_id) else { return Ok(()) };
    inbox::withdraw(tx, &approver(team, request)?, message_id, DeadLetterCause::RequestOver)
}

/// Removes a request from those that the roster lists as pending. Returns the member that it concerns.
pub(super) fn remove_pending(team: &mut TeamRecord, request: &v1::Request) -> Result<Name, RuleError> {
    let name = Name::parse(&request.member, "member")?;
    member_mut(team, &name)?.remove_pending(&request.id);
    Ok(name)
}

fn member_mut<'t>(team: &'t mut TeamRecord, name: &Name) -> Result<&'t mut MemberRecord, RuleError> {
    team.member_mut(name).ok_or_else(|| RuleError::Corrupt(format!("{name} has a request but is not in the roster")))
}

/// Returns a request of this team.
pub fn find(tx: &mut Tx<'_>, request_id: &str) -> Result<Arc<v1::Request>, RuleError> {
    tx.read::<v1::Request>(request_id)?.ok_or_else(|| request_not_found().into())
}

/// Returns a request of this team that the caller may see. A request that it may not see does not exist for it.
fn find_visible(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Actor,
    request_id: &str,
) -> Result<Arc<v1::Request>, RuleError> {
    let request = find(tx, request_id)?;
    let caller = match caller {
        Actor::Member(name) => Principal::Member { name: name.clone(), lead: team.is_lead(name) },
        Actor::Operator | Actor::Coordinator => Principal::Operator,
    };
    if may_see_request(&caller, &request) { Ok(request) } else { Err(request_not_found().into()) }
}

fn expect_kind(request: &v1::Request, kind: RequestKind) -> Result<(), Refusal> {
    if request.kind() == kind {
        return Ok(());
    }
    let asked = request.kind().message();
    let text = match asked.and_then(|asked| Some((asked.noun(), asked.answered_by()?.name()))) {
        Some((noun, answer)) => format!("This request is a {noun}: answer it with {answer}."),
        None => "This request is an order to start a member: only its host answers it, with TakeOrder or RefuseOrder."
            .to_owned(),
    };
    Err(Refusal::new(Reason::RequestKindMismatch, text).field("request_id"))
}

fn cause_text(cause: CancelCause) -> &'static str {
    match cause {
        CancelCause::TargetReplaced => {
            "a new process has taken the member's name, and the request was for the earlier one"
        }
        CancelCause::TargetExited => "the member has exited",
        CancelCause::Forced => "the member was stopped by force",
        CancelCause::NewerPlan => "its author has submitted a newer plan",
        CancelCause::Withdrawn => "the member that asked has withdrawn it",
        CancelCause::NewerCommit => "the owner of the task has a newer commit",
        CancelCause::TaskChanged => "the task is no longer in review",
        CancelCause::Unspecified => "no cause was recorded",
    }
}
