//! A subscription to the caller's own inbox.
//!
//! A task keeps a session open on the coordinator and reads it at all times, so that the end of a session is noticed
//! even while the application is busy. It reconnects with full jitter when the connection breaks, when nothing arrives
//! for three heartbeat intervals, and when the coordinator drains, is unreachable or drops a client that is too slow.
//! It ends for good when the shutdown is approved, the member is stopped, another process takes over, the team is
//! deleted, or the credential is refused.
//!
//! Delivery is at least once, and exactly once within one subscription: a reconnect does not deliver again what the
//! application already has, and an acknowledgement that was lost is sent again. What is not acknowledged when the
//! process ends is delivered to the next one.

mod acks;
mod inbox;
mod reader;
mod traces;
mod window;

use std::{fmt, sync::Arc};

use teamwire_proto::v1;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::{inbox::Inbox, reader::Reader};
use crate::{Client, Error};

pub use acks::Acks;

/// The options of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// The most messages that may be unacknowledged at a time, 1 to 64. Zero means 64.
    pub unacked_messages_max: u32,
    /// The most bytes of messages that may be unacknowledged at a time, up to 1 MiB. Zero means 1 MiB.
    pub unacked_bytes_max: u32,
    /// Identifies this process among those with the same credential. Empty means a random id for this subscription. A
    /// process that subscribes again should use the same id, or the coordinator reports a takeover to the lead.
    pub instance_id: String,
    /// The messages at which this process has failed in an earlier subscription with the same `instance_id`, by their
    /// [`Delivery::sequence`]. Each counts as another delivery before it becomes a dead letter.
    pub failed_sequences: Vec<u64>,
}

/// Something that happens to a subscription.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A session has opened: the first one, or another one after a reconnect.
    Opened(v1::SessionOpened),
    /// The session was lost. The subscription reconnects by itself. Comes again if the reason changes to one that lasts
    /// until a person changes something, such as an expired certificate.
    Lost {
        /// What went wrong, in words for a person.
        detail: String,
    },
    /// A message has arrived.
    Delivery(Box<Delivery>),
    /// Someone asks for what only the member's runner has. Answer with [`Client::answer_query`], or ignore it.
    Query(Box<v1::RunnerQuery>),
    /// The member has approved its own shutdown, or leaves: end the process now. The subscription has ended.
    ShutdownApproved {
        /// The id of the approved request. Empty if the member is leaving voluntarily.
        request_id: String,
    },
    /// The subscription has ended and will not reconnect.
    Closed(Closed),
}

/// Why a subscription has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Another process holds the inbox now.
    Superseded,
    /// The team was deleted.
    TeamDeleted,
    /// The coordinator's store lost the team and everything in it.
    DataLost,
    /// The lead stopped the member by force, or its exit was reported: end the process at once.
    MemberStopped,
    /// The coordinator refused the subscription, for this reason.
    Refused(String),
    /// The application dropped it.
    Dropped,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Superseded => "another process holds the inbox now",
            Self::TeamDeleted => "the team was deleted",
            Self::DataLost => {
                "the coordinator's store lost the team and everything in it, for example because Redis was emptied; restore the \
                 store from a backup, or create the team again"
            }
            Self::MemberStopped => "the member was stopped",
            Self::Refused(message) => message,
            Self::Dropped => "it was dropped",
        })
    }
}

/// How a subscription has ended: what the last event said, under the names that all clients share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub reason: EndReason,
    /// The approved request, with [`EndReason::ShutdownApproved`]; otherwise empty.
    pub request_id: String,
}

/// Why a subscription has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The member has approved its own shutdown.
    ShutdownApproved,
    /// Another process holds the inbox now.
    Superseded,
    /// The team was deleted.
    TeamDeleted,
    /// The coordinator's store lost the team and everything in it.
    DataLost,
    /// The lead stopped the member by force, or its exit was reported.
    MemberStopped,
}

impl EndReason {
    /// Returns the word for it, such as `shutdown_approved`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ShutdownApproved => "shutdown_approved",
            Self::Superseded => "superseded",
            Self::TeamDeleted => "team_deleted",
            Self::DataLost => "data_lost",
            Self::MemberStopped => "member_stopped",
        }
    }
}

