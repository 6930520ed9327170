//! The loop of one session: deliver while credit lasts, then sleep until something happens.
//!
//! A session keeps a handful of numbers and what is unacknowledged (64 messages or 1 MiB at most, by default), never a
//! copy of the inbox. Arrivals wait in a small window; beyond it they are read from the store. Frames go through a
//! bounded channel to the stream; a client that takes none for [`Pace::write_timeout`] is cut off, and its messages stay.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    trace_parent,
    v1::{self, CloseReason, stream_response},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::heartbeats::Heartbeats;
use crate::{
    coordinator::Coordinator,
    domain::{
        Limits,
        identity::is_lost,
        post::timestamp,
        record::{CursorRecord, SessionEnd, SessionRecord},
        session::{self, Leaving, RESERVED_AHEAD},
    },
    notify::{Arrival, Delivered, Mailbox, Outstanding},
    store::{Namespace, Range},
};

/// The rhythm of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The longest silence between two frames. 10 s.
    pub heartbeat_interval: Duration,
    /// How long a client may take no frame while one is waiting. 30 s.
    pub write_timeout: Duration,
    /// How long a stream lives at the most; a tenth more or less. 45 min.
    pub stream_age: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            stream_age: Duration::from_secs(45 * 60),
        }
    }
}

/// How often a session records how far it has come, at the most.
const RECORD_INTERVAL: Duration = Duration::from_millis(200);

/// How long an arrival waits for those before it at the most, until they are read from the store.
const OVERTAKEN_MAX: Duration = Duration::from_millis(5);

/// How many messages are read from the store at a time.
const AHEAD_MAX: usize = 128;

/// How many frames wait for the client at the most.
const FRAMES_MAX: usize = 32;

/// A frame, or why there are no more. In a box, since a channel keeps room for many of them while none is sent.
pub type Frame = Box<Result<v1::StreamResponse, Refusal>>;

fn say(frame: stream_response::Frame) -> Frame {
    Box::new(Ok(v1::StreamResponse { frame: Some(frame) }))
}

/// What the client asked for.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    messages_max: u64,
    bytes_max: u64,
}

impl SessionOptions {
    /// Takes what the client asked for, within the bounds in force.
    pub fn new(request: &v1::StreamRequest, limits: &Limits) -> Self {
        let within = |asked: u32, max: u64| if asked == 0 { max } else { u64::from(asked).min(max) };
        Self {
            messages_max: within(request.unacked_messages_max, limits.unacked_messages_max),
            bytes_max: within(request.unacked_bytes_max, limits.unacked_bytes_max),
        }
    }
}

/// A session that was opened and waits to be run.
#[derive(Debug)]
pub struct Session {
    coordinator: Arc<Coordinator>,
    mailbox: Arc<Mailbox>,
    opened: v1::SessionOpened,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Open {
        record: SessionRecord,
        reserved: u64,
        options: SessionOptions,
    },
    /// The member has approved this request: that is all there is to say.
    Stopping {
        request_id: String,
    },
}

/// Why a session ends.
enum End {
    /// With a last frame.
    Closing { reason: CloseReason, detail: &'static str, request_id: String },
    /// The client is gone.
    Gone,
    /// The client takes no frames.
    Slow,
}

impl End {
    fn closing(reason: CloseReason, detail: &'static str) -> Self {
        Self::Closing { reason, detail, request_id: String::new() }
    }

    /// The inbox, or the session itself, has gone back to an earlier state.
    fn begin_again() -> Self {
        let detail = "The store has lost a part of what it had answered. Reconnect, to begin with what is left.";
        Self::closing(CloseReason::Draining, detail)
    }
}

impl Session {
    /// A session on an inbox.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn open(
        coordinator: Arc<Coordinator>,
        namespace: Namespace,
        member: Name,
        team: Name,
        record: SessionRecord,
        reserved: u64,
        backlog: u64,
        options: SessionOptions,
    ) -> Self {
        let opened = v1::SessionOpened {
            session_id: record.session_id.clone(),
            epoch: record.epoch,
            incarnation: record.incarnation,
            backlog,
            ..announce(&member, &team)
        };
        let mailbox = Mailbox::new(namespace, member, record.session_id.clone());
        Self { coordinator, mailbox, opened, kind: Kind::Open { record, reserved, options } }
    }

