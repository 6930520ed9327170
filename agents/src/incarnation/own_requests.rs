//! The requests that the runner makes for its program. The runner reads their answers; the agent does not.

use std::{
    collections::{HashSet, VecDeque},
    mem,
};

use teamwire_client::{Client, Delivery};
use teamwire_proto::v1::{NoticeKind, message::Body};

use super::Incarnation;

/// The requests that the runner has made in this incarnation.
#[derive(Debug, Default)]
pub(super) struct OwnRequests {
    ids: HashSet<String>,
    /// How many are being made, so that their ids are not known yet.
    unknown: usize,
    /// Messages about requests, until the runner knows who made those requests.
    held: VecDeque<Box<Delivery>>,
}

impl Incarnation<'_> {
    /// Returns a client that calls with the member's credential.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Records that the runner begins to make a request for its program.
    pub(crate) fn begin_own_request(&mut self) {
        self.own_requests.unknown += 1;
    }

    /// Records the id of a request that the runner has begun to make. `None` if it was refused.
    pub(crate) fn note_own_request(&mut self, request_id: Option<String>) {
        let own = &mut self.own_requests;
        own.unknown = own.unknown.saturating_sub(1);
        own.ids.extend(request_id);
        if own.unknown > 0 {
            return;
        }
        for delivery in mem::take(&mut own.held) {
            if self.own_requests.ids.contains(answered_request(&delivery)) {
                delivery.ack();
            } else {
                self.waiting.push_back(delivery);
            }
        }
    }

    /// Consumes a message with the outcome of one of the runner's requests, or holds the message until the runner knows
    /// whether it is one. Returns any other message.
    pub(super) fn take_own_answer(&mut self, delivery: Box<Delivery>) -> Option<Box<Delivery>> {
        let request_id = answered_request(&delivery);
        if request_id.is_empty() {
            return Some(delivery);
        }
        if self.own_requests.ids.contains(request_id) {
            delivery.ack();
            return None;
        }
        if self.own_requests.unknown == 0 {
            return Some(delivery);
        }
        self.own_requests.held.push_back(delivery);
        None
    }
}

/// Returns the request that a message answers, or whose end it reports. Empty means none.
fn answered_request(delivery: &Delivery) -> &str {
    match &delivery.message.body {
        Some(Body::PlanApprovalResponse(_) | Body::PermissionResponse(_)) => &delivery.message.request_id,
        Some(Body::Notice(notice)) if notice.kind() == NoticeKind::RequestExpired => &notice.request_id,
        _ => "",
    }
}
