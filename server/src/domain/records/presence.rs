//! What a member does.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// What a member does. Id: the member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PresenceRecord {
    /// The life that reported it.
    pub incarnation: u64,
    /// Whether it is idle.
    pub idle: bool,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// The summary it last gave.
    pub summary: String,
    /// When it first gave that summary, in milliseconds since 1970.
    #[serde(default)]
    pub summary_ms: u64,
}

stored_as_json!(PresenceRecord, "presence");
