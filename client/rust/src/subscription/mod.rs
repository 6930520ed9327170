//! A subscription to one's own inbox.
//!
//! A task keeps a session open on the coordinator and reads it at all times, so that the end of a session is noticed
//! while the application is busy. It reconnects by itself, with full jitter, when the connection breaks, when nothing is
//! heard for three heartbeat intervals, when the coordinator drains, is unreachable or found us too slow. It stays down
//! when the shutdown was approved, the member was stopped, another process has taken over, the team is gone, or the
//! credential is refused.
//!
//! Delivery is at least once, and within one subscription exactly once: a message that was handed to the application
//! does not come again after a reconnect, and one whose acknowledgement was lost is acknowledged again. What is not
//! acknowledged when the process ends comes again in the next one.

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

/// What a subscription asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    /// How many messages may be unacknowledged at a time, 1 to 64. Zero: 64.
    pub unacked_messages_max: u32,
    /// How many bytes of messages may be unacknowledged at a time, up to 1 MiB. Zero: 1 MiB.
    pub unacked_bytes_max: u32,
    /// What tells this process from another one with the same credential. Empty: a random one for this subscription.
    /// A process that subscribes a second time gives the same one again, so that the lead is not told of an intruder.
    pub instance_id: String,
}

/// What a subscription brings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A session has opened: the first one, or another after a reconnect.
    Opened(v1::SessionOpened),
    /// The session was lost. The subscription reconnects by itself.
    Lost {
        /// What happened, for a reader.
        detail: String,
    },
    /// A message.
    Delivery(Box<Delivery>),
    /// The member's approval of its own shutdown is recorded: end the process now. The subscription has ended.
    ShutdownApproved {
        /// The request that was approved.
        request_id: String,
    },
    /// The subscription has ended and will not reconnect.
    Closed(Closed),
}

/// Why a subscription is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Another process holds the inbox now.
    Superseded,
    /// The team is no more.
    TeamDeleted,
    /// The lead stopped the member by force, or its exit was reported: end the process at once.
    MemberStopped,
    /// The coordinator refused, with this text.
    Refused(String),
    /// The application has dropped it.
    Dropped,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Superseded => "another process holds the inbox now",
            Self::TeamDeleted => "the team was deleted",
            Self::MemberStopped => "the member was stopped",
            Self::Refused(message) => message,
            Self::Dropped => "it was dropped",
        })
    }
}

/// A message out of the inbox.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: v1::Message,
    /// Its place in the inbox.
    pub sequence: u64,
    /// How many sessions have delivered it or may have. Over 1: an earlier process may have seen it.
    pub delivery_count: u32,
    acks: Acks,
}

impl Delivery {
    /// Says that the message is processed, and returns at once. See [`Subscription::flush_acks`].
    pub fn ack(&self) {
        self.acks.ack(&self.message.id);
    }
}

/// A subscription to one's own inbox. Dropping it closes the stream; acknowledgements that are not flushed are lost
/// then, and their messages come again.
#[derive(Debug)]
pub struct Subscription {
    inbox: Arc<Inbox>,
    acks: Acks,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Client {
    /// Subscribes to the caller's own inbox. An older subscription of the same member ends.
    ///
    /// Must be called within a Tokio runtime. From now on the calls of this client and of its clones belong to the
    /// session: they are refused once another process has taken over.
    pub fn subscribe(&self, options: SubscribeOptions) -> Subscription {
        let SubscribeOptions { unacked_messages_max, unacked_bytes_max, mut instance_id } = options;
        if instance_id.is_empty() {
            instance_id = Uuid::new_v4().to_string();
        }
        let (inbox, acks) = (Arc::new(Inbox::default()), Acks::new());
        self.session().send_modify(|session| session.is_reopening = true);
        let request = v1::StreamRequest { instance_id, unacked_messages_max, unacked_bytes_max };
        let reader = Reader { client: self.clone(), request, inbox: inbox.clone(), acks: acks.clone() };
        let tasks = [tokio::spawn(reader.run()), tokio::spawn(acks.clone().run(self.clone()))];
        Subscription { inbox, acks, _tasks: tasks.map(AbortOnDropHandle::new) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.acks.close(Closed::Dropped);
    }
}

impl Subscription {
    /// Returns what comes next. None: the subscription has ended, and how was returned before.
    ///
    /// The end comes before anything that still waits, and a shutdown request before other messages; these come in the
    /// order of the inbox. May be cancelled without loss, as in `tokio::select!`.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        self.inbox.take().await
    }

    /// Says that a message is processed, and returns at once.
    pub fn ack(&self, message_id: &str) {
        self.acks.ack(message_id);
    }

    /// Returns what acknowledges without the subscription at hand.
    pub fn acks(&self) -> Acks {
        self.acks.clone()
    }

    /// Waits until the coordinator has confirmed every acknowledgement so far. Waits through reconnects; fails when the
    /// subscription has ended.
    pub async fn flush_acks(&self) -> Result<(), Error> {
        self.acks.flush().await
    }
}
