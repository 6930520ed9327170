//! The chains of the audit log.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// A chain of the audit log; id: its name. Its entries are in the stream `audit/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainRecord {
    /// The sequence of the oldest entry that is left.
    pub first_sequence: u64,
    /// The sequence of the newest entry.
    pub last_sequence: u64,
    /// The hash of the newest entry, in hexadecimal digits.
    pub hash: String,
    /// How many bytes the entries take that are left, with their hashes.
    pub bytes: u64,
}

stored_as_json!(ChainRecord, "chain");

/// The operator's credential that a coordinator had when it last looked; id: "".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorMarkRecord {
    /// Distinguishes it from other credentials, and tells nothing else about it.
    pub fingerprint: String,
}

stored_as_json!(OperatorMarkRecord, "operator-mark");
