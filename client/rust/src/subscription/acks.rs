//! Acknowledgements: accepted at once, and sent in batches until the coordinator confirms them.

use std::{collections::VecDeque, mem, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use teamwire_proto::{Reason, v1};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{
    Closed,
    traces::Traces,
    window::{Seen, Window},
};
use crate::{Client, Error, Retry};

/// The most ids in one call: the protocol's limit.
const IDS_IN_A_CALL_MAX: usize = 1_000;

/// The most messages that are remembered, and the most acknowledgements that wait.
const WINDOW_IDS_MAX: usize = 4_096;

/// Acknowledges the messages of a subscription. Cheap to clone.
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
    /// Notified when there is something to send.
    added: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct State {
    window: Window,
    waiting: VecDeque<String>,
    traces: Traces,
}

/// How many acknowledgements are still to be confirmed.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Accepted and not yet confirmed.
    outstanding: usize,
    /// Set when nothing more will be sent.
    closed: Option<Closed>,
}

impl Acks {
    pub(super) fn new() -> Self {
        let state = State { window: Window::new(WINDOW_IDS_MAX), waiting: VecDeque::new(), traces: Traces::default() };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                added: Notify::new(),
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

    /// Records that nothing more can be sent. Only the first reason counts.
    pub(super) fn close(&self, closed: Closed) {
        self.inner.progress.send_if_modified(|now| now.closed.is_none() && now.closed.replace(closed).is_none());
    }

    /// Sends acknowledgements until the coordinator refuses them for good.
    pub(super) async fn run(self, client: Client) {
        let mut sessions = client.session().subscribe();
        let client = client.with_retry(Retry::none());
        let mut delays = Retry::default().delays();
        loop {
            self.inner.added.notified().await;
            let mut batch: Vec<String> = Vec::new();
            while self.fill(&mut batch) {
                let session_id =
                    match sessions.wait_for(|session| !session.id.is_empty() && !session.is_reopening).await {
                        Ok(session) => session.id.clone(),
                        Err(_) => return,
                    };
                let request = v1::AckRequest { session_id: session_id.clone(), message_ids: batch.clone() };
                let span = self.state().traces.ack(&batch);
                match client.ack(request).instrument(span).await {
                    Ok(_) => {
                        delays.reset();
                        self.state().traces.end(&batch);
                        batch.clear();
                        self.settle();
                    }
                    // The subscription has reconnected in the meantime.
                    Err(_) if client.session().borrow().id != session_id => {}
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
    }

    /// Fills a batch. Returns whether there is something to send.
    fn fill(&self, batch: &mut Vec<String>) -> bool {
        let mut state = self.state();
        let room = IDS_IN_A_CALL_MAX.saturating_sub(batch.len()).min(state.waiting.len());
        batch.extend(state.waiting.drain(..room));
        self.report(&state, batch.len());
        !batch.is_empty()
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
        self.inner.added.notify_one();
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