    /// A session of a member that has approved its shutdown.
    pub(crate) fn stopping(
        coordinator: Arc<Coordinator>,
        namespace: Namespace,
        member: Name,
        team: Name,
        incarnation: u64,
        request_id: String,
    ) -> Self {
        let opened = v1::SessionOpened { incarnation, ..announce(&member, &team) };
        let mailbox = Mailbox::new(namespace, member, String::new());
        Self { coordinator, mailbox, opened, kind: Kind::Stopping { request_id } }
    }

    /// Runs the session on a task of its own. Returns where its frames come out.
    pub fn start(
        mut self,
        pace: Pace,
        heartbeats: Arc<Heartbeats>,
        draining: CancellationToken,
    ) -> mpsc::Receiver<Frame> {
        // One place more, kept for the last frame, which must get through however full the channel is.
        let (frames, out) = mpsc::channel(FRAMES_MAX + 1);
        self.opened.heartbeat_interval = prost_types::Duration::try_from(pace.heartbeat_interval).ok();
        tokio::spawn(self.run(pace, frames, heartbeats, draining));
        out
    }

    async fn run(
        self,
        pace: Pace,
        frames: mpsc::Sender<Frame>,
        heartbeats: Arc<Heartbeats>,
        draining: CancellationToken,
    ) {
        let opened = stream_response::Frame::Opened(self.opened);
        let (record, reserved, options) = match self.kind {
            Kind::Open { record, reserved, options } => (record, reserved, options),
            Kind::Stopping { request_id } => {
                let closing = stream_response::Frame::Closing(v1::SessionClosing {
                    reason: CloseReason::ShutdownApproved.into(),
                    detail: "The shutdown was approved. End the process.".to_owned(),
                    request_id,
                });
                for frame in [opened, closing] {
                    let _ = timeout(pace.write_timeout, frames.send(say(frame))).await;
                }
                return;
            }
        };
        let Ok(last) = frames.clone().reserve_owned().await else { return };
        let _counted = self.coordinator.metrics().session();
        let open = self.coordinator.notifier().open(Arc::clone(&self.mailbox));
        let cursor = CursorRecord { epoch: record.epoch, reserved, ..CursorRecord::default() };
        let mut run = DeliveryLoop {
            coordinator: self.coordinator,
            mailbox: self.mailbox,
            record,
            options,
            pace,
            frames,
            taken: ClientProgress { written: 0, count: 0, at: Instant::now() },
            cursor,
            next: 1,
            unrecorded: false,
            recording: None,
            ahead: VecDeque::new(),
            look_at: None,
        };
        let end = match run.write(opened).await {
            Ok(()) => run.deliver_until_end(&heartbeats, &draining).await,
            Err(end) => end,
        };
        drop(open);
        run.finish(end, last).await;
    }
}

fn announce(member: &Name, team: &Name) -> v1::SessionOpened {
    v1::SessionOpened { member: member.to_string(), team: team.to_string(), ..v1::SessionOpened::default() }
}

/// A session at work.
struct DeliveryLoop {
    coordinator: Arc<Coordinator>,
    mailbox: Arc<Mailbox>,
    record: SessionRecord,
    options: SessionOptions,
    pace: Pace,
    frames: mpsc::Sender<Frame>,
    taken: ClientProgress,
    cursor: CursorRecord,
    /// The lowest sequence that was not handled yet.
    next: u64,
    /// The cursor has moved since it was last recorded.
    unrecorded: bool,
    /// One at a time, or an older cursor could replace a newer one.
    recording: Option<Recording>,
    /// What comes next, where it was read from the store.
    ahead: VecDeque<(u64, Arc<v1::Message>)>,
    /// When to look into the store for what an arrival has overtaken.
    look_at: Option<Instant>,
}

/// How many frames the client has taken, as seen when a heartbeat was due.
struct ClientProgress {
    /// How many were written.
    written: usize,
    /// How many of them were taken, or none was waiting.
    count: usize,
    /// When that last was news.
    at: Instant,
}

/// A cursor on its way into the store, on a task of its own: the loop does other things with the store meanwhile, and
/// what is not driven on must hold nothing there. Returns how far the session may go then.
type Recording = JoinHandle<Result<u64, Refusal>>;

