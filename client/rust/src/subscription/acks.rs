//! Acknowledgements: accepted at once, and sent in batches until the coordinator confirms them.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use teamwire_proto::{Reason, v1};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout_at},
};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{
    Closed,
    traces::Traces,
    window::{Seen, Window},
};
use crate::{Client, Error, Retry, client::Session};

/// How long after the beginning of one call the next one begins, unless it is [urgent](State::is_urgent). All clients wait equally
/// long.
const PAUSE: Duration = Duration::from_millis(20);

/// How many messages of a session may be unacknowledged by default: the default of a coordinator.
const UNACKED_MESSAGES_MAX: usize = 64;

/// The most ids in one call: the protocol's limit.
const IDS_IN_A_CALL_MAX: usize = 1_000;

/// The most messages that are remembered, and the most acknowledgements that wait.
const WINDOW_IDS_MAX: usize = 4_096;

/// Acknowledges the messages of a subscription. Cheap to clone.
///
/// After a pause, an acknowledgement is sent at once. Those that follow within 20 ms share a call, which begins 20 ms after the
/// one before. It begins at once if a flush waits, if half of the messages that a session may leave unacknowledged wait, or
/// if the subscription has ended. If the process crashes, the messages whose acknowledgements were not sent are delivered again.
///
/// At most 4,096 acknowledgements wait. Beyond that, the oldest is dropped, and the coordinator delivers its message again in a
/// later session. A session has at most 64 unacknowledged messages, so this happens only to a caller that acknowledges messages
/// it was never given.
#[derive(Clone, Debug)]
pub struct Acks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Notified when there is something to send, and when that has become urgent.
    changed: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct State {
    window: Window,
    waiting: VecDeque<String>,
    traces: Traces,
    /// From how many waiting acknowledgements on they are urgent.
    urgent_from: usize,
    /// How many flushes wait.
    flushes: usize,
    /// Set when the subscription has ended.
    is_ending: bool,
}

/// How many acknowledgements are still to be confirmed.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Accepted and not yet confirmed.
    outstanding: usize,
    /// Set when nothing more will be sent.
    closed: Option<Closed>,
}

impl State {
    /// Returns whether to send what waits at once.
    fn is_urgent(&self) -> bool {
        self.flushes > 0 || self.is_ending || self.waiting.len() >= self.urgent_from
    }
}

/// A flush that waits. Until it is dropped, acknowledgements are urgent.
struct Flush<'a>(&'a Acks);

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        self.0.state().flushes -= 1;
    }
}

