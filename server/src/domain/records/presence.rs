//! What a member does.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// What a member does; id: the member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PresenceRecord {
    /// The life that said so.
    pub incarnation: u64,
    /// Has nothing to do.
    pub idle: bool,
    /// Since when.
    pub since_ms: u64,
    /// What it did last.
    pub summary: String,
}

stored_as_json!(PresenceRecord, "presence");
