//! Every call about one order: takes it, starts its member, refuses it, and reports the member's end.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use teamwire_client::{Client, Error, Reason, Retry};
use teamwire_proto::{failpoint, v1, word};
use tokio::time::timeout;

use super::{Backend, Ended, Found, HostEvent, OnHostEvent, Order, REASON_BYTES_MAX, StartError, Ticket};

/// How long the host tries to carry out an order without a deadline.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(60);

/// How long a call may take if its order may have expired.
const CALL_MIN: Duration = Duration::from_secs(5);

/// Carries out the orders of a host. Cheap to clone.
pub(super) struct Orders<B> {
    client: Client,
    backend: Arc<B>,
    on_event: OnHostEvent,
}

impl<B> Clone for Orders<B> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), backend: self.backend.clone(), on_event: self.on_event.clone() }
    }
}

impl<B: Backend> Orders<B> {
    pub(super) fn new(client: Client, backend: Arc<B>, on_event: OnHostEvent) -> Self {
        Self { client, backend, on_event }
    }

    /// Starts an order's member, or refuses the order. Returns once the order may be acknowledged.
    pub(super) async fn carry_out(&self, order: &Order) {
        failpoint::reach("order-delivered");
        let found = self.backend.recover(order).await;
        if found == Found::Started {
            return;
        }
        match self.start(order).await {
            Ok(()) => (self.on_event)(&HostEvent::Started {
                member: order.member.clone(),
                profile: order.terms.profile.clone(),
                request_id: order.request_id.clone(),
            }),
            // The member joined, and its runner ended together with the host that had started it.
            Err(NotStarted::Over(error)) if found == Found::Interrupted && has_joined(&error) => {
                let ended = Ended {
                    request_id: order.request_id.clone(),
                    member: order.member.clone(),
                    exit: v1::ExitReport::default(),
                    reason: "The host program was killed while it started the member.".to_owned(),
                    try_another_host: false,
                };
                self.report(ended).await;
            }
            Err(NotStarted::Over(error)) => {
                self.passed(order, &error.to_string());
                self.forget(&order.request_id, &order.member).await;
            }
            Err(NotStarted::Refused(error)) => {
                self.refuse(order, error).await;
                self.forget(&order.request_id, &order.member).await;
            }
        }
    }

    async fn start(&self, order: &Order) -> Result<(), NotStarted> {
        match timeout(left(order), self.backend.admit(order)).await {
            Ok(admitted) => admitted?,
            Err(_) => return Err(StartError::here_only("The order waited for too long on this host.").into()),
        }
        let started = match self.take(order).await {
            Ok(ticket) => self.backend.start(order, ticket).await.map_err(NotStarted::Refused),
            Err(error) => Err(NotStarted::Over(error)),
        };
        if started.is_err() {
            self.backend.release(order).await;
        }
        started
    }

    /// Takes an order.
    async fn take(&self, order: &Order) -> Result<Ticket, Error> {
        let client = self.client.clone().with_retry(Retry::within(left(order)));
        let request = v1::TakeOrderRequest { request_id: order.request_id.clone() };
        let taken = client.take_order(request).await?;
        failpoint::reach("order-taken");
        Ok(Ticket { join_token: taken.join_token, address: self.client.address().to_owned(), tls: self.client.tls() })
    }

    /// Refuses an order.
    async fn refuse(&self, order: &Order, error: StartError) {
        let client = self.client.clone().with_retry(Retry::within(left(order)));
        let reason = bounded(&error.reason);
        let request = v1::RefuseOrderRequest {
            request_id: order.request_id.clone(),
            reason: reason.clone(),
            try_another_host: error.try_another_host,
        };
        let (member, request_id) = (order.member.clone(), order.request_id.clone());
        match client.refuse_order(request).await {
            Ok(_) => (self.on_event)(&HostEvent::Refused { member, request_id, reason }),
            Err(error) => self.passed(order, &error.to_string()),
        }
    }

    /// Tells the coordinator what the host offers.
    pub(super) async fn offer(&self) -> Result<v1::HostOffer, Error> {
        let offer = self.backend.offer();
        let client = self.client.clone().with_retry(Retry::within(Duration::MAX));
        let request = v1::UpdateHostRequest { offer: Some(offer.clone()) };
        client.update_host(request).await.map(|_| offer)
    }

    /// Forgets an order whose member has ended, or never began.
    async fn forget(&self, request_id: &str, member: &str) {
        if let Some(detail) = self.backend.forget(request_id).await {
            (self.on_event)(&HostEvent::Kept { member: member.to_owned(), detail });
        }
    }

    fn passed(&self, order: &Order, detail: &str) {
        (self.on_event)(&HostEvent::Passed {
            member: order.member.clone(),
            request_id: order.request_id.clone(),
            detail: detail.to_owned(),
        });
    }

    /// Reports the end of a member that was started: as a refusal if it never opened a session, and otherwise as its
    /// exit.
    pub(super) async fn report(&self, ended: Ended) {
        let Ended { request_id, member, exit, reason, try_another_host } = ended;
        let client = self.client.clone().with_retry(Retry::within(Duration::MAX));
        let reason = bounded(&reason);
        let refusal =
            v1::RefuseOrderRequest { request_id: request_id.clone(), reason: reason.clone(), try_another_host };
        let reported = match client.refuse_order(refusal).await {
            Ok(_) => {
                (self.on_event)(&HostEvent::Refused { member: member.clone(), request_id: request_id.clone(), reason });
                Ok(())
            }
            Err(error) if is_over(&error) => {
                let report = v1::ReportExitRequest { request_id: request_id.clone(), exit: Some(exit.clone()) };
                client.report_exit(report).await.map(|reply| {
                    // The runner has usually reported how the program ended, which the host does not see.
                    let detail = word::exit(&reply.exit.unwrap_or(exit));
                    let (member, request_id) = (member.clone(), request_id.clone());
                    (self.on_event)(&HostEvent::Ended { member, request_id, detail });
                })
            }
            Err(error) => Err(error),
        };
        match reported {
            Ok(()) => self.forget(&request_id, &member).await,
            Err(Error::Refused(refusal)) if is_gone(refusal.reason) => self.forget(&request_id, &member).await,
            // The next process reports it.
            Err(error) => (self.on_event)(&HostEvent::CallFailed {
                detail: format!("The end of {member} was not reported: {error}"),
            }),
        }
    }
}

/// Why an order was not carried out.
enum NotStarted {
    /// The host cannot carry it out.
    Refused(StartError),
    /// It could not be taken: it has ended.
    Over(Error),
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        Self::Refused(error)
    }
}

/// Returns how much time an order has left.
fn left(order: &Order) -> Duration {
    let left = order.expires_at.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    left.unwrap_or(DEADLINE_DEFAULT).max(CALL_MIN)
}

/// Returns whether an order could not be taken because its member has joined.
fn has_joined(error: &Error) -> bool {
    error.reason() == Some(Reason::AlreadyDecided)
}

/// Returns whether an order could not be refused because it has ended.
fn is_over(error: &Error) -> bool {
    matches!(error.reason(), Some(Reason::AlreadyDecided | Reason::RequestExpired | Reason::RequestCancelled))
}

/// Returns whether the coordinator never had the order for this host, or no longer has it.
fn is_gone(reason: Reason) -> bool {
    matches!(reason, Reason::RequestNotFound | Reason::NotRequestTarget)
}

/// Truncates a reason that is too long. Never returns an empty one, which the coordinator would refuse.
fn bounded(reason: &str) -> String {
    let reason = reason.trim();
    if reason.is_empty() {
        return "The member was not started.".to_owned();
    }
    reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned()
}