impl End {
    /// Returns the end that an event announces. `None` if it announces none, or an error.
    fn of(event: &Event) -> Option<Self> {
        let (reason, request_id) = match event {
            Event::ShutdownApproved { request_id } => (EndReason::ShutdownApproved, request_id.clone()),
            Event::Closed(Closed::Superseded) => (EndReason::Superseded, String::new()),
            Event::Closed(Closed::TeamDeleted) => (EndReason::TeamDeleted, String::new()),
            Event::Closed(Closed::DataLost) => (EndReason::DataLost, String::new()),
            Event::Closed(Closed::MemberStopped) => (EndReason::MemberStopped, String::new()),
            _ => return None,
        };
        Some(Self { reason, request_id })
    }
}

/// A message from the inbox.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: v1::Message,
    /// Its position in the inbox.
    pub sequence: u64,
    /// How many sessions may have delivered it, this one included. Over 1: an earlier process may have seen it.
    pub delivery_count: u32,
    acks: Acks,
}

impl Delivery {
    /// Acknowledges the message as processed. Returns at once; see [`Subscription::flush`].
    pub fn ack(&self) {
        self.acks.ack(&self.message.id);
    }
}

/// A subscription to the caller's own inbox.
///
/// Dropping it closes the stream. Acknowledgements that are not flushed are then lost, and their messages are delivered
/// again.
#[derive(Debug)]
pub struct Subscription {
    inbox: Arc<Inbox>,
    acks: Acks,
    end: Option<End>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Client {
    /// Subscribes to the caller's own inbox, and ends any other subscription of the same member.
    ///
    /// From now on the calls of this client and its clones belong to the session: the coordinator refuses them once
    /// another process has taken over. Panics outside of a Tokio runtime.
    pub fn subscribe(&self, options: SubscribeOptions) -> Subscription {
        self.subscribe_after(std::future::ready(()), options)
    }

    /// Subscribes like [`Client::subscribe`], but opens the first session only after `may_open`.
    pub fn subscribe_after(
        &self,
        may_open: impl Future<Output = ()> + Send + 'static,
        options: SubscribeOptions,
    ) -> Subscription {
        let SubscribeOptions { unacked_messages_max, unacked_bytes_max, mut instance_id, failed_sequences } = options;
        if instance_id.is_empty() {
            instance_id = Uuid::new_v4().to_string();
        }
        let (inbox, acks) = (Arc::new(Inbox::default()), Acks::new(unacked_messages_max));
        self.session().send_modify(|session| {
            // Whatever held the inbox before, this subscription takes it.
            (session.is_reopening, session.is_superseded) = (true, false);
        });
        let request = v1::StreamRequest { instance_id, unacked_messages_max, unacked_bytes_max, failed_sequences };
        let reader = Reader { client: self.clone(), request, inbox: inbox.clone(), acks: acks.clone(), told: None };
        let reading = async move {
            may_open.await;
            reader.run().await;
        };
        let tasks = [tokio::spawn(reading), tokio::spawn(acks.clone().run(self.clone()))];
        Subscription { inbox, acks, end: None, _tasks: tasks.map(AbortOnDropHandle::new) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.acks.close(Closed::Dropped);
    }
}

impl Subscription {
    /// Waits for the next event. `None` if the subscription has ended, and the event before this said why.
    ///
    /// The end comes before anything that still waits, and shutdown requests come before other messages, which keep the
    /// order of the inbox. Cancel-safe: can be used in `tokio::select!`.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        let event = self.inbox.take().await;
        if let Some(Ok(event)) = &event {
            self.end = End::of(event);
        }
        event
    }

    /// Returns how the subscription has ended, once [`Subscription::next`] has returned its last event. `None` if it
    /// has not ended, or ended with an error.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Acknowledges a message as processed. Returns at once; see [`Subscription::flush`].
    pub fn ack(&self, message_id: &str) {
        self.acks.ack(message_id);
    }

    /// Returns a handle that acknowledges messages of this subscription.
    pub fn acks(&self) -> Acks {
        self.acks.clone()
    }

    /// Waits until the coordinator has confirmed every acknowledgement so far, through reconnects.
    ///
    /// Fails with [`Error::Closed`] if the subscription ends first.
    pub async fn flush(&self) -> Result<(), Error> {
        self.acks.flush().await
    }
}
