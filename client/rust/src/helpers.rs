//! The helpers that make one call. Written by `cargo xtask generate` from `client/helpers.toml`.

use teamwire_proto::v1;

use crate::{Client, Error, lead::incomplete};

impl Client {
    /// Sends a text to every other member: to all of them, or after an error to none.
    pub async fn broadcast(&self, summary: &str, content: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::Broadcast(v1::Broadcast { summary: summary.to_owned(), content: content.to_owned(), ..Default::default() });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Approves the caller's shutdown. Returns once the approval is recorded; the subscription then ends.
    pub async fn approve_shutdown(&self, request_id: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::ShutdownResponse(v1::ShutdownResponse { request_id: request_id.to_owned(), approve: Some(true), ..Default::default() });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Rejects the caller's shutdown.
    pub async fn reject_shutdown(&self, request_id: &str, reason: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::ShutdownResponse(v1::ShutdownResponse { request_id: request_id.to_owned(), reason: reason.to_owned(), approve: Some(false) });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Asks the lead to approve a plan. Returns the id of the request, for [`Client::wait_decision`].
    pub async fn submit_plan(&self, plan: &str, summary: &str) -> Result<String, Error> {
        let body = v1::send_request::Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: plan.to_owned(), summary: summary.to_owned(), ..Default::default() });
        Ok(self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await?.request_id)
    }

    /// Approves or rejects a member's plan.
    pub async fn answer_plan(&self, author: &str, request_id: &str, approve: bool, feedback: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::PlanApprovalResponse(v1::PlanApprovalResponse { recipient: author.to_owned(), request_id: request_id.to_owned(), approve: Some(approve), feedback: feedback.to_owned() });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Asks for permission to use a tool. An empty `approver` means the lead. Returns the id of the request, for
    /// [`Client::wait_decision`].
    pub async fn request_permission(&self, approver: &str, tool: &str, summary: &str, detail: &str) -> Result<String, Error> {
        let body = v1::send_request::Body::PermissionRequest(v1::PermissionRequest { recipient: approver.to_owned(), tool: tool.to_owned(), summary: summary.to_owned(), detail: detail.to_owned(), ..Default::default() });
        Ok(self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await?.request_id)
    }

    /// Approves or rejects another member's permission request.
    pub async fn answer_permission(&self, request_id: &str, approve: bool, reason: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::PermissionResponse(v1::PermissionResponse { request_id: request_id.to_owned(), approve: Some(approve), reason: reason.to_owned(), ..Default::default() });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Approves or rejects the work of another member on a task. With `commit`, only if the review is of that
    /// commit.
    pub async fn answer_review(&self, request_id: &str, approve: bool, reason: &str, commit: &str) -> Result<v1::SendResponse, Error> {
        let body = v1::send_request::Body::ReviewResponse(v1::ReviewResponse { request_id: request_id.to_owned(), approve: Some(approve), reason: reason.to_owned(), commit: commit.to_owned(), ..Default::default() });
        self.send(v1::SendRequest { body: Some(body), ..Default::default() }).await
    }

    /// Withdraws a permission request of the caller's. Returns the request, unchanged if it was decided before.
    pub async fn withdraw_request(&self, request_id: &str) -> Result<v1::Request, Error> {
        let request = v1::WithdrawRequest { request_id: request_id.to_owned(), ..Default::default() };
        self.withdraw(request).await?.request.ok_or_else(|| incomplete("request"))
    }

    /// Creates a join token for a host of this name, or, if it is empty, of any free one.
    pub async fn invite_host(&self, name: &str) -> Result<v1::InviteResponse, Error> {
        let request = v1::InviteRequest { member: name.to_owned(), host: true, ..Default::default() };
        self.invite(request).await
    }

    /// Makes another member the lead. Returns the team after the change. Not retried while its outcome is unknown.
    pub async fn hand_over(&self, member: &str) -> Result<v1::Team, Error> {
        let request = v1::SetLeadRequest { member: member.to_owned(), ..Default::default() };
        self.set_lead(request).await?.team.ok_or_else(|| incomplete("team"))
    }
}
