//! Acknowledgements: taken at once, sent together in the background until each is proven.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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

/// How many ids one call takes: the protocol's own bound.
const IDS_IN_A_CALL_MAX: usize = 1_000;

/// How many messages are remembered, and how many acknowledgements may wait.
const WINDOW_IDS_MAX: usize = 4_096;

/// Acknowledges what a subscription has delivered. Cheap to clone.
///
/// At most 4,096 acknowledgements wait; when there are more, the oldest is dropped, and its message comes again in a
/// later session. A coordinator has at most 64 messages unacknowledged in a session, so that this takes a caller which
/// acknowledges what it was never given.
#[derive(Clone, Debug)]
pub struct Acks {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Woken when there is something to send.
    added: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct State {
    window: Window,
    waiting: VecDeque<String>,
    traces: Traces,
}

/// How far the sending has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Taken and not yet proven.
    outstanding: usize,
    /// Nothing more will be sent.
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

    /// Takes an acknowledgement and returns at once. What is no message's id is ignored: nothing was delivered under it.
    pub fn ack(&self, message_id: &str) {
        // One malformed id would have the coordinator refuse all those that it is sent with.
        if Uuid::try_parse(message_id).is_err() {
            tracing::warn!(message_id, "not acknowledged: not a message's id");
            return;
        }
        let mut state = self.state();
        state.window.ack(message_id);
        self.add(&mut state, message_id);
    }

    /// Waits until every acknowledgement taken so far is proven.
    pub async fn flush(&self) -> Result<(), Error> {
        let mut progress = self.inner.progress.subscribe();
        match progress.wait_for(|now| now.outstanding == 0 || now.closed.is_some()).await {
            Ok(now) if now.outstanding == 0 => Ok(()),
            Ok(now) => Err(Error::Closed(now.closed.clone().unwrap_or(Closed::Dropped))),
            Err(_) => Err(Error::Closed(Closed::Dropped)),
        }
    }

    /// Notes that a message has come in. True: it is to be handed out.
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

    /// Says that nothing more can be sent.
    pub(super) fn close(&self, closed: Closed) {
        self.inner.progress.send_if_modified(|now| now.closed.is_none() && now.closed.replace(closed).is_none());
    }

    /// Sends what is taken, until it is closed or the coordinator says for good that it will not have it.
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
                    // The subscription has reconnected meanwhile.
                    Err(_) if client.session().borrow().id != session_id => {}
                    Err(error) if !error.is_forbidden() && error.reason() != Some(Reason::TeamNotFound) => {
                        tracing::debug!(%error, "acknowledging again");
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

    /// Fills a batch up. False: there is nothing to send.
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

    fn report(&self, state: &State, under_way: usize) {
        let outstanding = state.waiting.len() + under_way;
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
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads why acknowledgements are refused for good.
fn closed_by(error: Error) -> Closed {
    match error.reason() {
        Some(Reason::SessionSuperseded) => Closed::Superseded,
        Some(Reason::MemberStopped) => Closed::MemberStopped,
        _ => Closed::Refused(error.to_string()),
    }
}
