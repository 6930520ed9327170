//! The request for permission to do something: who may ask, answer and withdraw.

use teamwire_proto::{
    Reason, Refusal,
    id::RequestId,
    name::Name,
    v1::{self, CancelCause, RequestKind, RequestState},
};

use super::{
    Answer, Decided, cancel::cancel, check_may_answer, decide, expect_kind, expiry::expire_overdue, find, find_visible,
    is_by, member_mut, new_request, remove_pending, settled,
};
use crate::domain::{
    actor::Actor,
    identity::{self, Admit, CallerCredentials},
    records::{Pending, TeamRecord},
    spending,
    tx::{RuleError, Tx},
};

/// Asks for permission. `approver`: the member that the caller named. `None` means the lead, whichever member that is.
pub fn open(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    asker: &Name,
    approver: Option<&Name>,
    message: v1::Message,
    deadline_ms: u64,
) -> Result<v1::Message, RuleError> {
    let mut team = team.clone();
    expire_overdue(tx, &mut team, asker)?;
    let pending =
        Pending { approver: approver.cloned(), ..Pending::new(tx.new_request_id(), tx.ctx.now_ms, deadline_ms) };
    let member = member_mut(&mut team, asker)?;
    let max = tx.ctx.limits.pending_permissions_max;
    if member.pending_permissions.len() >= max {
        return Err(Refusal::new(
            Reason::QuotaExceeded,
            format!(
                "{asker} has {} permission requests pending, and the limit is {max}. Wait for an answer, or withdraw one.",
                member.pending_permissions.len()
            ),
        )
        .into());
    }
    let request = v1::Request {
        approver: approver.map(ToString::to_string).unwrap_or_default(),
        ..new_request(RequestKind::Permission, &Actor::Member(asker.clone()), member, &pending)
    };
    member.pending_permissions.push(pending);
    let message = super::open(tx, request, message, approver.unwrap_or(&team.lead));
    tx.put("", &team);
    Ok(message)
}

/// Answers a permission request.
pub fn answer(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Actor,
    answer: &Answer,
    add_budget: Option<v1::Budget>,
    compose: impl FnOnce(&mut Tx<'_>) -> v1::Message,
) -> Result<Decided, RuleError> {
    let request = find_visible(tx, team, caller, answer.request_id.as_str())?;
    expect_kind(&request, RequestKind::Permission)?;
    check_may_answer(team, caller, &request)?;
    if let Some(before) = settled(tx, team, &request, answer)? {
        return Ok(before);
    }
    if answer.approve && request.tool == spending::TOOL && is_lead_or_operator(team, caller) {
        spending::raise(tx, &Name::parse(&request.member, "member")?, add_budget)?;
    }
    let mut team = team.clone();
    remove_pending(&mut team, &request)?;
    let message = decide(tx, &team, &request, caller, answer, compose);
    tx.put("", &team);
    Ok(Decided::Now(message.into()))
}

fn is_lead_or_operator(team: &TeamRecord, caller: &Actor) -> bool {
    match caller {
        Actor::Operator => true,
        Actor::Member(name) => team.is_lead(name),
        Actor::Coordinator => false,
    }
}

/// Withdraws a permission request that the caller made. Returns the request as it is afterwards.
pub fn withdraw(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::WithdrawRequest,
) -> Result<v1::Request, RuleError> {
    RequestId::parse(&request.request_id, "request_id")?;
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Stopping)?;
    tx.needs_no_room();
    let caller = caller.actor()?;
    let found = find_visible(tx, &team, &caller, &request.request_id)?;
    if found.kind() != RequestKind::Permission {
        return Err(Refusal::new(
            Reason::RequestKindMismatch,
            "Only a permission request can be withdrawn. A newer plan cancels an older one.",
        )
        .field("request_id")
        .into());
    }
    if !is_by(&found, &caller) {
        return Err(Refusal::new(
            Reason::NotRequestTarget,
            format!("{} made this request, and only it can withdraw it. To refuse it, answer it.", found.member),
        )
        .field("request_id")
        .into());
    }
    let Actor::Member(name) = &caller else { return Ok(v1::Request::clone(&found)) };
    let mut team = TeamRecord::clone(&team);
    let mut changed = expire_overdue(tx, &mut team, name)? > 0;
    if find(tx, &found.id)?.state() == RequestState::Pending {
        cancel(tx, &mut team, &found, CancelCause::Withdrawn)?;
        changed = true;
    }
    if changed {
        tx.put("", &team);
    }
    Ok(v1::Request::clone(&*find(tx, &found.id)?))
}
