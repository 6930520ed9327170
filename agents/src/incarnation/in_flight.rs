//! The messages and tasks in flight: handed to the program, and not dealt with yet.

use std::collections::HashMap;

use teamwire_client::Acks;
use teamwire_proto::v1;
use tokio::{sync::watch, time::Instant};

use super::{heartbeat::InHand, recent_ids::RecentIds};
use crate::pending_replies::{Answerable, PendingReplies};

/// How many handed messages are remembered, so that acknowledging one twice is not an error.
const REMEMBERED_MAX: usize = 4_096;

/// How many shutdown requests of one incarnation are remembered. Only one can be pending at a time.
const SHUTDOWN_REQUESTS_MAX: usize = 16;

/// What the program has in hand. At most 64 messages: a session delivers no more without acknowledgement.
#[derive(Debug)]
pub(crate) struct InFlight {
    acks: Acks,
    /// Tells the heartbeat.
    in_hand: watch::Sender<InHand>,
    /// From a message's id to the id of the request that the message makes. Empty if it makes none.
    messages: HashMap<String, String>,
    handed: RecentIds,
    pending_replies: PendingReplies,
    shutdown_requests: Vec<String>,
    /// From the id of a task that the runner claimed to the token of the claim.
    tasks: HashMap<u64, String>,
    /// `true` if the member claims no task for now.
    is_resting: bool,
    /// `true` if the runner waits before it tries a message again. Until then, the member counts as working, although
    /// nothing is in hand.
    is_retrying: bool,
    /// `true` if the program is in a turn, perhaps one that no message began.
    is_in_turn: bool,
}

impl InFlight {
    /// Creates an empty set that acknowledges by `acks` and reports to the heartbeat. `is_batch`: a program is started
    /// for each batch of messages.
    pub(crate) fn new(acks: Acks, in_hand: watch::Sender<InHand>, is_batch: bool) -> Self {
        Self {
            acks,
            in_hand,
            messages: HashMap::new(),
            handed: RecentIds::new(REMEMBERED_MAX),
            pending_replies: PendingReplies::new(is_batch),
            shutdown_requests: Vec::new(),
            tasks: HashMap::new(),
            is_resting: false,
            is_retrying: false,
            is_in_turn: false,
        }
    }

    /// Forgets all messages. Another session delivers the unacknowledged ones again.
    pub(crate) fn renew(&mut self, acks: Acks) {
        self.acks = acks;
        self.messages.clear();
        self.handed = RecentIds::new(REMEMBERED_MAX);
        self.pending_replies.clear();
        self.shutdown_requests.clear();
        self.report("");
    }

    /// Records that the program was handed a message.
    pub(crate) fn hand_over(&mut self, message: &v1::Message) {
        self.handed.insert(&message.id);
        self.pending_replies.hand_over(message);
        let is_request = message.body.as_ref().is_some_and(|body| body.kind().is_request());
        let request_id = if is_request { message.request_id.clone() } else { String::new() };
        self.messages.insert(message.id.clone(), request_id);
        self.report(summary_of(message));
    }

