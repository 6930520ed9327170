//! Starts members when the lead orders them.
//!
//! A [`Host`] reads its inbox, takes the orders in it, has its [`Backend`] start the members, and reports the ends that
//! the members cannot report themselves. The backend decides how to start a member: [`Processes`] starts a runner on
//! this machine.
//!
//! | module | what it does | depends on |
//! |---|---|---|
//! | `mod` | the loop: the session, one task for each order and for each end | all below |
//! | `order` | takes, starts, refuses and reports: every call about one order | `backend`, `event` |
//! | [`Processes`] | starts members on this machine | `backend`, `profile` |
//! | `profile` | the file that says what may run | |
//! | `backend` | the interface of whatever starts members | |
//! | `event` | what the host shows people who watch it | |
//!
//! # What survives a crash
//!
//! An order stays in the host's inbox until its member has its token or the order has ended. So a host that dies while
//! carrying out an order gets it again and takes it again, which voids the earlier token. A backend records each start
//! before it begins, so that [`Backend::recover`] finds it.

mod backend;
mod event;
mod order;
mod processes;
mod profile;

use std::{sync::Arc, time::Duration};

use teamwire_client::{Client, Closed, Delivery, Error, Event, Retry, SubscribeOptions};
use teamwire_proto::v1::{self, message::Body};
use tokio::{
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::order::Orders;
pub use self::{
    backend::{Backend, Ended, Found, Order, REASON_BYTES_MAX, StartError, Ticket},
    event::HostEvent,
    processes::Processes,
    profile::{HostFile, Limits, Permission, Profile, RestartWhen, Via, bounds},
};

/// Called with everything that happens. Must return quickly.
pub type OnHostEvent = Arc<dyn Fn(&HostEvent) + Send + Sync>;

/// How long a host that was asked to stop may take to finish the orders that it has in hand, and then to make its last
/// calls.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// A host that has joined its team.
pub struct Host<B> {
    client: Client,
    backend: Arc<B>,
    orders: Orders<B>,
    on_event: OnHostEvent,
}

/// Why a host has ended.
#[derive(Debug)]
pub enum HostEnd {
    /// It was asked to stop.
    Stopped,
    /// The coordinator has ended its session for good: the team was deleted, another process has its identity, or it
    /// was stopped by force.
    Closed(Closed),
    /// The coordinator refused its credential or its offer.
    Refused(Error),
}

/// What a task of the host did.
enum Done {
    /// It carried out an order, or reported an end.
    Order,
    /// It said what the host offers.
    Offered(Box<Result<v1::HostOffer, Error>>),
}

/// What the host knows and has said about its connection.
#[derive(Default)]
struct Link {
    /// A session has opened.
    has_opened: bool,
    /// It has been ready.
    is_ready: bool,
    /// It has said that it lost the connection, and not yet that it is back.
    is_lost: bool,
}

impl<B: Backend> Host<B> {
    /// Creates a host, which does nothing yet. `client`: with the host's credential.
    pub fn new(client: Client, backend: Arc<B>, on_event: OnHostEvent) -> Self {
        let orders = Orders::new(client.clone(), backend.clone(), on_event.clone());
        Self { client, backend, orders, on_event }
    }

    /// Carries out orders until `stop` is cancelled or the coordinator ends the session for good. Members keep running.
    ///
    /// Must be called within a Tokio runtime.
    pub async fn run(self, stop: CancellationToken) -> HostEnd {
        let mut inbox = self.client.subscribe(SubscribeOptions::default());
        let mut tasks = JoinSet::new();
        let mut link = Link::default();
        let end = loop {
            tokio::select! {
                () = stop.cancelled() => break HostEnd::Stopped,
                event = inbox.next() => match event {
                    Some(Ok(Event::Opened(_))) => {
                        link.has_opened = true;
                        tasks.spawn(offer(self.orders.clone(), self.found_ends().await));
                    }
                    Some(Ok(Event::Lost { detail })) => {
                        link.is_lost = true;
                        self.say(&HostEvent::Disconnected { detail });
                    }
                    Some(Ok(Event::Delivery(delivery))) => self.carry_out(&mut tasks, *delivery),
                    // A host has no one to approve its shutdown for, so this is the end of a life that has left.
                    Some(Ok(Event::ShutdownApproved { .. })) | None => break HostEnd::Closed(Closed::MemberStopped),
                    Some(Ok(Event::Closed(closed))) => break HostEnd::Closed(closed),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break HostEnd::Refused(error),
                },
                ended = self.backend.next_end(), if link.has_opened => self.report(&mut tasks, ended),
                Some(done) = tasks.join_next() => match self.offered(done, &mut link) {
                    Ok(()) => {}
                    Err(error) => break HostEnd::Refused(error),
                },
            }
        };
        if matches!(end, HostEnd::Stopped) {
            for ended in self.found_ends().await {
                self.report(&mut tasks, ended);
            }
            // The next process takes over whatever does not finish in time.
            let _ = timeout(LAST_CALLS, async { while tasks.join_next().await.is_some() {} }).await;
            let _ = timeout(LAST_CALLS, inbox.flush()).await;
            self.leave().await;
        }
        end
    }

    /// Returns the ends that have already arrived.
    async fn found_ends(&self) -> Vec<Ended> {
        let mut found = Vec::new();
        while let Ok(ended) = timeout(Duration::ZERO, self.backend.next_end()).await {
            found.push(ended);
        }
        found
    }

    /// Begins to carry out an order.
    fn carry_out(&self, tasks: &mut JoinSet<Done>, delivery: Delivery) {
        let Some(order) = order_in(&delivery.message) else {
            // A host handles only orders.
            return delivery.ack();
        };
        let orders = self.orders.clone();
        tasks.spawn(async move {
            orders.carry_out(&order).await;
            delivery.ack();
            Done::Order
        });
    }

    /// Begins to report the end of a member.
    fn report(&self, tasks: &mut JoinSet<Done>, ended: Ended) {
        let orders = self.orders.clone();
        tasks.spawn(async move {
            orders.report(ended).await;
            Done::Order
        });
    }

    /// Handles the outcome of a task. Fails if the coordinator has refused what the host offers.
    fn offered(&self, done: Result<Done, JoinError>, link: &mut Link) -> Result<(), Error> {
        match done.map(|done| if let Done::Offered(offered) = done { Some(*offered) } else { None }) {
            Ok(Some(Ok(_))) if link.is_ready => {
                if std::mem::take(&mut link.is_lost) {
                    self.say(&HostEvent::Reconnected);
                }
            }
            Ok(Some(Ok(offer))) => {
                (link.is_ready, link.is_lost) = (true, false);
                let (host, team) = (self.client.name().to_owned(), self.client.team().to_owned());
                self.say(&HostEvent::Ready { host, team, offer });
            }
            // The subscription says what happened to the host.
            Ok(Some(Err(error))) if error.is_forbidden() || error.is_retryable() => {
                self.say(&HostEvent::CallFailed { detail: format!("The offer was not accepted: {error}") });
            }
            Ok(Some(Err(error))) => return Err(error),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a task of the host ended early"),
        }
        Ok(())
    }

    /// Tells the coordinator that the host takes no more orders.
    async fn leave(&self) {
        let client = self.client.clone().with_retry(Retry::within(LAST_CALLS));
        if let Err(error) = client.leave(0).await {
            tracing::warn!(%error, "the coordinator may not know that this host has stopped");
        }
    }

    fn say(&self, event: &HostEvent) {
        (self.on_event)(event);
    }
}

/// Reports the ends of members that the host found when it connected, and then tells the coordinator what the host
/// offers. So a caller that waits until the host is ready does not count those members as running.
async fn offer<B: Backend>(orders: Orders<B>, found: Vec<Ended>) -> Done {
    let mut reports = JoinSet::new();
    for ended in found {
        let orders = orders.clone();
        reports.spawn(async move { orders.report(ended).await });
    }
    while reports.join_next().await.is_some() {}
    Done::Offered(Box::new(orders.offer().await))
}

/// Returns the order in a message. `None` if the message is not an order.
fn order_in(message: &v1::Message) -> Option<Order> {
    let Some(Body::SpawnOrder(ordered)) = &message.body else { return None };
    Some(Order {
        request_id: message.request_id.clone(),
        member: ordered.member.clone(),
        team: message.team.clone(),
        terms: ordered.terms.clone().unwrap_or_default(),
        expires_at: message.request_expires_at.and_then(|at| at.try_into().ok()),
    })
}

impl<B> std::fmt::Debug for Host<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("client", &self.client).finish_non_exhaustive()
    }
}
