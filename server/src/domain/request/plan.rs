//! The request that the lead approve a plan: who may answer, and what an approval changes.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, CancelCause, RequestKind},
};

use super::{Answer, Decided, cancel::cancel, decide, expect_kind, find, member_mut, new_request, settled};
use crate::domain::{
    actor::Actor,
    records::{Pending, TeamRecord},
    tx::{RuleError, Tx},
};

/// Asks the lead to approve a plan.
pub fn open(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    author: &Name,
    message: v1::Message,
    deadline_ms: u64,
) -> Result<v1::Message, RuleError> {
    let mut team = team.clone();
    let now_ms = tx.ctx.now_ms;
    if let Some(older) = member_mut(&mut team, author)?.pending_plan.clone() {
        let older = find(tx, older.id.as_str())?;
        cancel(tx, &mut team, &older, CancelCause::NewerPlan)?;
    }
    let member = member_mut(&mut team, author)?;
    let pending = Pending::new(tx.new_request_id(), now_ms, deadline_ms);
    let request = new_request(RequestKind::PlanApproval, &Actor::Member(author.clone()), member, &pending);
    member.pending_plan = Some(pending);
    let message = super::open(tx, request, message, &team.lead);
    tx.put("", &team);
    Ok(message)
}

/// Answers a plan. An approval also lets its author work.
pub fn answer(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Actor,
    to: &Name,
    answer: &Answer,
    compose: impl FnOnce(&mut Tx<'_>) -> v1::Message,
) -> Result<Decided, RuleError> {
    let request = find(tx, answer.request_id.as_str())?;
    expect_kind(&request, RequestKind::PlanApproval)?;
    let author = Name::parse(&request.member, "member")?;
    if *to != author {
        return Err(Refusal::new(
            Reason::RecipientMismatch,
            format!("This plan is {author}'s, not {to}'s. Name {author} as the recipient."),
        )
        .field("recipient")
        .into());
    }
    if let Some(before) = settled(tx, team, &request, answer)? {
        return Ok(before);
    }
    let mut team = team.clone();
    let member = member_mut(&mut team, &author)?;
    member.pending_plan = None;
    member.plan_approved |= answer.approve;
    let message = decide(tx, &team, &request, caller, answer, compose);
    tx.put("", &team);
    Ok(Decided::Now(message.into()))
}
