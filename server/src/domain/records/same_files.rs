//! Which members have changed which files of which repository lately.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use teamwire_proto::name::Name;

use super::record_type::stored_as_json;

/// The files that members have changed lately, in 64 parts. Id: the part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFilesRecord {
    /// By the file: the hash of its repository and its path.
    pub files: BTreeMap<String, Vec<FileChange>>,
}

stored_as_json!(ChangedFilesRecord, "changed-files");

/// That a member has changed a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The member.
    pub member: Name,
    /// When it last did.
    pub at_ms: u64,
}

/// The files in [`ChangedFilesRecord`] that a member has changed. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnChangesRecord {
    /// The latest last.
    pub files: Vec<String>,
}

stored_as_json!(OwnChangesRecord, "own-changes");

/// Which notices two members got about files that both have changed. Id: both, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldFilesRecord {
    /// When, by the path.
    pub told_ms: BTreeMap<String, u64>,
}

stored_as_json!(ToldFilesRecord, "told-files");
