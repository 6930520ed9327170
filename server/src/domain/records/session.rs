//! The latest session on an inbox, and its progress.

use serde::{Deserialize, Serialize};

use teamwire_proto::id::RequestId;

use super::{super::secret::SessionId, record_type::stored_as_json};

/// The latest session on a member's inbox. Id: the member. Changes only when a session opens or ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The number of the session, from 1.
    pub epoch: u64,
    /// The id that the client presents.
    pub session_id: SessionId,
    /// The process that opened it, by the name it gave.
    pub instance: String,
    /// The life that it belongs to.
    pub incarnation: u64,
    /// When it opened.
    pub opened_ms: u64,
    /// Why it has ended. `None` if it is open.
    pub ended: Option<SessionEnd>,
    /// How far earlier sessions may have delivered: the highest reservations, in descending order.
    pub maybe_delivered: Vec<u64>,
    /// How far earlier processes are known to have been handed the inbox: the highest cursors, in descending order. A
    /// process that reconnects counts once.
    pub surely_delivered: Vec<u64>,
    /// How far earlier sessions of this session's own process are known to have delivered.
    #[serde(default)]
    pub process_delivered: u64,
    /// The sequences of shutdown requests that an earlier session may have delivered ahead of their turn, beyond its
    /// entry in `maybe_delivered`, once for each session. The oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maybe_overtook: Vec<u64>,
    /// The same for processes that are known to have been handed them beyond their entry in `surely_delivered`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub surely_overtook: Vec<u64>,
    /// The sequences of messages that a process has failed on and received again, and how many times it did. The oldest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<(u64, u32)>,
}

stored_as_json!(SessionRecord, "session");

/// Why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The stream closed.
    Closed,
    /// A new life of the member has started.
    Replaced,
    /// The member approved this request.
    ShutdownApproved(RequestId),
    /// The member left, and its program may still be running.
    Left,
    /// The member was stopped by force, or has exited.
    Stopped,
}

/// The progress of a session. Id: the member. Only the session that holds the inbox writes it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CursorRecord {
    /// The epoch of the session.
    pub epoch: u64,
    /// The session delivers nothing above this sequence before it has raised it, so nothing above it can have been
    /// delivered.
    pub reserved: u64,
    /// The session has delivered everything up to this sequence. May lag.
    pub delivered: u64,
    /// The sequences above `delivered` of shutdown requests that the session has delivered ahead of their turn. May
    /// lag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overtook: Vec<u64>,
    /// The sequence and the delivery time of every unacknowledged message. May lag.
    pub unacked: Vec<(u64, u64)>,
}

stored_as_json!(CursorRecord, "cursor");

impl SessionRecord {
    /// Returns how many earlier sessions may have delivered the message with this sequence.
    pub fn maybe_seen(&self, sequence: u64) -> u32 {
        count(&self.maybe_delivered, &self.maybe_overtook, sequence)
    }

    /// Returns how many earlier processes have been handed the message with this sequence. A process that has failed on
    /// it and received it again counts once for each time.
    pub fn surely_seen(&self, sequence: u64) -> u32 {
        let failures = self.failures.iter().find(|(failed, _)| *failed == sequence).map_or(0, |(_, count)| *count);
        count(&self.surely_delivered, &self.surely_overtook, sequence).saturating_add(failures)
    }
}

impl CursorRecord {
    /// Returns whether the session has delivered the message with this sequence.
    pub fn has_delivered(&self, sequence: u64) -> bool {
        self.delivered >= sequence || self.overtook.contains(&sequence)
    }

    /// Returns whether the message with this sequence was delivered and is not acknowledged.
    pub fn is_unacked(&self, sequence: u64) -> bool {
        self.unacked.iter().any(|(unacked, _)| *unacked == sequence)
    }
}

fn count(cursors: &[u64], overtook: &[u64], sequence: u64) -> u32 {
    let in_order = cursors.partition_point(|cursor| *cursor >= sequence);
    let ahead = overtook.iter().filter(|overtook| **overtook == sequence).count();
    u32::try_from(in_order + ahead).unwrap_or(u32::MAX)
}

/// Returns whether the store has lost a session: it is newer than `latest`, the newest one in the store.
pub fn is_lost(session_id: &SessionId, latest: Option<&SessionRecord>) -> bool {
    session_id.epoch() > latest.map_or(0, |latest| latest.epoch)
}