impl DeliveryLoop {
    async fn deliver_until_end(&mut self, heartbeats: &Heartbeats, draining: &CancellationToken) -> End {
        let now = Instant::now();
        let mut heartbeat = interval_at(now + self.pace.heartbeat_interval, self.pace.heartbeat_interval);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let age = sleep(self.pace.stream_age.mul_f64(rand::random_range(0.9..1.1)));
        tokio::pin!(age);
        let mut record_at = now;
        loop {
            let delivered = self.deliver().await;
            self.mailbox.set_seen_next(self.next);
            let retry_at = match delivered {
                Ok(()) => None,
                Err(DeliverError::End(end)) => return end,
                Err(DeliverError::Store) => {
                    // With what was taken out of it and not delivered.
                    self.ahead.clear();
                    self.mailbox.set_look(true);
                    Some(Instant::now() + Duration::from_millis(rand::random_range(200..1_000)))
                }
            };
            let is_due = Instant::now() >= record_at || self.is_near_reserved();
            if self.unrecorded && self.recording.is_none() && is_due {
                self.recording = Some(self.start_recording());
                record_at = Instant::now() + RECORD_INTERVAL;
            }
            let wants_recording = self.unrecorded && self.recording.is_none();
            tokio::select! {
                biased;
                () = draining.cancelled() => {
                    return End::closing(CloseReason::Draining, "This coordinator is going away. Reconnect.");
                }
                () = self.frames.closed() => return End::Gone,
                recorded = async { self.recording.as_mut().expect("is some").await }, if self.recording.is_some() => {
                    self.recording = None;
                    self.take_over(recorded.unwrap_or_else(|error| Err(interrupted(&error))));
                }
                () = self.mailbox.woken() => {}
                () = tokio::time::sleep_until(self.look_at.unwrap_or(now)), if self.look_at.is_some() => {}
                () = tokio::time::sleep_until(record_at), if wants_recording => {}
                _ = heartbeat.tick() => {
                    heartbeats.note_life(&self.mailbox.namespace, &self.mailbox.member);
                    if self.has_taken_nothing() {
                        return End::Slow;
                    }
                    let server_time = Some(timestamp(self.coordinator.now_ms()));
                    if let Err(end) = self.write(stream_response::Frame::Heartbeat(v1::Heartbeat { server_time })).await {
                        return end;
                    }
                }
                () = &mut age => {
                    return End::closing(CloseReason::Draining, "The stream has grown old. Reconnect.");
                }
                () = tokio::time::sleep_until(retry_at.unwrap_or(now)), if retry_at.is_some() => {
                    self.mailbox.set_check();
                }
            }
        }
    }

    /// Delivers what there is, as far as credit lasts.
    async fn deliver(&mut self) -> Result<(), DeliverError> {
        if self.mailbox.must_begin_again() {
            return Err(End::begin_again().into());
        }
        if self.mailbox.take_check() {
            self.check().await?;
        }
        loop {
            if !self.has_credit() {
                self.look_at = None;
                return Ok(());
            }
            if self.mailbox.take_holes() && !self.ahead.is_empty() {
                self.ahead.clear();
                self.mailbox.set_look(true);
            }
            if let Some((sequence, message)) = self.ahead.pop_front() {
                if !self.hand_over(sequence, message).await? {
                    return Ok(());
                }
                continue;
            }
            let arrival = self.mailbox.take_arrival(self.next);
            if !matches!(arrival, Arrival::Later) {
                self.look_at = None;
            }
            match arrival {
                Arrival::Next(message) => {
                    if !self.hand_over(self.next, message).await? {
                        return Ok(());
                    }
                }
                Arrival::InStore => self.read_ahead().await?,
                // What lies between was committed by another coordinator, of which a notification will tell; or here, a moment ago,
                // by a call that has not come round to say so.
                Arrival::Later => {
                    let look_at = *self.look_at.get_or_insert_with(|| Instant::now() + OVERTAKEN_MAX);
                    if Instant::now() < look_at {
                        return Ok(());
                    }
                    self.mailbox.set_look(true);
                }
                Arrival::None => return Ok(()),
            }
        }
    }

    /// Returns whether one message more may be unacknowledged.
    fn has_credit(&self) -> bool {
        self.mailbox.outstanding().messages < self.options.messages_max
    }

    /// Returns whether a message of this size may be unacknowledged besides the others. Alone, any may.
    fn has_room(&self, bytes: u64) -> bool {
        let outstanding = self.mailbox.outstanding();
        outstanding == Outstanding::default() || outstanding.bytes + bytes <= self.options.bytes_max
    }

