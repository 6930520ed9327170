//! The loop of one session: deliver while credit lasts, then sleep until something happens.
//!
//! Messages are delivered in the order of the inbox, with one exception: when credit runs out, a pending shutdown
//! request overtakes what waits before it. A member that acknowledges nothing must still learn that it is asked to
//! exit.
//!
//! A session keeps a few numbers and the unacknowledged messages (by default up to 64 messages or 1 MiB), never a copy
//! of the inbox. Arrivals wait in a small window; beyond it they are read from the store. Frames go through a bounded
//! channel to the stream; a client that takes none for [`Pace::write_timeout`] is cut off, and its messages stay.
//!
//! The futures of calls to the store are boxed: a session is mostly idle, and would otherwise keep room for the largest.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use prost::Message as _;
use teamwire_proto::{
    Refusal,
    id::RequestId,
    trace_parent,
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
    coordinator::{Coordinator, batch::Batch},
    domain::{
        Limits, dead_letters,
        inbox::{Leaving, id_of},
        records::{SessionEnd, SessionRecord, is_lost},
        time::timestamp,
    },
    notify::{Arrival, Delivered, Mailbox, Outstanding, Work},
    store::Range,
};

/// How long an arrival waits for the entries before it. Then the session reads them from the store.
const EARLY_ARRIVAL_WAIT: Duration = Duration::from_millis(5);

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

/// An open session.
pub(super) struct DeliveryLoop {
    coordinator: Arc<Coordinator>,
    mailbox: Arc<Mailbox>,
    session: SessionRecord,
    credit: Credit,
    pace: Pace,
    writer: FrameWriter,
    cursor: Cursor,
    /// The lowest sequence that the session has not handled.
    next: u64,
    /// The next messages, if the session has read them from the store.
    ahead: VecDeque<(u64, Arc<v1::Message>)>,
    /// When to stop waiting for the entries before an early arrival, and read them from the store.
    look_at: Option<Instant>,
    /// A shutdown request may be pending that the session has not looked for.
    may_be_asked: bool,
    /// The id of the latest pending shutdown request that the session has looked for.
    asked_by: Option<RequestId>,
    /// The calls that read the member's transcript, of which the client knows.
    questions: Vec<String>,
}

