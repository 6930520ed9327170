//! What a task says of its files and of its review, as it is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use teamwire_proto::{
    id::RequestId,
    name::{LEAD_ALIAS, Name},
};

use crate::domain::records::record_type::stored_as_json;

/// The paths of open tasks that have some. Id: "".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsRecord {
    /// By the task.
    pub tasks: BTreeMap<u64, TaskPaths>,
}

stored_as_json!(PathsRecord, "task-paths");

/// Which files a task will change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPaths {
    /// Patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// Whether no one else may claim a task that overlaps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// Who reviews a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reviewer {
    /// The lead, whichever member that is.
    Lead,
    /// This member.
    Member(Name),
}

impl Reviewer {
    /// Returns its name for clients.
    pub fn show(&self) -> String {
        match self {
            Self::Lead => LEAD_ALIAS.to_owned(),
            Self::Member(name) => name.to_string(),
        }
    }
}

/// A review that a task awaits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// The request.
    pub request_id: RequestId,
    /// The life of the owner that asked.
    pub incarnation: u64,
}
