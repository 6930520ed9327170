//! A session, from its opening to its last frame.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    id::RequestId,
    name::Name,
    v1::{self, stream_response},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    delivery_loop::{Credit, DeliveryLoop, OpenInbox},
    end::End,
    frames::{Emptier, Frame, FrameQueue, channel, frame},
    heartbeats::Heartbeats,
    pace::Pace,
};
use crate::{
    coordinator::{Coordinator, sessions::OpenedSession},
    domain::{identity::CallerCredentials, session::Opened},
    notify::Mailbox,
};

/// How long a client that is to reconnect waits for its session to be closed in the store.
const CLOSE_BEFORE_LAST_FRAME: Duration = Duration::from_secs(1);

/// How much memory the task of a session may take. A coordinator has one for each open stream.
const SESSION_BYTES_MAX: usize = 2_560;

/// A session that was opened and waits to be started.
#[derive(Debug)]
pub struct Session {
    coordinator: Arc<Coordinator>,
    opened: v1::SessionOpened,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The session delivers an inbox.
    Open(Box<OpenInbox>),
    /// The member has approved this request, or has left; the session only says so.
    Stopping { request_id: Option<RequestId> },
}

impl Session {
    /// Opens a session on the caller's inbox.
    pub async fn open(
        coordinator: &Arc<Coordinator>,
        who: &CallerCredentials,
        request: &v1::StreamRequest,
    ) -> Result<Self, Refusal> {
        let OpenedSession { namespace, opened, backlog } = coordinator.open_session(who, request).await?;
        let coordinator = Arc::clone(coordinator);
        Ok(match opened {
            Opened::Session { member, team, record, reserved } => {
                let opened = v1::SessionOpened {
                    session_id: record.session_id.clone().into(),
                    epoch: record.epoch,
                    incarnation: record.incarnation,
                    backlog,
                    ..announce(&member, &team)
                };
                let mailbox = Mailbox::new(namespace, member, record.session_id.clone());
                let credit = Credit::new(request, coordinator.limits());
                Self {
                    coordinator,
                    opened,
                    kind: Kind::Open(Box::new(OpenInbox { mailbox, session: record, reserved, credit })),
                }
            }
            Opened::Stopping { member, team, incarnation, request_id } => {
                let opened = v1::SessionOpened { incarnation, ..announce(&member, &team) };
                Self { coordinator, opened, kind: Kind::Stopping { request_id } }
            }
        })
    }

    /// Runs the session on a separate task, one of `tasks`. Returns the queue that its frames come out of.
    pub fn start(
        mut self,
        pace: Pace,
        heartbeats: Arc<Heartbeats>,
        draining: CancellationToken,
        tasks: &TaskTracker,
    ) -> FrameQueue {
        self.opened.heartbeat_interval = prost_types::Duration::try_from(pace.heartbeat_interval).ok();
        let (frames, out) = channel();
        let emptier = out.emptier();
        let opened = frame(stream_response::Frame::Opened(self.opened));
        let future = async move {
            match self.kind {
                Kind::Open(inbox) => {
                    run(self.coordinator, inbox, opened, pace, (frames, emptier), &heartbeats, &draining).await;
                }
                Kind::Stopping { request_id } => {
                    let closing = last_frame(End::shutdown_approved(request_id), pace);
                    for frame in [Some(opened), closing].into_iter().flatten() {
                        let _ = timeout(pace.write_timeout, frames.send(frame)).await;
                    }
                }
            }
        };
        debug_assert!(
            size_of_val(&future) <= SESSION_BYTES_MAX,
            "an idle session takes {} bytes",
            size_of_val(&future)
        );
        tasks.spawn(future);
        out
    }
}

fn announce(member: &Name, team: &Name) -> v1::SessionOpened {
    v1::SessionOpened { member: member.to_string(), team: team.to_string(), ..v1::SessionOpened::default() }
}

async fn run(
    coordinator: Arc<Coordinator>,
    inbox: Box<OpenInbox>,
    opened: Frame,
    pace: Pace,
    (frames, emptier): (mpsc::Sender<Frame>, Emptier),
    heartbeats: &Heartbeats,
    draining: &CancellationToken,
) {
    let Ok(last) = frames.clone().reserve_owned().await else { return };
    let _counted = coordinator.metrics().session();
    let mailbox = Arc::clone(&inbox.mailbox);
    let open = coordinator.notifier().open(Arc::clone(&mailbox));
    let mut delivery = DeliveryLoop::new(coordinator, inbox, pace, frames);
    let end = match delivery.announce(opened).await {
        Ok(()) => delivery.run(heartbeats, draining).await,
        Err(end) => end,
    };
    if end.leaves_frames() {
        emptier.empty();
    }
    let is_asked_to_reconnect = end.is_asking_to_reconnect();
    let mut closed = Box::pin(close(delivery, &mailbox));
    // The coordinator to which the client reconnects then knows exactly how far this session got.
    let is_closed = is_asked_to_reconnect && timeout(CLOSE_BEFORE_LAST_FRAME, &mut closed).await.is_ok();
    if let Some(frame) = last_frame(end, pace) {
        last.send(frame);
    }
    if !is_closed {
        closed.await;
    }
    // Until here, a session that opens after this one learns from its mailbox how far it got.
    drop(open);
}

/// Closes a session in the store.
async fn close(delivery: DeliveryLoop, mailbox: &Mailbox) {
    if let Err(refusal) = delivery.close().await
        && refusal.reason != Reason::SessionSuperseded
    {
        let Mailbox { namespace, member, .. } = mailbox;
        tracing::debug!(?namespace, %member, %refusal, "a session could not be closed in the store");
    }
}

/// Returns the last frame of a session's stream. `None` if the client is gone.
fn last_frame(end: End, pace: Pace) -> Option<Frame> {
    match end {
        End::Gone => None,
        End::Refused(refusal) => Some(Box::new(Err(refusal))),
        End::Slow => {
            let text = format!(
                "The client read nothing from this stream for {:?}. Read faster, or ask for fewer messages at a time; messages \
                 that were not acknowledged will be delivered again.",
                pace.write_timeout
            );
            Some(Box::new(Err(Refusal::new(Reason::SlowConsumer, text))))
        }
        End::Closing { reason, detail, request_id } => {
            let closing = v1::SessionClosing {
                reason: reason.into(),
                detail: detail.to_owned(),
                request_id: request_id.map_or_else(String::new, String::from),
            };
            Some(frame(stream_response::Frame::Closing(closing)))
        }
    }
}
