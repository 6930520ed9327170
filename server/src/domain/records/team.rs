//! A team with its roster, and its entry in the directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use teamwire_proto::{name::Name, v1};
use uuid::Uuid;

use super::record_type::stored_as_json;
use crate::domain::{secret::SecretHash, time::duration};

/// A team with its roster. The one record that nearly every rule reads; id "".
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TeamRecord {
    /// As first written.
    pub name: Name,
    /// Tells apart teams that bore the same name one after the other.
    pub id: Uuid,
    /// As given at its creation.
    pub description: String,
    /// When it was created.
    pub created_ms: u64,
    /// The member that leads.
    pub lead: Name,
    /// In the order in which the names first joined.
    pub members: Vec<MemberRecord>,
}

stored_as_json!(TeamRecord, "team");

/// A member in the roster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberRecord {
    /// As first written.
    pub name: Name,
    /// Counts the lives of the name.
    pub incarnation: u64,
    /// Where this life stands.
    pub life: Life,
    /// When this life began.
    pub joined_ms: u64,
    /// When `life` last changed.
    pub since_ms: u64,
    /// Of the secret of this life.
    pub credential: SecretHash,
    /// Of the secrets of the latest lives before, so that their bearers can be told what happened.
    #[serde(default)]
    pub former_credentials: Vec<SecretHash>,
    /// What it told of itself.
    #[serde(default)]
    pub attributes: Attributes,
    /// Must have a plan approved before it may work on tasks.
    #[serde(default)]
    pub plan_mode_required: bool,
    /// Has had a plan approved in this life.
    #[serde(default)]
    pub plan_approved: bool,
    /// The shutdown request that awaits its answer.
    #[serde(default)]
    pub pending_shutdown: Option<Pending>,
    /// The plan of its own that awaits an answer.
    #[serde(default)]
    pub pending_plan: Option<Pending>,
}

/// A request that awaits an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The request.
    pub id: String,
    /// When it expires.
    pub expires_ms: u64,
}

/// Where a member's life stands. Active and idle are not told apart here; see [`PresenceRecord`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Taken to be alive.
    Live,
    /// Has agreed to end, or was made to.
    Stopping {
        /// The request that it approved. `None`: it was stopped by force.
        request_id: Option<String>,
        /// The lead was told that it has not exited.
        alarmed: bool,
    },
    /// Has ended.
    Exited {
        /// How.
        exit: Exit,
        /// It was asked or made to end: its credential is good for nothing any more.
        dismissed: bool,
    },
    /// Nothing was heard of it for too long.
    Lost,
}

impl Life {
    /// Returns whether it keeps a team from being deleted and its name from being taken.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live | Self::Stopping { .. })
    }
}

/// How a process ended. See `ExitReport` of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal. Zero: none.
    pub signal: i32,
    /// How long it ran.
    pub duration_ms: u64,
    /// Why, for a reader.
    pub detail: String,
}

impl From<Exit> for v1::ExitReport {
    fn from(exit: Exit) -> Self {
        let duration = (exit.duration_ms > 0).then(|| duration(exit.duration_ms));
        Self { code: exit.code, signal: exit.signal, duration, detail: exit.detail }
    }
}

/// What a member told of itself. See `MemberAttributes` of the protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Such as `researcher`.
    pub agent_type: String,
    /// The model behind it.
    pub model: String,
    /// The machine it runs on.
    pub host: String,
    /// A colour for displays.
    pub color: String,
    /// Free pairs.
    pub labels: BTreeMap<String, String>,
}

/// A team in the directory; id: its folded name. May outlive the team for a moment, and precede it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedTeam {
    /// As first written.
    pub name: Name,
}

stored_as_json!(ListedTeam, "listed");
