//! Keeps a session open: reads it, reconnects, and stops when it has ended for good.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Method, Reason, duration,
    v1::{self, stream_response::Frame},
};
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use super::{Acks, Closed, Delivery, Event, inbox::Inbox};
use crate::{
    Client, Error,
    client::{Call, Session, messages},
    retry::{self, Failure},
    transport::Link,
};

/// How long a session may take to open.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// How many heartbeats may be missing before the stream counts as dead.
const HEARTBEATS_MISSED_MAX: u32 = 3;

/// How long a session must have lasted for the delays of reconnecting to start over.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// How a session ended.
enum Ending {
    /// For good.
    ForGood(Result<Event, Error>),
    /// The coordinator drains; another one accepts a session at once.
    Drained,
    /// By a fault of the connection or the coordinator.
    Lost(Loss),
    /// Nothing arrived in time; another coordinator may do better.
    Silent(String),
}

/// Why a session was lost.
struct Loss {
    detail: String,
    /// It cannot be opened again until a person changes something.
    is_lasting: bool,
}

impl Loss {
    fn passing(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), is_lasting: false }
    }

    fn of(status: &Status) -> Self {
        Self { detail: retry::detail(status), is_lasting: retry::is_lasting(status) }
    }
}

pub(super) struct Reader {
    pub(super) client: Client,
    pub(super) request: v1::StreamRequest,
    pub(super) inbox: Arc<Inbox>,
    pub(super) acks: Acks,
    /// What the application knows of the outage. `None` while there is none.
    pub(super) told: Option<String>,
}

impl Reader {
    /// Reads one session after another until one ends for good.
    pub(super) async fn run(mut self) {
        let mut delays = self.client.retry().delays();
        loop {
            let began = Instant::now();
            let ending = self.session_until_superseded().await;
            if began.elapsed() >= SETTLED_AFTER {
                delays.reset();
            }
            let loss = match ending {
                Ending::ForGood(end) => {
                    self.client.session().send_modify(|session| session.is_reopening = false);
                    self.acks.hurry();
                    self.close_acks(&end);
                    self.inbox.end(end);
                    return;
                }
                Ending::Drained => {
                    delays.reset();
                    Loss::passing("the coordinator is draining")
                }
                Ending::Lost(loss) => loss,
                Ending::Silent(detail) => Loss::passing(detail),
            };
            self.client.session().send_modify(|session| session.is_reopening = true);
            self.tell(loss);
            sleep(delays.next()).await;
        }
    }

    /// Tells the application of an outage, and of a later reason why it lasts. It need not hear of each failed attempt.
    fn tell(&mut self, loss: Loss) {
        if self.told.as_ref().is_none_or(|told| loss.is_lasting && *told != loss.detail) {
            self.told = Some(loss.detail.clone());
            self.inbox.lost(loss.detail);
        }
    }

    /// Opens one session and reads it until it ends, or until a call is refused because another process holds the inbox.
    async fn session_until_superseded(&mut self) -> Ending {
        let mut sessions = self.client.session().subscribe();
        let superseded = sessions.wait_for(|session| session.is_superseded);
        let superseded = async move { superseded.await.is_ok() };
        tokio::select! {
            ending = self.session() => ending,
            true = superseded => Ending::ForGood(Ok(Event::Closed(Closed::Superseded))),
        }
    }

    /// Opens one session and reads it until it ends.
    async fn session(&mut self) -> Ending {
        let link = match self.client.transport().link().await {
            Ok(link) => link,
            Err(status) => return self.ending(Failure::of(&status), status),
        };
        let ending = self.session_on(&link).await;
        match &ending {
            Ending::Drained => self.client.transport().leave_drained(&link),
            Ending::Silent(_) => self.client.transport().leave(&link),
            _ => {}
        }
        ending
    }