impl Acks {
    /// `unacked_messages_max`: as in the request that opens the sessions. Zero: the default.
    pub(super) fn new(unacked_messages_max: u32) -> Self {
        let unacked_max = if unacked_messages_max == 0 { UNACKED_MESSAGES_MAX } else { unacked_messages_max as usize };
        let state = State {
            window: Window::new(WINDOW_IDS_MAX),
            waiting: VecDeque::new(),
            traces: Traces::default(),
            urgent_from: unacked_max.div_ceil(2).min(IDS_IN_A_CALL_MAX),
            flushes: 0,
            is_ending: false,
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                changed: Notify::new(),
                progress: watch::Sender::default(),
            }),
        }
    }

    /// Accepts an acknowledgement and returns at once. Ignores what is not the id of a message.
    pub fn ack(&self, message_id: &str) {
        // The coordinator refuses a whole batch for one malformed id.
        if Uuid::try_parse(message_id).is_err() {
            tracing::warn!(message_id, "not acknowledged: not a message's id");
            return;
        }
        let mut state = self.state();
        state.window.ack(message_id);
        self.add(&mut state, message_id);
    }

    /// Waits until every acknowledgement so far is confirmed.
    pub async fn flush(&self) -> Result<(), Error> {
        let _urgent = self.begin_flush();
        let mut progress = self.inner.progress.subscribe();
        match progress.wait_for(|now| now.outstanding == 0 || now.closed.is_some()).await {
            Ok(now) if now.outstanding == 0 => Ok(()),
            Ok(now) => Err(Error::Closed(now.closed.clone().unwrap_or(Closed::Dropped))),
            Err(_) => Err(Error::Closed(Closed::Dropped)),
        }
    }

    /// Records that a message has arrived. Returns whether to hand it to the application.
    pub(super) fn is_new(&self, message: &v1::Message) -> bool {
        let (message_id, mut state) = (&message.id, self.state());
        match state.window.deliver(message_id) {
            Seen::Never => {
                state.traces.begin(message, WINDOW_IDS_MAX);
                true
            }
            Seen::Handed => false,
            Seen::Acked => {
                self.add(&mut state, message_id);
                false
            }
        }
    }

    /// Records that the subscription has ended: what waits is urgent from now on.
    pub(super) fn hurry(&self) {
        self.state().is_ending = true;
        self.inner.changed.notify_one();
    }

    /// Records that nothing more can be sent. Only the first reason counts.
    pub(super) fn close(&self, closed: Closed) {
        self.inner.progress.send_if_modified(|now| now.closed.is_none() && now.closed.replace(closed).is_none());
    }

    /// Sends acknowledgements until the coordinator refuses them for good.
    pub(super) async fn run(self, client: Client) {
        let sessions = client.session().subscribe();
        let client = &client.with_retry(Retry::none());
        self.send(sessions, |request| async move { client.ack(request).await.map(drop) }).await;
    }

    /// Sends acknowledgements with `call`, in the latest of these sessions.
    async fn send<F>(&self, mut sessions: watch::Receiver<Session>, call: impl Fn(v1::AckRequest) -> F)
    where
        F: Future<Output = Result<(), Error>>,
    {
        let mut delays = Retry::default().delays();
        let mut batch: Vec<String> = Vec::new();
        let mut due = Instant::now();
        loop {
            // A call that failed has had its own delay.
            if batch.is_empty() {
                self.until(|state| !state.waiting.is_empty()).await;
                let _ = timeout_at(due, self.until(State::is_urgent)).await;
            }
            self.fill(&mut batch);
            let session_id = match sessions.wait_for(|session| !session.id.is_empty() && !session.is_reopening).await {
                Ok(session) => session.id.clone(),
                Err(_) => return,
            };
            let request = v1::AckRequest { session_id: session_id.clone(), message_ids: batch.clone() };
            let span = self.state().traces.ack(&batch);
            due = Instant::now() + PAUSE;
            match call(request).instrument(span).await {
                Ok(()) => {
                    delays.reset();
                    self.state().traces.end(&batch);
                    batch.clear();
                    self.settle();
                }
                // The subscription has reconnected in the meantime.
                Err(_) if sessions.borrow().id != session_id => {}
                Err(error) if !error.is_forbidden() && error.reason() != Some(Reason::TeamNotFound) => {
                    tracing::debug!(%error, "retrying acknowledgements");
                    sleep(delays.next()).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "acknowledgements are dropped");
                    return self.close(closed_by(error));
                }
            }
        }
    }

    /// Waits until a condition holds that [`Inner::changed`] announces.
    async fn until(&self, holds: impl Fn(&State) -> bool) {
        while !holds(&self.state()) {
            self.inner.changed.notified().await;
        }
    }

    fn fill(&self, batch: &mut Vec<String>) {
        let mut state = self.state();
        let room = IDS_IN_A_CALL_MAX.saturating_sub(batch.len()).min(state.waiting.len());
        batch.extend(state.waiting.drain(..room));
        self.report(&state, batch.len());
    }

    fn begin_flush(&self) -> Flush<'_> {
        self.state().flushes += 1;
        self.inner.changed.notify_one();
        Flush(self)
    }

    fn settle(&self) {
        self.report(&self.state(), 0);
    }

    fn report(&self, state: &State, in_call: usize) {
        let outstanding = state.waiting.len() + in_call;
        self.inner.progress.send_if_modified(|now| mem::replace(&mut now.outstanding, outstanding) != outstanding);
    }

    fn add(&self, state: &mut State, message_id: &str) {
        if state.waiting.iter().any(|waiting| waiting == message_id) {
            return;
        }
        if state.waiting.len() >= WINDOW_IDS_MAX {
            state.waiting.pop_front();
        } else {
            self.inner.progress.send_modify(|now| now.outstanding += 1);
        }
        state.waiting.push_back(message_id.to_owned());
        // Otherwise the sender does not wait for this one: it waits for its time, or for more.
        if state.waiting.len() == 1 || state.is_urgent() {
            self.inner.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }
}

