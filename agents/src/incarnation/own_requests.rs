//! The requests that the runner makes for its program: their answers are the runner's, and not the agent's to read.

use std::collections::HashSet;

use teamwire_client::{Client, Delivery};
use teamwire_proto::v1::message::Body;

use super::Incarnation;

/// The requests that the runner has made in this incarnation.
#[derive(Debug, Default)]
pub(super) struct OwnRequests {
    ids: HashSet<String>,
    /// How many are being made, so that their ids are not known yet.
    unknown: usize,
}

impl OwnRequests {
    /// Returns whether a message answers one of them. While an id is not known, an answer to a plan counts as one: a member has
    /// one pending plan at a time.
    pub(super) fn is_answer(&self, delivery: &Delivery) -> bool {
        let message = &delivery.message;
        matches!(message.body, Some(Body::PlanApprovalResponse(_)))
            && (self.unknown > 0 || self.ids.contains(&message.request_id))
    }
}

impl Incarnation<'_> {
    /// Returns a client that calls with the member's credential.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Notes that the runner begins to make a request for its program.
    pub(crate) fn begin_own_request(&mut self) {
        self.own_requests.unknown += 1;
    }

    /// Notes the id of a request that the runner has begun to make. Empty: it was refused.
    pub(crate) fn note_own_request(&mut self, request_id: String) {
        self.own_requests.unknown = self.own_requests.unknown.saturating_sub(1);
        if !request_id.is_empty() {
            self.own_requests.ids.insert(request_id);
        }
    }
}
