//! What a host offers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use teamwire_proto::name::Name;

use super::record_type::stored_as_json;

/// What a host offers. Id: the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it can start.
    pub profiles: Vec<ProfileRecord>,
    /// How many members it runs at a time.
    pub slots: u32,
    /// What it is, for a reader.
    pub platform: String,
}

stored_as_json!(HostRecord, "host");

/// A kind of member that a host can start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRecord {
    /// Its name.
    pub name: Name,
    /// One line for a reader.
    pub description: String,
    /// How long a start may take. If `None`, as long as the coordinator's limits say.
    pub start_deadline_ms: Option<u64>,
    /// The tags that its members get.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<Name>,
}

impl HostRecord {
    /// Returns the profile with this name.
    pub fn profile(&self, name: &Name) -> Option<&ProfileRecord> {
        self.profiles.iter().find(|profile| profile.name == *name)
    }
}
