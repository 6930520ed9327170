//! Finds the message that an agent's message answers. The tool that agents know has no field for it, but a sender that
//! waits for a reply needs it.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use teamwire_client::{Client, Retry, v1};
use tokio::time::sleep;

use crate::pending_replies::{Answerable, PendingReplies};

/// How many messages of the inbox are searched.
const SEARCHED: u32 = 200;

/// How many answered messages are remembered: more than a session delivers without acknowledgement.
const ANSWERED_MAX: usize = 256;

/// How long it takes at most until the coordinator has recorded a delivery, with room for a busy machine.
const RECORDED_WITHIN: Duration = Duration::from_millis(400);

/// What the agent has read with `CheckInbox`.
#[derive(Debug)]
pub(super) struct Shown {
    /// The messages that it may answer.
    pub(super) pending: PendingReplies,
    /// The messages that the next look into the inbox acknowledges.
    pub(super) unacknowledged: Vec<String>,
    /// The messages that the agent has answered, the latest last. Only those that it has in hand matter.
    answered: VecDeque<String>,
}

impl Default for Shown {
    fn default() -> Self {
        Self { pending: PendingReplies::new(false), unacknowledged: Vec::new(), answered: VecDeque::new() }
    }
}

impl Shown {
    /// Records that the agent has read a message.
    pub(super) fn show(&mut self, message: &v1::Message) {
        self.pending.hand_over(message);
        self.unacknowledged.push(message.id.clone());
    }

    /// Records that the agent has answered a message.
    pub(super) fn answered(&mut self, message_id: &str) {
        self.pending.answered(message_id);
        if self.answered.len() == ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(message_id.to_owned());
    }

    /// Records that messages are acknowledged.
    pub(super) fn acknowledged(&mut self, message_ids: &[String]) {
        message_ids.iter().for_each(|id| self.pending.acknowledged(id));
        self.unacknowledged.retain(|id| !message_ids.contains(id));
    }
}

/// Returns the message that an agent under a runner answers. The runner hands over what a session has delivered.
pub(super) async fn answered_in_runner(client: &Client, request: &v1::SendRequest, shown: &Mutex<Shown>) -> Answerable {
    let is_behind = AtomicBool::new(false);
    let is_delivered = |delivery: &v1::Delivery| {
        is_behind.fetch_or(delivery.delivery_count == 0, Ordering::Relaxed);
        delivery.delivery_count > 0
    };
    let answerable = handed_over(client, shown, is_delivered).await.answerable(request);
    if answerable != Answerable::Unknown || !is_behind.load(Ordering::Relaxed) {
        return answerable;
    }
    // A fast agent answers before the delivery is on record.
    sleep(RECORDED_WITHIN).await;
    handed_over(client, shown, is_delivered).await.answerable(request)
}

/// Returns what a runner or hooks have handed to the agent, which acknowledge it when the agent has processed it: the
/// messages in its inbox that `is_handed` chooses.
pub(super) async fn handed_over(
    client: &Client,
    shown: &Mutex<Shown>,
    is_handed: impl Fn(&v1::Delivery) -> bool,
) -> PendingReplies {
    let mut pending = PendingReplies::of_turn();
    let client = client.clone().with_retry(Retry::none());
    let request = v1::ListInboxRequest { page_size: SEARCHED, ..v1::ListInboxRequest::default() };
    if let Ok(inbox) = client.list_inbox(request).await {
        let delivered = inbox.deliveries.iter().filter(|delivery| is_handed(delivery));
        delivered.filter_map(|delivery| delivery.message.as_ref()).for_each(|message| pending.hand_over(message));
    }
    shown.lock().answered.iter().for_each(|message_id| pending.answered(message_id));
    pending
}
