//! Acknowledgements: accepted at once, and sent in batches until the coordinator confirms them.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use futures::future::select_all;
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

/// The shortest time between the beginnings of two calls, unless the second one is [urgent](AckQueue::is_urgent). All
/// clients wait equally long.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest such time.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How many times as long as the last call took. Calls take longer when the coordinator is busy, and fewer calls help
/// it then.
const PAUSE_IN_CALLS: u32 = 8;

/// How many messages of a session may be unacknowledged by default: the default of a coordinator.
const UNACKED_MESSAGES_MAX: usize = 64;

/// The most calls that are under way. One alone would leave half of the session's window idle until it has returned.
/// The second one only begins for what is [urgent](AckQueue::is_urgent).
const CALLS_MAX: usize = 2;

/// The most ids in one call: the protocol's limit.
const IDS_IN_A_CALL_MAX: usize = 1_000;

/// The most messages that are remembered, and the most acknowledgements that wait.
const WINDOW_IDS_MAX: usize = 4_096;

/// Acknowledges the messages of a subscription. Cheap to clone.
///
/// After a pause, an acknowledgement is sent at once. Those that follow within 20 ms share a call. If the coordinator
/// is busy, they share a call for eight times as long as the last call took, up to 100 ms. A call begins at once if a
/// flush waits, if half of the messages that a session may leave unacknowledged wait, if all of them wait or are in a
/// call, or if the subscription has ended. If the process crashes, the messages whose acknowledgements were not sent
/// are delivered again.
///
/// At most 4,096 acknowledgements wait. Beyond that, the oldest is dropped, and the coordinator delivers its message
/// again in a later session. A session has at most 64 unacknowledged messages, so this happens only to a caller that
/// acknowledges messages it was never given.
#[derive(Clone, Debug)]
pub struct Acks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<AckQueue>,
    /// Announces when there is something to send, and when that has become urgent.
    changed: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct AckQueue {
    window: Window,
    waiting: VecDeque<String>,
    /// How many acknowledgements calls carry that are under way or to be repeated.
    in_calls: usize,
    /// When the next call begins that is not urgent.
    due: Instant,
    traces: Traces,
    /// How many messages a session may leave unacknowledged.
    unacked_max: usize,
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

impl AckQueue {
    /// Returns whether to send what waits at once.
    fn is_urgent(&self) -> bool {
        let urgent_from = self.unacked_max.div_ceil(2).min(IDS_IN_A_CALL_MAX);
        // Then the coordinator delivers nothing until one of the calls has returned.
        let is_window_full = self.waiting.len() + self.in_calls >= self.unacked_max;
        !self.waiting.is_empty()
            && (self.flushes > 0 || self.is_ending || self.waiting.len() >= urgent_from || is_window_full)
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
    /// `unacked_messages_max`: as in the request that opens the sessions. Zero means the default.
    pub(super) fn new(unacked_messages_max: u32) -> Self {
        let unacked_max = if unacked_messages_max == 0 { UNACKED_MESSAGES_MAX } else { unacked_messages_max as usize };
        let state = AckQueue {
            window: Window::new(WINDOW_IDS_MAX),
            waiting: VecDeque::new(),
            in_calls: 0,
            due: Instant::now(),
            traces: Traces::default(),
            unacked_max,
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
        self.inner.changed.notify_waiters();
    }

    /// Records that nothing more can be sent. Only the first reason counts.
    pub(super) fn close(&self, closed: Closed) {
        self.inner.progress.send_if_modified(|now| now.closed.is_none() && now.closed.replace(closed).is_none());
    }

    /// Sends acknowledgements until the coordinator refuses them for good.
    pub(super) async fn run(self, client: Client) {
        let sessions = client.session().subscribe();
        let client = &client.with_retry(Retry::none());
        self.send(&sessions, &|request| async move { client.ack(request).await.map(drop) }).await;
    }

    /// Sends acknowledgements with `call`, in the latest of these sessions.
    async fn send<F>(&self, sessions: &watch::Receiver<Session>, call: &impl Fn(v1::AckRequest) -> F)
    where
        F: Future<Output = Result<(), Error>>,
    {
        let senders = (0..CALLS_MAX).map(|number| Box::pin(self.send_one_by_one(sessions.clone(), call, number > 0)));
        select_all(senders).await;
    }

    /// Does so with one call after the other. `only_urgent`: leaves what is not urgent to another sender.
    async fn send_one_by_one<F>(
        &self,
        mut sessions: watch::Receiver<Session>,
        call: &impl Fn(v1::AckRequest) -> F,
        only_urgent: bool,
    ) where
        F: Future<Output = Result<(), Error>>,
    {
        let mut delays = Retry::default().delays();
        let mut batch: Vec<String> = Vec::new();
        loop {
            // A call that failed has had its own delay.
            while batch.is_empty() {
                match only_urgent {
                    true => self.until(AckQueue::is_urgent).await,
                    false => self.until_due().await,
                }
                self.fill(&mut batch);
            }
            self.fill(&mut batch);
            let session_id = match sessions.wait_for(|session| !session.id.is_empty() && !session.is_reopening).await {
                Ok(session) => session.id.clone(),
                Err(_) => return,
            };
            let request = v1::AckRequest { session_id: session_id.clone(), message_ids: batch.clone() };
            let span = self.state().traces.ack(&batch);
            let began = Instant::now();
            self.put_off(began + PAUSE_MIN);
            let called = call(request).instrument(span).await;
            self.put_off(began + (began.elapsed() * PAUSE_IN_CALLS).min(PAUSE_MAX));
            match called {
                Ok(()) => {
                    delays.reset();
                    self.settle(&mut batch);
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

    /// Lets no call begin before an instant that is not urgent.
    fn put_off(&self, due: Instant) {
        let mut state = self.state();
        state.due = state.due.max(due);
    }

    /// Waits until something waits whose time has come.
    async fn until_due(&self) {
        self.until(|state| !state.waiting.is_empty()).await;
        loop {
            let due = self.state().due;
            // Another call may have put it off.
            if timeout_at(due, self.until(AckQueue::is_urgent)).await.is_ok() || self.state().due == due {
                return;
            }
        }
    }

    /// Waits until a condition holds that [`Inner::changed`] announces.
    async fn until(&self, holds: impl Fn(&AckQueue) -> bool) {
        loop {
            let changed = self.inner.changed.notified();
            if holds(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    /// Moves what waits to a call.
    fn fill(&self, batch: &mut Vec<String>) {
        let mut state = self.state();
        let room = IDS_IN_A_CALL_MAX.saturating_sub(batch.len()).min(state.waiting.len());
        batch.extend(state.waiting.drain(..room));
        state.in_calls += room;
        self.report(&state);
    }

    fn begin_flush(&self) -> Flush<'_> {
        self.state().flushes += 1;
        self.inner.changed.notify_waiters();
        Flush(self)
    }

    /// Records that a call has succeeded.
    fn settle(&self, batch: &mut Vec<String>) {
        let mut state = self.state();
        state.traces.end(batch);
        state.in_calls -= batch.len();
        batch.clear();
        self.report(&state);
    }

    fn report(&self, state: &AckQueue) {
        let outstanding = state.waiting.len() + state.in_calls;
        self.inner.progress.send_if_modified(|now| mem::replace(&mut now.outstanding, outstanding) != outstanding);
    }

    fn add(&self, state: &mut AckQueue, message_id: &str) {
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
            self.inner.changed.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, AckQueue> {
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
mod tests;