    async fn session_on(&mut self, link: &Link) -> Ending {
        // Without a session id: this session is about to end the earlier one.
        let request = self.client.request(self.request.clone(), &Session::default());
        let mut client = messages(link.channel());
        let mut stream = match timeout(OPEN_DEADLINE, client.stream(request)).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return self.failed(link, status),
            Err(_) => return Ending::Silent(format!("no session within {OPEN_DEADLINE:?}")),
        };
        let mut silence_max = OPEN_DEADLINE;
        loop {
            let frame = match timeout(silence_max, stream.message()).await {
                Ok(Ok(Some(response))) => response.frame,
                Ok(Ok(None)) => return Ending::Lost(Loss::passing("the stream ended without a reason")),
                Ok(Err(status)) => return self.failed(link, status),
                Err(_) => return Ending::Silent(format!("nothing arrived for {silence_max:?}")),
            };
            match frame {
                Some(Frame::Opened(opened)) => {
                    let interval = opened.heartbeat_interval.and_then(duration::from_proto).unwrap_or_default();
                    silence_max = interval.saturating_mul(HEARTBEATS_MISSED_MAX).max(Duration::from_secs(1));
                    self.client.session().send_replace(Session { id: opened.session_id.clone(), ..Session::default() });
                    self.told = None;
                    self.inbox.opened(opened);
                    // They are counted now. The next session is a mere reconnect.
                    self.request.failed_sequences.clear();
                }
                Some(Frame::Delivery(delivery)) => self.deliver(delivery),
                Some(Frame::Query(query)) => self.inbox.ask(query),
                Some(Frame::Closing(closing)) => return closed(closing),
                // An unknown kind of frame is from a later version.
                Some(Frame::Heartbeat(_)) | None => {}
            }
        }
    }

    fn deliver(&self, delivery: v1::Delivery) {
        let v1::Delivery { sequence, delivery_count, message: Some(message) } = delivery else { return };
        if self.acks.is_new(&message) {
            let acks = self.acks.clone();
            self.inbox.put(Delivery { message, sequence, delivery_count, acks });
        }
    }

    fn failed(&self, link: &Link, status: Status) -> Ending {
        self.ending(self.client.judge(link, &status), status)
    }

    /// Returns how a stream ended, by its status.
    fn ending(&self, failure: Failure, status: Status) -> Ending {
        if let Failure::Refused(refusal) = &failure {
            match refusal.reason {
                Reason::SessionSuperseded => return Ending::ForGood(Ok(Event::Closed(Closed::Superseded))),
                Reason::MemberStopped => return Ending::ForGood(Ok(Event::Closed(Closed::MemberStopped))),
                Reason::TeamNotFound => return Ending::ForGood(Ok(Event::Closed(Closed::TeamDeleted))),
                // A bug in one coordinator must not end the subscription.
                reason if reason.reopens_stream() => return Ending::Lost(Loss::passing(&refusal.message)),
                _ => {}
            }
        }
        match failure {
            Failure::NotNow(refusal) if refusal.reason == Reason::Draining => Ending::Drained,
            Failure::NotNow(refusal) => Ending::Lost(Loss::passing(refusal.message)),
            Failure::NotSent | Failure::Stale | Failure::Broken => Ending::Lost(Loss::of(&status)),
            Failure::Refused(_) | Failure::Insecure(_) => Ending::ForGood(Err(self.error(failure, status))),
            Failure::Unexpected if is_final(&status) => Ending::ForGood(Err(self.error(failure, status))),
            Failure::Unexpected => Ending::Lost(Loss::of(&status)),
        }
    }

    fn error(&self, failure: Failure, status: Status) -> Error {
        self.client.error(Call::of(Method::Stream), failure, false, status)
    }

    fn close_acks(&self, end: &Result<Event, Error>) {
        match end {
            // A member that is shutting down may still acknowledge what it has processed.
            Ok(Event::ShutdownApproved { .. }) => {}
            Ok(Event::Closed(closed)) => self.acks.close(closed.clone()),
            Ok(_) => {}
            Err(error) => self.acks.close(Closed::Refused(error.to_string())),
        }
    }
}

fn closed(closing: v1::SessionClosing) -> Ending {
    match closing.reason() {
        v1::CloseReason::ShutdownApproved => {
            Ending::ForGood(Ok(Event::ShutdownApproved { request_id: closing.request_id }))
        }
        v1::CloseReason::Superseded => Ending::ForGood(Ok(Event::Closed(Closed::Superseded))),
        v1::CloseReason::TeamDeleted => Ending::ForGood(Ok(Event::Closed(Closed::TeamDeleted))),
        v1::CloseReason::DataLost => Ending::ForGood(Ok(Event::Closed(Closed::DataLost))),
        v1::CloseReason::MemberStopped => Ending::ForGood(Ok(Event::Closed(Closed::MemberStopped))),
        v1::CloseReason::Draining => Ending::Drained,
        v1::CloseReason::Unspecified => Ending::Lost(Loss::passing(closing.detail)),
    }
}

/// Returns whether an answer without a reason would be the same next time: it comes from something other than a
/// coordinator, or from a proxy that blocks the call.
fn is_final(status: &Status) -> bool {
    use tonic::Code::{InvalidArgument, NotFound, PermissionDenied, Unauthenticated, Unimplemented};
    matches!(status.code(), InvalidArgument | NotFound | PermissionDenied | Unauthenticated | Unimplemented)
}
