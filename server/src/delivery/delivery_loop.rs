//! The loop of one session: deliver while credit lasts, then sleep until something happens.
//!
//! A session keeps a few numbers and the unacknowledged messages (by default up to 64 messages or 1 MiB), never a copy
//! of the inbox. Arrivals wait in a small window; beyond it they are read from the store. Frames go through a bounded
//! channel to the stream; a client that takes none for [`Pace::write_timeout`] is cut off, and its messages stay.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Refusal, trace_parent,
    v1::{self, CloseReason, stream_response},
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    cursor::Cursor,
    end::{DeliverError, End},
    frames::{Frame, FrameWriter},
    heartbeats::Heartbeats,
    pace::Pace,
};
use crate::{
    coordinator::Coordinator,
    domain::{
        Limits, dead_letters,
        inbox::Leaving,
        records::{SessionEnd, SessionRecord, is_lost},
        time::timestamp,
    },
    notify::{Arrival, Delivered, Mailbox, Outstanding},
    store::Range,
};

/// How long an arrival waits at most for those before it, until they are read from the store.
const OVERTAKEN_MAX: Duration = Duration::from_millis(5);

/// How many messages are read from the store at a time.
const AHEAD_MAX: usize = 128;

/// How much may be unacknowledged in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    messages_max: u64,
    bytes_max: u64,
}

impl Credit {
    /// Takes what the client asked for, within the bounds in force.
    pub(super) fn new(request: &v1::StreamRequest, limits: &Limits) -> Self {
        let within = |asked: u32, max: u64| if asked == 0 { max } else { u64::from(asked).min(max) };
        Self {
            messages_max: within(request.unacked_messages_max, limits.unacked_messages_max),
            bytes_max: within(request.unacked_bytes_max, limits.unacked_bytes_max),
        }
    }
}

/// An inbox with a session that was opened on it.
#[derive(Debug)]
pub(super) struct OpenInbox {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) session: SessionRecord,
    /// The session delivers nothing above this sequence before it has reserved more.
    pub(super) reserved: u64,
    pub(super) credit: Credit,
}

/// A session at work.
pub(super) struct DeliveryLoop {
    coordinator: Arc<Coordinator>,
    mailbox: Arc<Mailbox>,
    session: SessionRecord,
    credit: Credit,
    pace: Pace,
    writer: FrameWriter,
    cursor: Cursor,
    /// The lowest sequence that was not handled yet.
    next: u64,
    /// The messages that come next, if they were read from the store.
    ahead: VecDeque<(u64, Arc<v1::Message>)>,
    /// When to read the messages that an arrival has overtaken from the store.
    look_at: Option<Instant>,
}

impl DeliveryLoop {
    pub(super) fn new(
        coordinator: Arc<Coordinator>,
        inbox: OpenInbox,
        pace: Pace,
        frames: mpsc::Sender<Frame>,
    ) -> Self {
        let OpenInbox { mailbox, session, reserved, credit } = inbox;
        let cursor = Cursor::new(Arc::clone(&coordinator), Arc::clone(&mailbox), &session, reserved);
        Self {
            coordinator,
            mailbox,
            session,
            credit,
            pace,
            writer: FrameWriter::new(frames, pace.write_timeout),
            cursor,
            next: 1,
            ahead: VecDeque::new(),
            look_at: None,
        }
    }

    /// Writes the first frame.
    pub(super) async fn announce(&mut self, opened: stream_response::Frame) -> Result<(), End> {
        self.writer.write(opened).await
    }

    /// Records how far the session came, and closes it in the store.
    pub(super) async fn close(self) -> Result<(), Refusal> {
        self.cursor.close().await
    }

