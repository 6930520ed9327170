//! Hands pending requests to someone else to answer: to a new lead, or to the lead because the approver has exited.

use std::sync::Arc;

use teamwire_proto::{
    name::Name,
    v1::{self, RequestKind, message::Body},
};

use super::{find, review};
use crate::domain::{
    actor::Actor,
    post::{self, Urgency},
    records::{Pending, TeamRecord},
    tx::{RuleError, Tx},
};

/// How many requests are handed on at most, so that the transaction's size is bounded: plans first. The lead can answer
/// the others, too.
const HANDED_ON_MAX: usize = 256;

/// Puts the pending requests that the lead must answer into the inbox of a new lead. Returns how many there are.
pub fn hand_on(tx: &mut Tx<'_>, team: &TeamRecord, lead: &Name) -> Result<usize, RuleError> {
    let others = || team.members.iter().filter(|member| member.name != *lead);
    let plans = others().flat_map(|member| &member.pending_plan);
    let permissions = others().flat_map(|member| member.pending_permissions.iter().chain(&member.pending_reviews));
    let unnamed = permissions.filter(|pending| pending.approver.is_none());
    let ids = plans.chain(unnamed).take(HANDED_ON_MAX).map(|pending| pending.id.to_string()).collect();
    let requests = find_all(tx, ids)?;
    for request in &requests {
        ask_again(tx, team, request, lead)?;
    }
    Ok(requests.len())
}

/// Hands the permission requests and reviews that a member has not answered to the lead, because the member's life has ended. A
/// request of the lead stays as it is: only the operator is left to answer it. So does an overdue one. Returns how many
/// there are. The caller puts the team.
pub fn hand_to_lead(tx: &mut Tx<'_>, team: &mut TeamRecord, approver: &Name) -> Result<usize, RuleError> {
    let (lead, now_ms) = (team.lead.clone(), tx.ctx.now_ms);
    let others = team.members.iter_mut().filter(|member| member.name != lead);
    let its = others
        .flat_map(|member| member.pending_permissions.iter_mut().chain(&mut member.pending_reviews))
        .filter(|pending| pending.approver.as_ref() == Some(approver) && pending.expires_ms > now_ms);
    let take = |pending: &mut Pending| {
        pending.approver = None;
        pending.id.to_string()
    };
    let ids = its.take(HANDED_ON_MAX).map(take).collect();
    let requests = find_all(tx, ids)?;
    for request in &requests {
        let request = v1::Request { approver: String::new(), ..v1::Request::clone(request) };
        match lead == *approver {
            true => tx.put(&request.id, &request),
            false => ask_again(tx, team, &request, &lead)?,
        }
    }
    Ok(requests.len())
}

fn find_all(tx: &mut Tx<'_>, ids: Vec<String>) -> Result<Vec<Arc<v1::Request>>, RuleError> {
    tx.want::<v1::Request>(ids.iter().cloned())?;
    ids.iter().map(|id| find(tx, id)).collect()
}

/// Posts the message that makes a request again, to this lead, and puts the request. The first message stays where it is.
fn ask_again(tx: &mut Tx<'_>, team: &TeamRecord, request: &v1::Request, lead: &Name) -> Result<(), RuleError> {
    let (summary, text) = (request.summary.clone(), request.content.clone());
    let body = match request.kind() {
        RequestKind::Permission => {
            let (recipient, tool, tool_use) = (lead.to_string(), request.tool.clone(), request.tool_use.clone());
            Body::PermissionRequest(v1::PermissionRequest {
                recipient,
                tool,
                summary,
                detail: text,
                tool_use,
                ..Default::default()
            })
        }
        RequestKind::Review => Body::ReviewRequest(review::body_of(request, lead)),
        _ => Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: text, summary, ttl: None }),
    };
    let sender = Actor::Member(Name::parse(&request.member, "member")?);
    let message = v1::Message {
        request_id: request.id.clone(),
        request_expires_at: request.expires_at,
        ..post::compose(tx, team, &sender, body)
    };
    let message = post::post(tx, message, &[lead], Urgency::Notice);
    tx.put(&request.id, &v1::Request { message_id: message.id, ..request.clone() });
    Ok(())
}
