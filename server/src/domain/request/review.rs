//! The request to review a task: how it begins, and who may answer. `task::review` says what follows for the task.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    id::RequestId,
    name::Name,
    v1::{self, CancelCause, RequestKind, RequestState, message::Body},
};

use super::{
    Answer, Decided, cancel::cancel, check_may_answer, decide, expect_kind, find, find_visible, member_mut,
    new_request, remove_pending, settled,
};
use crate::domain::{
    actor::Actor,
    post,
    records::{Pending, TeamRecord},
    tx::{RuleError, Tx},
};

/// Asks for the review of a task. `reviewer`: `None` means the lead, whichever member that is. The caller puts the team.
pub fn open(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    owner: &Name,
    reviewer: Option<&Name>,
    asked: v1::ReviewRequest,
) -> Result<RequestId, RuleError> {
    let to = reviewer.unwrap_or(&team.lead).clone();
    let id = tx.new_request_id();
    // It waits for as long as the task is in review.
    let pending = Pending { approver: reviewer.cloned(), ..Pending::new(id.clone(), tx.ctx.now_ms, u64::MAX) };
    let member = member_mut(team, owner)?;
    let request = v1::Request {
        approver: reviewer.map(ToString::to_string).unwrap_or_default(),
        task_id: asked.task_id,
        work: asked.work.clone(),
        merge_on_approval: asked.merge_on_approval,
        ..new_request(RequestKind::Review, &Actor::Member(owner.clone()), member, &pending)
    };
    member.pending_reviews.push(pending);
    let body = Body::ReviewRequest(v1::ReviewRequest { recipient: to.to_string(), ..asked });
    let message = post::compose(tx, team, &Actor::Member(owner.clone()), body);
    super::open(tx, request, message, &to);
    Ok(id)
}

/// Returns the message that asks this member again.
pub(super) fn body_of(request: &v1::Request, to: &Name) -> v1::ReviewRequest {
    v1::ReviewRequest {
        recipient: to.to_string(),
        task_id: request.task_id,
        summary: request.summary.clone(),
        result: request.content.clone(),
        work: request.work.clone(),
        merge_on_approval: request.merge_on_approval,
    }
}

/// Answers a review. `commit`: what the reviewer has seen, or empty. Returns the request as well.
pub fn answer(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    caller: &Actor,
    answer: &Answer,
    commit: &str,
    compose: impl FnOnce(&mut Tx<'_>, &v1::Request) -> v1::Message,
) -> Result<(Arc<v1::Request>, Decided), RuleError> {
    let request = find_visible(tx, team, caller, answer.request_id.as_str())?;
    expect_kind(&request, RequestKind::Review)?;
    check_may_answer(team, caller, &request)?;
    if let Some(before) = settled(tx, team, &request, answer)? {
        return Ok((request, before));
    }
    let asked = commit_of(request.work.as_ref());
    if !commit.is_empty() && commit != asked {
        let text = format!("The review is of commit {asked}, not {commit}. Look at that commit, then answer again.");
        return Err(Refusal::new(Reason::ReviewVoid, text).field("commit").with("commit", asked).into());
    }
    remove_pending(team, &request)?;
    let message = decide(tx, team, &request, caller, answer, |tx| compose(tx, &request));
    Ok((request, Decided::Now(message.into())))
}

/// Cancels a review that still waits. The caller puts the team.
pub fn void(tx: &mut Tx<'_>, team: &mut TeamRecord, id: &RequestId, cause: CancelCause) -> Result<(), RuleError> {
    let request = find(tx, id.as_str())?;
    if request.state() != RequestState::Pending {
        return Ok(());
    }
    cancel(tx, team, &request, cause)
}

/// Returns the commit of the work that is reviewed. Empty if the task has none.
pub fn commit_of(work: Option<&v1::Work>) -> &str {
    work.map_or("", |work| work.head.as_str())
}
