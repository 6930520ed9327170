//! What a team has used of its budget.

use serde::{Deserialize, Serialize};
use teamwire_proto::v1;

use super::{Bound, record_type::stored_as_json};

/// The budget of a team, and what its members have used since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSpendingRecord {
    /// How much may be used.
    pub budget: Bound,
    /// What was used.
    pub used: v1::Usage,
}

stored_as_json!(TeamSpendingRecord, "team-spending");
