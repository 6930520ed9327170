//! What lies on the program's in_flight: the messages and tasks that it was handed and has not dealt with.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use teamwire_proto::v1::{self, message::Body, send_request};
use tokio::{sync::watch, time::Instant};

use teamwire_client::Acks;

use super::{heartbeat::Work, recent::RecentIds};

/// How many messages are remembered after they were dealt with, so that a second acknowledgement is no error.
const REMEMBERED_MAX: usize = 4_096;

/// How many shutdown requests of one life are remembered. Only one can be pending at a time.
const SHUTDOWNS_MAX: usize = 16;

/// The messages that a program holds. They are as many as may be unacknowledged in a session, 64 at most.
#[derive(Debug)]
pub(crate) struct InFlight {
    acks: Acks,
    work: watch::Sender<Work>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Id to the request that the message makes; empty: none.
    held: HashMap<String, String>,
    handed: RecentIds,
    shutdowns: Vec<String>,
    /// The tasks that the runner has taken, with the tokens of their claims.
    tasks: HashMap<u64, String>,
    /// Takes no task for now.
    rests: bool,
}

impl InFlight {
    pub(crate) fn new(acks: Acks, work: watch::Sender<Work>) -> Self {
        let state = State {
            held: HashMap::new(),
            handed: RecentIds::new(REMEMBERED_MAX),
            shutdowns: Vec::new(),
            tasks: HashMap::new(),
            rests: false,
        };
        Self { acks, work, state: Mutex::new(state) }
    }

    /// Notes that the program is given a message.
    pub(crate) fn hand(&self, message: &v1::Message) {
        let mut state = self.state();
        state.handed.insert(&message.id);
        let request_id = match message.body {
            Some(Body::ShutdownRequest(_) | Body::PlanApprovalRequest(_)) => message.request_id.clone(),
            _ => String::new(),
        };
        state.held.insert(message.id.clone(), request_id);
        self.report(&state, summary_of(message));
    }

    /// Notes a shutdown request, whoever will answer it.
    pub(crate) fn asked_to_end(&self, request_id: &str) {
        let mut state = self.state();
        if state.shutdowns.len() < SHUTDOWNS_MAX {
            state.shutdowns.push(request_id.to_owned());
        }
    }

    /// Returns the shutdown requests that have come.
    pub(crate) fn shutdowns(&self) -> Vec<String> {
        self.state().shutdowns.clone()
    }

    /// Acknowledges a message. False: the program was never given it.
    pub(crate) fn ack(&self, message_id: &str) -> bool {
        let mut state = self.state();
        if state.held.remove(message_id).is_none() {
            return state.handed.contains(message_id);
        }
        self.acks.ack(message_id);
        self.report(&state, "");
        true
    }

    /// Acknowledges what a message that was sent has answered, as a reply or as the answer to a request.
    pub(crate) fn sent(&self, request: &v1::SendRequest) {
        let (summary, answered) = match request.body.as_ref() {
            Some(send_request::Body::Message(body)) => (body.summary.as_str(), ""),
            Some(send_request::Body::Broadcast(body)) => (body.summary.as_str(), ""),
            Some(send_request::Body::PlanApprovalRequest(body)) => (body.summary.as_str(), ""),
            Some(send_request::Body::ShutdownResponse(body)) => ("", body.request_id.as_str()),
            Some(send_request::Body::PlanApprovalResponse(body)) => ("", body.request_id.as_str()),
            Some(send_request::Body::ShutdownRequest(_)) | None => ("", ""),
        };
        let mut state = self.state();
        if state.held.remove(&request.in_reply_to).is_some() {
            self.acks.ack(&request.in_reply_to);
        }
        self.close_request(&mut state, answered);
        self.report(&state, summary);
    }

    /// Acknowledges the message that has made a request.
    pub(crate) fn answered(&self, request_id: &str) {
        let mut state = self.state();
        self.close_request(&mut state, request_id);
        self.report(&state, "");
    }

    /// Returns what the member has in hand, as it changes.
    pub(crate) fn work(&self) -> watch::Receiver<Work> {
        self.work.subscribe()
    }

    /// Notes that a task was taken.
    pub(crate) fn take_task(&self, id: u64, token: &str) {
        let mut state = self.state();
        state.tasks.insert(id, token.to_owned());
        self.report(&state, "");
    }

    /// Returns the token of a task that the runner has taken.
    pub(crate) fn task_token(&self, id: u64) -> Option<String> {
        self.state().tasks.get(&id).cloned()
    }

    /// Notes that a task is dealt with, or is not the member's any more.
    pub(crate) fn drop_task(&self, id: u64) {
        let mut state = self.state();
        if state.tasks.remove(&id).is_some() {
            self.report(&state, "");
        }
    }

    /// Says whether the member takes no task for now.
    pub(crate) fn rest(&self, rests: bool) {
        let mut state = self.state();
        state.rests = rests;
        self.report(&state, "");
    }

    fn close_request(&self, state: &mut State, request_id: &str) {
        let asking = state.held.iter().find(|(_, asked)| !request_id.is_empty() && *asked == request_id);
        if let Some(id) = asking.map(|(id, _)| id.clone()) {
            state.held.remove(&id);
            self.acks.ack(&id);
        }
    }

    fn report(&self, state: &State, summary: &str) {
        self.work.send_modify(|work| {
            work.held = state.held.len();
            work.tasks = state.tasks.len();
            work.rests = state.rests;
            work.has_begun = true;
            work.at = Instant::now();
            if !summary.is_empty() {
                work.summary = summary.to_owned();
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn summary_of(message: &v1::Message) -> &str {
    match message.body.as_ref() {
        Some(Body::Message(body)) => &body.summary,
        Some(Body::Broadcast(body)) => &body.summary,
        Some(Body::PlanApprovalRequest(body)) => &body.summary,
        _ => "",
    }
}
