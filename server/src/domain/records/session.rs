//! The latest session on an inbox, and how far it has come.

use serde::{Deserialize, Serialize};

use super::record_type::stored_as_json;

/// The latest session on a member's inbox; id: the member. Changes when a session opens or ends, never between.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Counts the sessions.
    pub epoch: u64,
    /// What the client presents.
    pub session_id: String,
    /// The process that opened it, as it named itself.
    pub instance: String,
    /// The life that it belongs to.
    pub incarnation: u64,
    /// When it opened.
    pub opened_ms: u64,
    /// Whether, and why, it has ended.
    pub ended: Option<SessionEnd>,
    /// How far earlier sessions may have delivered: the highest reservations, the highest first.
    pub maybe_delivered: Vec<u64>,
    /// How far earlier sessions are known to have delivered: the highest cursors, the highest first.
    pub surely_delivered: Vec<u64>,
}

stored_as_json!(SessionRecord, "session");

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The stream closed.
    Closed,
    /// A new life of the member has begun.
    Replaced,
    /// The member approved this request.
    ShutdownApproved(String),
    /// The member was stopped by force, or left.
    Stopped,
}

/// How far a session has come; id: the member. Written by the session that holds, and by nobody else.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CursorRecord {
    /// The session.
    pub epoch: u64,
    /// It delivers nothing above this sequence before it has raised it. So nothing above it can have been seen.
    pub reserved: u64,
    /// It has delivered everything up to here. May lag.
    pub delivered: u64,
    /// When it delivered what is not acknowledged yet: sequence and instant. May lag.
    pub unacked: Vec<(u64, u64)>,
}

stored_as_json!(CursorRecord, "cursor");

impl SessionRecord {
    /// Returns how many earlier sessions may have delivered the message at this place.
    pub fn maybe_seen(&self, sequence: u64) -> u32 {
        count(&self.maybe_delivered, sequence)
    }

    /// Returns how many earlier sessions have delivered the message at this place, as far as is known.
    pub fn surely_seen(&self, sequence: u64) -> u32 {
        count(&self.surely_delivered, sequence)
    }
}

fn count(cursors: &[u64], sequence: u64) -> u32 {
    u32::try_from(cursors.partition_point(|cursor| *cursor >= sequence)).unwrap_or(u32::MAX)
}

/// Returns whether a session is one that the store has lost: it is later than `latest`, the latest that the store knows.
pub fn is_lost(session_id: &str, latest: Option<&SessionRecord>) -> bool {
    let epoch = session_id.split_once('-').and_then(|(epoch, _)| epoch.parse::<u64>().ok());
    epoch.unwrap_or(0) > latest.map_or(0, |latest| latest.epoch)
}