impl DeliveryLoop {
    pub(super) fn new(
        coordinator: Arc<Coordinator>,
        inbox: Box<OpenInbox>,
        pace: Pace,
        frames: mpsc::Sender<Frame>,
    ) -> Self {
        let OpenInbox { mailbox, session, reserved, credit } = *inbox;
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
            may_be_asked: true,
            asked_by: None,
            questions: Vec::new(),
        }
    }

    /// Writes the first frame.
    pub(super) async fn announce(&mut self, opened: Frame) -> Result<(), End> {
        self.writer.write_packed(opened).await
    }

    /// Records the session's progress, and closes it in the store.
    pub(super) async fn close(self) -> Result<(), Refusal> {
        self.cursor.close().await
    }

    /// Delivers until the session ends.
    pub(super) async fn run(&mut self, heartbeats: &Heartbeats, draining: &CancellationToken) -> End {
        let now = Instant::now();
        let mut heartbeat = interval_at(self.pace.first_heartbeat(now), self.pace.heartbeat_interval);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Skip);
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
                    self.mailbox.note(Work::Reread);
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
                    self.mailbox.note(Work::Verify);
                }
            }
        }
    }

    /// Delivers the available messages, as far as credit lasts, and beyond it a pending shutdown request.
    async fn deliver(&mut self) -> Result<(), DeliverError> {
        if self.mailbox.must(Work::Restart) {
            return Err(Box::pin(self.team_gone()).await?.unwrap_or_else(End::restart).into());
        }
        if self.mailbox.take(Work::Verify) {
            Box::pin(self.check()).await?;
            self.may_be_asked = true;
        }
        if self.mailbox.take(Work::Recount) {
            Box::pin(self.recount()).await?;
        }
        if self.mailbox.take(Work::Questions) {
            Box::pin(self.ask_runner()).await?;
        }
        if !self.deliver_in_order().await? && self.may_be_asked {
            Box::pin(self.overtake()).await?;
            self.may_be_asked = false;
        }
        Ok(())
    }

    /// Delivers the available messages. Returns false if credit does not suffice for all of them.
    async fn deliver_in_order(&mut self) -> Result<bool, DeliverError> {
        loop {
            if !self.has_credit() {
                self.look_at = None;
                return Ok(false);
            }
            if self.mailbox.take_holes() && !self.ahead.is_empty() {
                self.ahead.clear();
                self.mailbox.note(Work::Reread);
            }
            if let Some((sequence, message)) = self.ahead.pop_front() {
                if !self.hand_over(sequence, message).await? {
                    return Ok(false);
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
                        return Ok(false);
                    }
                }
                Arrival::InStore => Box::pin(self.read_ahead()).await?,
                // The entries between were committed by another coordinator, whose notification is on its way; or here
                // a moment ago, by a call that has not yet passed them on.
                Arrival::Later => {
                    let look_at = *self.look_at.get_or_insert_with(|| Instant::now() + EARLY_ARRIVAL_WAIT);
                    if Instant::now() < look_at {
                        return Ok(true);
                    }
                    self.mailbox.note(Work::Reread);
                }
                Arrival::None => return Ok(true),
            }
        }
    }

    /// Delivers the member's pending shutdown request out of its turn, without regard to credit, if the session has not
    /// delivered it. Looks for each request once: its message and the request itself were committed together.
    async fn overtake(&mut self) -> Result<(), DeliverError> {
        let Mailbox { namespace, member, .. } = &*self.mailbox;
        let pending = self.coordinator.pending_shutdown(namespace, member, self.session.incarnation).await?;
        let Some(request_id) = pending.filter(|id| self.asked_by.as_ref() != Some(id)) else { return Ok(()) };
        let found = self.coordinator.message_of_request(namespace, member, &request_id, self.next).await?;
        if let Some((sequence, message)) = found
            && !self.cursor.has_delivered(sequence)
            && !self.dead_letter(sequence, &message).await?
        {
            let bytes = message.encoded_len() as u64;
            self.write(sequence, bytes, message).await?;
            self.cursor.overtook(sequence);
        }
        self.asked_by = Some(request_id);
        Ok(())
    }

    /// Passes on the calls that ask the member's runner.
    async fn ask_runner(&mut self) -> Result<(), DeliverError> {
        let Mailbox { namespace, member, .. } = &*self.mailbox;
        let queries = self.coordinator.runner_queries(namespace, member, self.session.incarnation).await?;
        for query in &queries {
            if !self.questions.contains(&query.query_id) {
                self.writer.write(stream_response::Frame::Query(v1::RunnerQuery::clone(query))).await?;
            }
        }
        self.questions = queries.iter().map(|query| query.query_id.clone()).collect();
        Ok(())
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
        self.mailbox.take(Work::Reread);
        let Mailbox { namespace, member, .. } = &*self.mailbox;
        let range = Range::after(self.next - 1, AHEAD_MAX);
        let entries = self.coordinator.inbox_entries(namespace, member, range).await?;
        let mut may_be_more = entries.len() == AHEAD_MAX;
        let (mut rest, mut batch, mut bytes) = (&entries[..], Batch::new(), 0);
        'read: while !rest.is_empty() {
            let (next, others) = rest.split_at(batch.size().min(rest.len()));
            rest = others;
            let messages = self.coordinator.messages(namespace, next.iter().map(|(_, id)| *id).collect()).await?;
            batch.had(next.len(), messages.iter().flatten().map(|message| message.encoded_len()).sum());
            for ((sequence, id), message) in next.iter().zip(messages) {
                let Some(message) = message else {
                    tracing::error!(?namespace, %member, %id, "an inbox names a message that does not exist");
                    if self.ahead.is_empty() {
                        self.next = sequence + 1;
                    }
                    continue;
                };
                bytes += message.encoded_len() as u64;
                if bytes > self.credit.bytes_max && !self.ahead.is_empty() {
                    may_be_more = true;
                    break 'read;
                }
                self.ahead.push_back((*sequence, message));
            }
        }
        if may_be_more {
            self.mailbox.note(Work::Reread);
        }
        Ok(())
    }

    /// Delivers the next message or moves it to the dead letters. Passes over one that was already delivered out of
    /// turn. Returns false if credit does not suffice; the message stays first in the queue.
    async fn hand_over(&mut self, sequence: u64, message: Arc<v1::Message>) -> Result<bool, DeliverError> {
        if !self.cursor.has_delivered(sequence) {
            if self.dead_letter(sequence, &message).await? {
                self.next = sequence + 1;
                return Ok(true);
            }
            let bytes = message.encoded_len() as u64;
            if !self.has_room(bytes) {
                self.ahead.push_front((sequence, message));
                return Ok(false);
            }
            self.write(sequence, bytes, message).await?;
        }
        self.next = sequence + 1;
        self.cursor.moved_to(sequence);
        Ok(true)
    }

    /// Moves a message to the dead letters if it must not be delivered. Returns whether it was moved.
    async fn dead_letter(&self, sequence: u64, message: &v1::Message) -> Result<bool, DeliverError> {
        let deliveries_max = self.coordinator.limits().deliveries_max;
        let Some(why) = dead_letters::undeliverable(&self.session, sequence, message, deliveries_max) else {
            return Ok(false);
        };
        let leaving = Leaving {
            sequence,
            message_id: id_of(message)?,
            delivered_ms: None,
            delivery_count: self.session.surely_seen(sequence),
        };
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        Box::pin(self.coordinator.dead_letter(namespace, member, session_id, &leaving, message, why)).await?;
        Ok(true)
    }

    /// Writes a message of this size to the stream. It uses up credit from now on.
    async fn write(&mut self, sequence: u64, bytes: u64, message: Arc<v1::Message>) -> Result<(), DeliverError> {
        self.cursor.reserve(sequence).await?;
        let delivery_count = self.session.maybe_seen(sequence) + 1;
        let delivered_ms = self.coordinator.now_ms();
        self.mailbox.deliver(id_of(&message)?, Delivered { sequence, bytes, delivered_ms, delivery_count });
        self.coordinator.metrics().delivered(delivery_count);
        let span = tracing::debug_span!("deliver", otel.kind = "producer", delivery_count);
        trace_parent::adopt(&span, &message.trace_parent);
        let message = Some(Arc::unwrap_or_clone(message));
        let delivery = v1::Delivery { sequence, delivery_count, message };
        self.writer.write(stream_response::Frame::Delivery(delivery)).instrument(span).await?;
        Ok(())
    }

    /// Frees the credit of messages that were acknowledged through another coordinator.
    async fn recount(&self) -> Result<(), DeliverError> {
        // Read this first: a message that is delivered meanwhile must not look acknowledged.
        let mut gone: HashSet<u64> = self.mailbox.unacked_places().into_iter().map(|(sequence, _)| sequence).collect();
        let (Some(first), Some(last)) = (gone.iter().min().copied(), gone.iter().max().copied()) else { return Ok(()) };
        let range = Range { first, last, limit: usize::MAX, newest_first: false };
        let Mailbox { namespace, member, .. } = &*self.mailbox;
        for (sequence, _) in self.coordinator.inbox_entries(namespace, member, range).await? {
            gone.remove(&sequence);
        }
        self.mailbox.forget(&gone);
        Ok(())
    }

    /// Returns why the session ends if its team is no longer there.
    async fn team_gone(&self) -> Result<Option<End>, Refusal> {
        let namespace = &self.mailbox.namespace;
        if self.coordinator.has_team(namespace).await? {
            return Ok(None);
        }
        Ok(Some(End::team_gone(self.coordinator.has_lost(namespace).await?)))
    }

    /// Checks whether the session still holds the inbox.
    async fn check(&mut self) -> Result<(), DeliverError> {
        let Mailbox { namespace, member, session_id, .. } = &*self.mailbox;
        let now = self.coordinator.session_record(namespace, member).await?;
        if now.is_none()
            && let Some(end) = self.team_gone().await?
        {
            return Err(end.into());
        }
        let now = match now {
            Some(now) if !is_lost(session_id, Some(&now)) => now,
            _ => return Err(End::restart().into()),
        };
        Err(match &now.ended {
            _ if now.session_id != *session_id => End::superseded(),
            None => return Ok(()),
            Some(SessionEnd::ShutdownApproved(request_id)) => End::shutdown_approved(Some(request_id.clone())),
            Some(SessionEnd::Left) => End::shutdown_approved(None),
            Some(SessionEnd::Stopped) => match self.coordinator.revoked_member(namespace, member).await? {
                Some(refusal) => End::Refused(refusal),
                None => End::closing(CloseReason::MemberStopped, "This life of the member has ended. End the process."),
            },
            Some(SessionEnd::Replaced | SessionEnd::Closed) => End::superseded(),
        }
        .into())
    }
}
