//! What people were notified of, and what is to be sent to them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::record_type::stored_as_json;

/// What people were notified of in a team, by [slot](AlertsRecord::slot). Id: "".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertsRecord {
    /// The slots that are in use.
    pub slots: BTreeMap<String, AlertSlot>,
}

stored_as_json!(AlertsRecord, "alerts");

impl AlertsRecord {
    /// Returns the name of the slot for what a rule says about one kind of thing.
    pub fn slot(rule: &str, kind: &str) -> String {
        format!("{rule}/{kind}")
    }
}

/// What people were notified of by one rule, about one kind of thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertSlot {
    /// The keys of the things that wait and that an alert names or counts.
    pub announced: BTreeSet<String>,
    /// The alert that was not delivered yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<OutgoingAlert>,
    /// When an alert was last made.
    pub made_ms: u64,
}

/// An alert that was not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutgoingAlert {
    /// Its id, the same in every attempt.
    pub id: Uuid,
    /// What is sent, the same in every attempt.
    pub body: String,
    /// The keys of the things that it announces. Once none of them waits, there is nothing to send any more.
    pub covers: BTreeSet<String>,
    /// How many attempts were begun.
    pub attempts: u32,
    /// When the next attempt may begin. While a coordinator makes an attempt, this is when its claim ends.
    pub due_ms: u64,
    /// How the last attempt failed. Empty if none has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}
