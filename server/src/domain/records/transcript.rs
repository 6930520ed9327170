//! Calls that read a member's transcript, and the pages that its runner has answered them with.

use serde::{Deserialize, Serialize};
use teamwire_proto::v1;

use super::record_type::stored_as_json;

/// The calls that wait for the member's runner. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscriptQueriesRecord {
    /// The oldest first.
    pub queries: Vec<TranscriptQuery>,
}

stored_as_json!(TranscriptQueriesRecord, "transcript-queries");

/// A call that waits. See `ReadTranscriptRequest` of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscriptQuery {
    /// Its id.
    pub id: String,
    /// When it was made.
    pub asked_ms: u64,
    /// The life of the member.
    pub incarnation: u64,
    /// Which entries it reads.
    pub after: u64,
    /// See `after`.
    pub before: u64,
    /// How many entries.
    pub page_size: u32,
    /// Of which turn.
    pub turn: u64,
    /// Of which life.
    pub of_incarnation: u64,
    /// How long the runner may wait for an entry, in milliseconds.
    pub wait_ms: u64,
}

impl TranscriptQuery {
    /// Returns the protocol form.
    pub fn show(&self) -> v1::TranscriptQuery {
        let wait = std::time::Duration::from_millis(self.wait_ms);
        v1::TranscriptQuery {
            query_id: self.id.clone(),
            request: Some(v1::ReadTranscriptRequest {
                after_sequence: self.after,
                before_sequence: self.before,
                page_size: self.page_size,
                turn: self.turn,
                incarnation: self.of_incarnation,
                wait: (self.wait_ms > 0).then(|| wait.try_into().ok()).flatten(),
                ..v1::ReadTranscriptRequest::default()
            }),
        }
    }
}