    /// Delivers until the session ends.
    pub(super) async fn run(&mut self, heartbeats: &Heartbeats, draining: &CancellationToken) -> End {
        let now = Instant::now();
        let mut heartbeat = interval_at(now + self.pace.heartbeat_interval, self.pace.heartbeat_interval);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let age = sleep(self.pace.stream_age.mul_f64(rand::random_range(0.9..1.1)));
        tokio::pin!(age);
        loop {
            let delivered = self.deliver().await;
            self.mailbox.set_seen_next(self.next);
            let retry_at = match delivered {
                Ok(()) => None,
                Err(DeliverError::End(end)) => return end,
                Err(DeliverError::Store) => {
                    // Read again what was taken from the queue and not delivered.
                    self.ahead.clear();
                    self.mailbox.set_look(true);
                    Some(Instant::now() + Duration::from_millis(rand::random_range(200..1_000)))
                }
            };
            self.cursor.record_if_due();
            tokio::select! {
                biased;
                () = draining.cancelled() => {
                    return End::closing(CloseReason::Draining, "This coordinator is shutting down. Reconnect.");
                }
                () = self.writer.closed() => return End::Gone,
                () = self.cursor.progress() => {}
                () = self.mailbox.woken() => {}
                () = tokio::time::sleep_until(self.look_at.unwrap_or(now)), if self.look_at.is_some() => {}
                _ = heartbeat.tick() => {
                    heartbeats.record(&self.mailbox.namespace, &self.mailbox.member);
                    if self.writer.is_stalled() {
                        return End::Slow;
                    }
                    let server_time = Some(timestamp(self.coordinator.now_ms()));
                    if let Err(end) = self.writer.write(stream_response::Frame::Heartbeat(v1::Heartbeat { server_time })).await {
                        return end;
                    }
                }
                () = &mut age => {
                    return End::closing(CloseReason::Draining, "The stream has reached its maximum age. Reconnect.");
                }
                () = tokio::time::sleep_until(retry_at.unwrap_or(now)), if retry_at.is_some() => {
                    self.mailbox.set_check();
                }
            }
        }
    }

    /// Delivers the available messages, as far as credit lasts.
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
                // The entries between were committed by another coordinator, whose notification is on its way; or here
                // a moment ago, by a call that has not yet passed them on.
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

    /// Returns whether one more message may be unacknowledged.
    fn has_credit(&self) -> bool {
        self.mailbox.outstanding().messages < self.credit.messages_max
    }

    /// Returns whether a message of this size may be unacknowledged besides the others. A single message may have any
    /// size.
    fn has_room(&self, bytes: u64) -> bool {
        let outstanding = self.mailbox.outstanding();
        outstanding == Outstanding::default() || outstanding.bytes + bytes <= self.credit.bytes_max
    }

    /// Reads the next messages from the store: as many as may be unacknowledged, but at least one.
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
                tracing::error!(?namespace, %member, id, "an inbox names a message that does not exist");
                if self.ahead.is_empty() {
                    self.next = sequence + 1;
                }
                continue;
            };
            bytes += message.encoded_len() as u64;
            if bytes > self.credit.bytes_max && !self.ahead.is_empty() {
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

    /// Delivers a message, or moves it to the dead letters. Returns false if credit does not suffice; the message stays
    /// first in the queue.
    async fn hand_over(&mut self, sequence: u64, message: Arc<v1::Message>) -> Result<bool, DeliverError> {
        let delivery_count = self.session.maybe_seen(sequence) + 1;
        let deliveries_max = self.coordinator.limits().deliveries_max;
        if let Some(why) = dead_letters::undeliverable(&self.session, sequence, &message, deliveries_max) {
            let leaving = Leaving {
                sequence,
                message_id: message.id.clone(),
                delivered_ms: 0,
                delivery_count: self.session.surely_seen(sequence),
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
        self.cursor.reserve(sequence).await?;
        let delivered_ms = self.coordinator.now_ms();
        let delivered = Delivered { sequence, bytes, delivered_ms, delivery_count };
        self.mailbox.deliver(&message.id, delivered);
        self.coordinator.metrics().delivered(delivery_count);
        let span = tracing::debug_span!("deliver", otel.kind = "producer", delivery_count);
        trace_parent::adopt(&span, &message.trace_parent);
        let message = Some(Arc::unwrap_or_clone(message));
        self.writer
            .write(stream_response::Frame::Delivery(v1::Delivery { sequence, delivery_count, message }))
            .instrument(span)
            .await?;
        self.next = sequence + 1;
        self.cursor.moved_to(sequence);
        Ok(true)
    }

    /// Checks whether the session still holds the inbox.
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
        Err(match &now.ended {
            _ if now.session_id != *session_id => End::superseded(),
            None => return Ok(()),
            Some(SessionEnd::ShutdownApproved(request_id)) => End::shutdown_approved(request_id.clone()),
            Some(SessionEnd::Stopped) => {
                End::closing(CloseReason::MemberStopped, "This life of the member has ended. End the process.")
            }
            Some(SessionEnd::Replaced | SessionEnd::Closed) => End::superseded(),
        }
        .into())
    }
}
