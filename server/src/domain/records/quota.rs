//! How full a team is.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// The last alarm about a team's quota. Id: "".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRecord {
    /// The percentage that it was about. `None` if the team holds less again.
    pub percent: Option<u64>,
}

stored_as_json!(QuotaRecord, "quota");
