//! Replies, and requests for shutdowns, plan approvals and permissions with their answers, each in one call.

use std::time::Duration;

use teamwire_proto::{Method, Reason, Refusal, Wait, v1};
use tokio::time::{Instant, sleep};

use crate::{
    Client, Error,
    client::{Call, requests, time_left},
    lead::incomplete,
    message,
};

/// How long one call waits for a decision.
const WAIT: Wait = Method::WaitForDecision.wait().expect("a call that waits");

impl Client {
    /// Sends a text to the sender of a message.
    pub async fn reply(&self, to: &v1::Message, summary: &str, content: &str) -> Result<v1::SendResponse, Error> {
        let sender = to.sender.clone().unwrap_or_default().name;
        let request = message::direct(sender, summary, content);
        self.send(v1::SendRequest { in_reply_to: to.id.clone(), ..request }).await
    }

    /// Answers a request of any kind, after looking it up. `text`: the reason or the feedback.
    pub async fn answer(&self, request_id: &str, approve: bool, text: &str) -> Result<v1::SendResponse, Error> {
        let request = v1::GetRequestRequest { team: String::new(), request_id: request_id.to_owned() };
        let request = self.get_request(request).await?.request.unwrap_or_default();
        match request.kind() {
            v1::RequestKind::PlanApproval => self.answer_plan(&request.member, request_id, approve, text).await,
            // Only a host answers an order, and it uses other calls.
            v1::RequestKind::Spawn => Err(Error::Refused(
                Refusal::new(
                    Reason::RequestKindMismatch,
                    format!(
                        "This request is an order to start {0}, which its host answers. To cancel it, stop {0} by force: `teamwire \
                         shutdown {0} --force`.",
                        request.member
                    ),
                )
                .field("request_id"),
            )),
            v1::RequestKind::Review => self.answer_review(request_id, approve, text, "").await,
            v1::RequestKind::Permission => self.answer_permission(request_id, approve, text).await,
            _ => self.send(message::shutdown_response(request_id, approve, text)).await,
        }
    }

    /// Asks a member to shut down. Returns the request's id, or that of the request that is already pending.
    pub async fn request_shutdown(&self, member: &str, reason: &str) -> Result<String, Error> {
        match self.send(message::shutdown_request(member, reason)).await {
            Err(Error::Refused(refusal)) if refusal.reason == Reason::ShutdownPending => {
                refusal.metadata.get("request_id").cloned().ok_or(Error::Refused(refusal))
            }
            other => Ok(other?.request_id),
        }
    }

    /// Waits until a request is decided, for up to `patience`. Returns the request, which is still pending if the time
    /// runs out.
    pub async fn wait_decision(&self, request_id: &str, patience: Duration) -> Result<v1::Request, Error> {
        let until = Instant::now().checked_add(patience);
        let mut delays = self.retry().delays();
        loop {
            let wait = time_left(until).min(WAIT.max);
            let called = Instant::now();
            let mut request = v1::WaitForDecisionRequest {
                request_id: request_id.to_owned(),
                ..v1::WaitForDecisionRequest::default()
            };
            self.fill(&mut request.team);
            // A coordinator that does not answer must not make the wait longer.
            let call = Call::of(Method::WaitForDecision).waiting(wait).until(until);
            let asked = self.call(call, request, |channel, mut request| {
                let wait = time_left(until).min(WAIT.max);
                request.get_mut().timeout = prost_types::Duration::try_from(wait).ok();
                async move { requests(channel).wait_for_decision(request).await }
            });
            let request = asked.await?.request.ok_or_else(|| incomplete("request"))?;
            if request.state() != v1::RequestState::Pending || time_left(until).is_zero() {
                return Ok(request);
            }
            // A coordinator that drains may answer early.
            if called.elapsed() < wait {
                sleep(delays.next()).await;
            }
        }
    }
}