    /// Reads what comes next in the store: up to as much as may be unacknowledged, or a single message, is kept at hand.
    async fn read_ahead(&mut self) -> Result<(), DeliverError> {
        self.mailbox.set_look(false);
        let Mailbox { namespace, member, .. } = &*self.mailbox;
        let range = Range::after(self.next - 1, AHEAD_MAX);
        let entries = self.coordinator.inbox_entries(namespace, member, range).await?;
        let messages = self.coordinator.messages(namespace, entries.iter().map(|(_, id)| id.clone()).collect()).await?;
        let mut may_be_more = entries.len() == AHEAD_MAX;
        let mut bytes = 0;
        for ((sequence, id), message) in entries.into_iter().zip(messages) {
            let Some(message) = message else {
                tracing::error!(?namespace, %member, id, "an inbox names a message that is not there");
                if self.ahead.is_empty() {
                    self.next = sequence + 1;
                }
                continue;
            };
            bytes += message.encoded_len() as u64;
            if bytes > self.options.bytes_max && !self.ahead.is_empty() {
                may_be_more = true;
                break;
            }
            self.ahead.push_back((sequence, message));
        }
        if may_be_more {
            self.mailbox.set_look(true);
        }
        Ok(())
    }

    /// Delivers a message, or gives it up. Returns false, to come back to it later, when credit does not last.
    async fn hand_over(&mut self, sequence: u64, message: Arc<v1::Message>) -> Result<bool, DeliverError> {
        let delivery_count = self.record.maybe_seen(sequence) + 1;
        let deliveries_max = self.coordinator.limits().deliveries_max;
        if let Some(why) = session::undeliverable(&self.record, sequence, &message, deliveries_max) {
            let leaving = Leaving {
                sequence,
                message_id: message.id.clone(),
                delivered_ms: 0,
                delivery_count: self.record.surely_seen(sequence),
            };
            let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
            self.coordinator.dead_letter(namespace, member, session_id, &leaving, &message, why).await?;
            self.next = sequence + 1;
            return Ok(true);
        }
        let bytes = message.encoded_len() as u64;
        if !self.has_room(bytes) {
            self.ahead.push_front((sequence, message));
            return Ok(false);
        }
        if sequence > self.cursor.reserved {
            self.reserve(sequence + RESERVED_AHEAD).await?;
        }
        let delivered_ms = self.coordinator.now_ms();
        let delivered = Delivered { sequence, bytes, delivered_ms, delivery_count };
        self.mailbox.deliver(&message.id, delivered);
        self.coordinator.metrics().delivered(delivery_count);
        let span = tracing::debug_span!("deliver", otel.kind = "producer", delivery_count);
        trace_parent::adopt(&span, &message.trace_parent);
        let message = Some(Arc::unwrap_or_clone(message));
        self.write(stream_response::Frame::Delivery(v1::Delivery { sequence, delivery_count, message }))
            .instrument(span)
            .await?;
        self.next = sequence + 1;
        self.cursor.delivered = sequence;
        self.unrecorded = true;
        Ok(true)
    }

    /// Finds out whether the session still holds.
    async fn check(&mut self) -> Result<(), DeliverError> {
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        let now = self.coordinator.session_record(namespace, member).await?;
        if now.is_none() && !self.coordinator.has_team(namespace).await? {
            return Err(End::closing(CloseReason::TeamDeleted, "The team was deleted.").into());
        }
        let now = match now {
            Some(now) if !is_lost(session_id, Some(&now)) => now,
            _ => return Err(End::begin_again().into()),
        };
        let superseded = || End::closing(CloseReason::Superseded, "A newer process or session holds this inbox.");
        Err(match &now.ended {
            _ if now.session_id != *session_id => superseded(),
            None => return Ok(()),
            Some(SessionEnd::ShutdownApproved(request_id)) => End::Closing {
                reason: CloseReason::ShutdownApproved,
                detail: "The shutdown was approved. End the process.",
                request_id: request_id.clone(),
            },
            Some(SessionEnd::Stopped) => {
                End::closing(CloseReason::MemberStopped, "This life of the member has ended. End the process.")
            }
            Some(SessionEnd::Replaced | SessionEnd::Closed) => superseded(),
        }
        .into())
    }

    /// Returns whether so little is left of what is reserved that more should be, before a delivery has to wait for it.
    fn is_near_reserved(&self) -> bool {
        self.cursor.reserved < self.cursor.delivered + RESERVED_AHEAD / 2
    }

