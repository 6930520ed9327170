//! A new lead receives the requests that await the lead's answer.

use teamwire_proto::{
    name::Name,
    v1::{self, RequestKind, message::Body},
};

use super::find;
use crate::domain::{
    actor::Actor,
    post::{self, Urgency},
    records::TeamRecord,
    tx::{RuleError, Tx},
};

/// How many pending requests are considered, so that the transaction's size is bounded: plans first.
const CONSIDERED_MAX: usize = 256;

/// Puts the pending requests that the lead must answer into the inbox of a new lead. Returns how many there are.
pub fn hand_on(tx: &mut Tx<'_>, team: &TeamRecord, lead: &Name) -> Result<usize, RuleError> {
    let others = || team.members.iter().filter(|member| member.name != *lead);
    let plans = others().flat_map(|member| &member.pending_plan);
    let permissions = others().flat_map(|member| &member.pending_permissions);
    let ids: Vec<String> = plans.chain(permissions).take(CONSIDERED_MAX).map(|pending| pending.id.clone()).collect();
    tx.want::<v1::Request>(ids.iter().cloned())?;
    let mut count = 0;
    for id in ids {
        let request = find(tx, &id)?;
        let Some(body) = body_for(&request, lead) else { continue };
        let sender = Actor::Member(Name::parse(&request.member, "member")?);
        let message = v1::Message {
            request_id: id,
            request_expires_at: request.expires_at,
            ..post::compose(tx, team, &sender, body)
        };
        post::post(tx, message, &[lead], Urgency::Notice);
        count += 1;
    }
    Ok(count)
}

/// Returns the body of the message that makes this request again, to this lead. None: the lead need not answer it.
fn body_for(request: &v1::Request, lead: &Name) -> Option<Body> {
    let (summary, text) = (request.summary.clone(), request.content.clone());
    match request.kind() {
        RequestKind::PlanApproval => {
            Some(Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: text, summary, ttl: None }))
        }
        RequestKind::Permission if request.approver.is_empty() => {
            let (recipient, tool) = (lead.to_string(), request.tool.clone());
            Some(Body::PermissionRequest(v1::PermissionRequest { recipient, tool, summary, detail: text, ttl: None }))
        }
        _ => None,
    }
}
