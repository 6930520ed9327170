//! Join tokens and observers' credentials.

use serde::{Deserialize, Serialize};
use teamwire_proto::name::Name;

use super::record_type::stored_as_json;
use crate::domain::secret::SecretHash;

/// A join token; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinTokenRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// The one name that it may be used for.
    pub member: Option<Name>,
    /// How many joins are left.
    pub uses_left: u32,
    /// When it expires.
    pub expires_ms: u64,
    /// Members that join with it must have a plan approved before they may work on tasks.
    pub plan_mode_required: bool,
    /// Whether it admits hosts instead of teammates.
    #[serde(default)]
    pub is_for_host: bool,
    /// The order that it was issued for. It is valid as long as that order is pending.
    #[serde(default)]
    pub order: Option<String>,
}

stored_as_json!(JoinTokenRecord, "token");

/// An observer's credential; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObserverRecord {
    /// The hash of its secret.
    pub secret: SecretHash,
    /// When it expires.
    pub expires_ms: u64,
}

stored_as_json!(ObserverRecord, "observer");
