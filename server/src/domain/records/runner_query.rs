//! Calls that ask a member's runner for something that only the runner has. The questions and the answers are other records, in
//! the protocol's form.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// The calls that wait for the member's runner. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunnerQueriesRecord {
    /// The oldest first.
    pub queries: Vec<WaitingQuery>,
}

stored_as_json!(RunnerQueriesRecord, "runner-queries");

/// A call that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingQuery {
    /// The id of its question and of the answer.
    pub id: String,
    /// When it was made.
    pub asked_ms: u64,
    /// The life of the member.
    pub incarnation: u64,
}