    /// Returns how many messages the program was handed that are not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.messages.len()
    }

    /// Records a shutdown request, whether the program or the runner answers it.
    pub(crate) fn note_shutdown_request(&mut self, request_id: &str) {
        if self.shutdown_requests.len() < SHUTDOWN_REQUESTS_MAX {
            self.shutdown_requests.push(request_id.to_owned());
        }
    }

    /// Returns the shutdown requests of this session.
    pub(crate) fn shutdown_requests(&self) -> &[String] {
        &self.shutdown_requests
    }

    /// Acknowledges a message. Returns false if the program was never handed it.
    pub(crate) fn processed(&mut self, message_id: &str) -> bool {
        if self.messages.remove(message_id).is_none() {
            return self.handed.contains(message_id);
        }
        self.acks.ack(message_id);
        self.report("");
        true
    }

    /// Records that the program begins with a new batch.
    pub(crate) fn begin_batch(&mut self) {
        self.pending_replies.clear();
    }

    /// Acknowledges a message because the program says so. Returns false if the program was never handed it.
    pub(crate) fn acknowledged(&mut self, message_id: &str) -> bool {
        self.pending_replies.acknowledged(message_id);
        self.processed(message_id)
    }

    /// Returns the message that is answered by one that the program sends without `in_reply_to`.
    pub(crate) fn answerable(&self, request: &v1::SendRequest) -> Answerable {
        self.pending_replies.answerable(request)
    }

    /// Records that a message was sent without `in_reply_to` and counts as the answer to this one. Does not
    /// acknowledge.
    pub(crate) fn taken_for_answer(&mut self, message_id: &str) {
        self.pending_replies.answered(message_id);
    }

    /// Acknowledges the message that a sent message answers, as a reply or as the answer to a request.
    pub(crate) fn sent(&mut self, request: &v1::SendRequest) {
        let (summary, answered) = request.body.as_ref().map_or(("", ""), |body| (body.summary(), body.request_id()));
        if self.messages.remove(&request.in_reply_to).is_some() {
            self.acks.ack(&request.in_reply_to);
        }
        self.pending_replies.close(&request.in_reply_to);
        self.close_request(answered);
        self.report(summary);
    }

    /// Acknowledges the message that made a request.
    pub(crate) fn answered(&mut self, request_id: &str) {
        self.close_request(request_id);
        self.report("");
    }

    /// Records a claimed task and the token of its claim.
    pub(crate) fn take_task(&mut self, id: u64, token: &str) {
        self.tasks.insert(id, token.to_owned());
        self.report("");
    }

    /// Returns the token of a task that the runner claimed. `None` if the task is not in hand.
    pub(crate) fn task_token(&self, id: u64) -> Option<&str> {
        self.tasks.get(&id).map(String::as_str)
    }

    /// Records that a task is closed, or is no longer the member's.
    pub(crate) fn drop_task(&mut self, id: u64) {
        if self.tasks.remove(&id).is_some() {
            self.report("");
        }
    }

    /// Records that the program works only on what is in hand, and what it did last.
    pub(crate) fn note_turn_ended(&mut self, done_last: &str) {
        self.report(done_last);
    }

    /// Sets whether the member claims no task for now.
    pub(crate) fn set_resting(&mut self, is_resting: bool) {
        self.is_resting = is_resting;
        self.report("");
    }

    /// Sets whether the runner waits before it tries a message again.
    pub(crate) fn set_retrying(&mut self, is_retrying: bool) {
        self.is_retrying = is_retrying;
        self.report("");
    }

    /// Sets whether the program is in a turn.
    pub(crate) fn set_in_turn(&mut self, is_in_turn: bool) {
        if self.is_in_turn != is_in_turn {
            self.is_in_turn = is_in_turn;
            self.report("");
        }
    }

    /// Returns whether the member may claim a task: it has nothing in hand, does not rest and tries no message again.
    pub(crate) fn is_free(&self) -> bool {
        self.messages.is_empty() && self.tasks.is_empty() && !self.is_resting && !self.is_retrying
    }

    fn close_request(&mut self, request_id: &str) {
        self.pending_replies.close_request(request_id);
        let asking = self.messages.iter().find(|(_, asked)| !request_id.is_empty() && *asked == request_id);
        if let Some(id) = asking.map(|(id, _)| id.clone()) {
            self.messages.remove(&id);
            self.acks.ack(&id);
        }
    }

    fn report(&self, summary: &str) {
        self.in_hand.send_modify(|in_hand| {
            in_hand.messages = self.messages.len() + usize::from(self.is_retrying || self.is_in_turn);
            in_hand.tasks = self.tasks.len();
            in_hand.has_begun = true;
            in_hand.changed_at = Instant::now();
            if !summary.is_empty() {
                in_hand.summary = summary.to_owned();
            }
        });
    }
}

fn summary_of(message: &v1::Message) -> &str {
    message.body.as_ref().map_or("", |body| body.summary())
}