    /// Begins to record how far the session has come, and to reserve further.
    fn start_recording(&mut self) -> Recording {
        self.unrecorded = false;
        let reserved = self.cursor.reserved.max(self.cursor.delivered + RESERVED_AHEAD);
        let cursor = CursorRecord { reserved, unacked: self.mailbox.unacked_places(), ..self.cursor.clone() };
        let (coordinator, mailbox) = (Arc::clone(&self.coordinator), Arc::clone(&self.mailbox));
        tokio::spawn(async move {
            coordinator.advance(&mailbox.namespace, &mailbox.member, &mailbox.session_id, &cursor).await?;
            Ok(reserved)
        })
    }

    /// Takes over what came of a recording. Only what is in the store counts as reserved.
    fn take_over(&mut self, recorded: Result<u64, Refusal>) {
        match recorded {
            Ok(reserved) => self.cursor.reserved = self.cursor.reserved.max(reserved),
            Err(refusal) => {
                self.unrecorded = true;
                // The store may have lost the session.
                if matches!(refusal.reason, Reason::SessionSuperseded | Reason::StoreUnavailable) {
                    self.mailbox.set_check();
                }
            }
        }
    }

    /// Reserves sequences before any of them is delivered.
    async fn reserve(&mut self, reserved: u64) -> Result<(), DeliverError> {
        if let Some(recording) = self.recording.take() {
            let recorded = recording.await;
            self.take_over(recorded.unwrap_or_else(|error| Err(interrupted(&error))));
        }
        let cursor = CursorRecord { reserved, unacked: self.mailbox.unacked_places(), ..self.cursor.clone() };
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        self.coordinator.advance(namespace, member, session_id, &cursor).await?;
        self.cursor.reserved = reserved;
        Ok(())
    }

    /// Returns whether the client has taken no frame for too long while some were waiting, however few they are: credit
    /// may end long before they are as many as can wait.
    fn has_taken_nothing(&mut self) -> bool {
        // One place is kept for the last frame.
        let waiting = FRAMES_MAX - self.frames.capacity();
        let count = self.taken.written - waiting;
        if waiting == 0 || count != self.taken.count {
            self.taken = ClientProgress { count, at: Instant::now(), ..self.taken };
        }
        self.taken.at.elapsed() >= self.pace.write_timeout
    }

    async fn write(&mut self, frame: stream_response::Frame) -> Result<(), End> {
        match timeout(self.pace.write_timeout, self.frames.send(say(frame))).await {
            Ok(Ok(())) => {
                self.taken.written += 1;
                Ok(())
            }
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }

    async fn finish(mut self, end: End, last: mpsc::OwnedPermit<Frame>) {
        match end {
            End::Gone => {}
            End::Slow => {
                let text = format!(
                    "Nothing was read from this stream for {:?}. Read faster, or ask for fewer messages at a time; what was \
                     not acknowledged will come again.",
                    self.pace.write_timeout
                );
                last.send(Box::new(Err(Refusal::new(Reason::SlowConsumer, text))));
            }
            End::Closing { reason, detail, request_id } => {
                let closing = v1::SessionClosing { reason: reason.into(), detail: detail.to_owned(), request_id };
                last.send(say(stream_response::Frame::Closing(closing)));
            }
        }
        self.cursor.unacked = self.mailbox.unacked_places();
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        if let Err(refusal) = self.coordinator.close_session(namespace, member, session_id, &self.cursor).await
            && refusal.reason != Reason::SessionSuperseded
        {
            tracing::debug!(?namespace, %member, %refusal, "a session could not be closed in the store");
        }
    }
}

fn interrupted(error: &tokio::task::JoinError) -> Refusal {
    Refusal::new(Reason::Internal, format!("A session could not record how far it has come: {error}."))
}

/// Why delivering stops.
enum DeliverError {
    /// For good.
    End(End),
    /// Until the store answers again.
    Store,
}

impl From<End> for DeliverError {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl From<Refusal> for DeliverError {
    fn from(refusal: Refusal) -> Self {
        if refusal.reason == Reason::SessionSuperseded {
            return End::closing(CloseReason::Superseded, "A newer process or session holds this inbox.").into();
        }
        tracing::debug!(%refusal, "a session waits for the store");
        Self::Store
    }
}