/// Returns why the coordinator refuses acknowledgements for good.
fn closed_by(error: Error) -> Closed {
    match error.reason() {
        Some(Reason::SessionSuperseded) => Closed::Superseded,
        Some(Reason::MemberStopped) => Closed::MemberStopped,
        _ => Closed::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::{sync::mpsc, time::sleep_until};

    use super::*;

    const SESSION: &str = "session-1";

    /// The acknowledgements of a subscription, and their sender. Time passes only while everything waits.
    struct World {
        acks: Acks,
        began: Instant,
        /// When each call began, in milliseconds, and how many messages it acknowledges.
        calls: mpsc::Receiver<(u128, usize)>,
        /// Each call waits for one of these: whether it succeeds.
        answers: mpsc::Sender<bool>,
        session: watch::Sender<Session>,
    }

    impl World {
        fn new(unacked_messages_max: u32) -> Self {
            let (acks, began) = (Acks::new(unacked_messages_max), Instant::now());
            let (session, sessions) = watch::channel(Session { id: SESSION.to_owned(), is_reopening: false });
            let (made, calls) = mpsc::channel(8);
            let (answers, answer) = mpsc::channel(8);
            let answer = Arc::new(tokio::sync::Mutex::new(answer));
            let call = move |request: v1::AckRequest| {
                let (made, answer) = (made.clone(), answer.clone());
                async move {
                    assert_eq!(request.session_id, SESSION);
                    let _ = made.try_send((began.elapsed().as_millis(), request.message_ids.len()));
                    let is_ok = answer.lock().await.recv().await == Some(true);
                    if is_ok { Ok(()) } else { Err(Error::Closed(Closed::Dropped)) }
                }
            };
            let sender = acks.clone();
            tokio::spawn(async move { sender.send(sessions, call).await });
            Self { acks, began, calls, answers, session }
        }

        async fn at(&self, ms: u64) {
            sleep_until(self.began + Duration::from_millis(ms)).await;
        }

        fn ack(&self, messages: usize) {
            for _ in 0..messages {
                self.acks.ack(&Uuid::new_v4().to_string());
            }
        }

        /// Waits until a call begins, and answers it.
        async fn call(&mut self) -> (u128, usize) {
            let call = self.calls.recv().await.expect("a call");
            self.answer(true);
            call
        }

        fn answer(&self, is_ok: bool) {
            self.answers.try_send(is_ok).expect("the sender");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_an_acknowledgement_is_sent_at_once() {
        let mut world = World::new(0);
        for ms in [0, 20, 45] {
            world.at(ms).await;
            world.ack(1);
            assert_eq!(world.call().await, (u128::from(ms), 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgements_in_quick_succession_share_calls_20_ms_apart() {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.calls.recv().await, Some((0, 1)));
        world.at(3).await;
        world.ack(2);
        world.at(5).await;
        world.answer(true);
        world.at(10).await;
        world.ack(1);
        assert_eq!(world.call().await, (20, 3), "from the beginning of the call before, not from its end");
        world.at(30).await;
        world.ack(1);
        assert_eq!(world.call().await, (40, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_long_delays_nothing() {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.calls.recv().await, Some((0, 1)));
        world.ack(2);
        world.at(70).await;
        world.answer(true);
        assert_eq!(world.call().await, (70, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_waits_for_calls_only() {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.call().await, (0, 1));
        world.at(5).await;
        world.ack(2);
        let acks = world.acks.clone();
        let flush = tokio::spawn(async move { acks.flush().await });
        assert_eq!(world.call().await, (5, 2));
        flush.await.expect("no panic").expect("confirmed");
        assert_eq!(world.began.elapsed().as_millis(), 5);
        world.ack(1);
        assert_eq!(world.call().await, (25, 1), "nothing is urgent after the flush");
        world.ack(1);
        assert!(futures::poll!(pin!(world.acks.flush())).is_pending());
        assert_eq!(world.call().await, (45, 1), "nor after one that was dropped");
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_the_session_s_unacknowledged_messages_are_sent_at_once() {
        for (unacked_messages_max, half) in [(0, 32), (64, 32), (5, 3), (2, 1), (1, 1)] {
            let mut world = World::new(unacked_messages_max);
            world.ack(1);
            assert_eq!(world.call().await, (0, 1));
            world.at(5).await;
            world.ack(half - 1);
            world.at(7).await;
            world.ack(1);
            assert_eq!(world.call().await, (7, half), "{unacked_messages_max}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_once_the_subscription_has_ended() {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.call().await, (0, 1));
        world.at(5).await;
        world.ack(2);
        world.acks.hurry();
        assert_eq!(world.call().await, (5, 2));
        world.at(6).await;
        world.ack(1);
        assert_eq!(world.call().await, (6, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_failed_is_repeated_with_what_waits() {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.calls.recv().await, Some((0, 1)));
        world.ack(2);
        world.answer(false);
        let (repeated, messages) = world.call().await;
        assert_eq!(messages, 3);
        world.ack(1);
        assert_eq!(world.call().await, (repeated + 20, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgements_wait_for_the_session_that_is_opening() {
        let mut world = World::new(0);
        world.session.send_modify(|session| session.is_reopening = true);
        world.ack(3);
        world.at(50).await;
        world.session.send_modify(|session| session.is_reopening = false);
        assert_eq!(world.call().await, (50, 3));
    }
}
