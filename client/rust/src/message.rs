//! Builders for messages.
//!
//! ```
//! use teamwire_client::message;
//!
//! let request = message::direct("lead", "Tests pass", "All 212 of them.");
//! assert!(request.body.is_some());
//! ```

use teamwire_proto::{
    v1::{self, send_request::Body},
    word::shorten,
};

/// How many characters of a text become its summary.
const SUMMARY_CHARS: usize = 80;

/// Builds a text for one member. `recipient`: its name, or `team-lead`; or `@TAG` for all members that have a tag, or
/// `@any:TAG` for one of them.
pub fn direct(recipient: impl Into<String>, summary: impl Into<String>, content: impl Into<String>) -> v1::SendRequest {
    let (recipient, summary, content) = (recipient.into(), summary.into(), content.into());
    with(Body::Message(v1::DirectMessage { recipient, summary, content }))
}

/// Builds a text for one member that ends the turn of its program. Only the lead and the operator may send it.
pub fn interrupt(recipient: impl Into<String>, content: impl Into<String>) -> v1::SendRequest {
    let content = content.into();
    let summary = shorten(&content, SUMMARY_CHARS);
    v1::SendRequest { interrupt: true, ..direct(recipient, summary, content) }
}

/// Builds a text for every other member.
pub fn broadcast(summary: impl Into<String>, content: impl Into<String>) -> v1::SendRequest {
    with(Body::Broadcast(v1::Broadcast { summary: summary.into(), content: content.into(), tag: String::new() }))
}

/// Builds a request that asks a member to shut down, with the coordinator's default deadline.
pub fn shutdown_request(recipient: impl Into<String>, reason: impl Into<String>) -> v1::SendRequest {
    let (recipient, reason) = (recipient.into(), reason.into());
    with(Body::ShutdownRequest(v1::ShutdownRequest { recipient, reason, ttl: None }))
}

/// Builds the answer to a shutdown request.
pub fn shutdown_response(request_id: impl Into<String>, approve: bool, reason: impl Into<String>) -> v1::SendRequest {
    let (request_id, reason) = (request_id.into(), reason.into());
    with(Body::ShutdownResponse(v1::ShutdownResponse { request_id, approve: Some(approve), reason }))
}

/// Builds a request that asks the lead to approve a plan, with the coordinator's default deadline.
pub fn plan_approval_request(plan: impl Into<String>, summary: impl Into<String>) -> v1::SendRequest {
    let (plan, summary) = (plan.into(), summary.into());
    with(Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan, summary, ttl: None }))
}

/// Builds the answer to a plan. `recipient`: its author.
pub fn plan_approval_response(
    recipient: impl Into<String>,
    request_id: impl Into<String>,
    approve: bool,
    feedback: impl Into<String>,
) -> v1::SendRequest {
    let (recipient, request_id, feedback) = (recipient.into(), request_id.into(), feedback.into());
    let approve = Some(approve);
    with(Body::PlanApprovalResponse(v1::PlanApprovalResponse { recipient, request_id, approve, feedback }))
}

/// Builds a request for permission, with the coordinator's default deadline. `approver`: the member that is asked;
/// empty: the lead.
pub fn permission_request(
    approver: impl Into<String>,
    tool: impl Into<String>,
    summary: impl Into<String>,
    detail: impl Into<String>,
) -> v1::SendRequest {
    let (recipient, tool, summary, detail) = (approver.into(), tool.into(), summary.into(), detail.into());
    with(Body::PermissionRequest(v1::PermissionRequest { recipient, tool, summary, detail, ..Default::default() }))
}

/// Builds the answer to a permission request.
pub fn permission_response(request_id: impl Into<String>, approve: bool, reason: impl Into<String>) -> v1::SendRequest {
    let (request_id, reason) = (request_id.into(), reason.into());
    with(Body::PermissionResponse(v1::PermissionResponse {
        request_id,
        approve: Some(approve),
        reason,
        add_budget: None,
    }))
}

fn with(body: Body) -> v1::SendRequest {
    v1::SendRequest { body: Some(body), ..Default::default() }
}
