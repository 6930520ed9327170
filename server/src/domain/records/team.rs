//! A team with its roster, and its entry in the directory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use teamwire_proto::{name::Name, v1};
use uuid::Uuid;

use super::{notices::NoticeLevel, record_type::stored_as_json};
use crate::domain::{secret::SecretHash, time::duration};

/// A team with its roster. Nearly every rule reads this record. Id: "".
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TeamRecord {
    /// The name as first written.
    pub name: Name,
    /// Distinguishes teams that have had the same name at different times.
    pub id: Uuid,
    /// The description given at its creation.
    pub description: String,
    /// When it was created.
    pub created_ms: u64,
    /// The member that leads.
    pub lead: Name,
    /// Every member, in the order in which the names first joined.
    pub members: Vec<MemberRecord>,
}

stored_as_json!(TeamRecord, "team");

/// A member in the roster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The name as first written.
    pub name: Name,
    /// The number of the life under this name, from 1.
    pub incarnation: u64,
    /// The state of this life.
    pub life: Life,
    /// Whether no process keeps this life going, so that it is away, and not lost, while its lease has run out.
    #[serde(default)]
    pub detached: bool,
    /// When this life started.
    pub joined_ms: u64,
    /// When `life` last changed.
    pub since_ms: u64,
    /// The hash of this life's secret.
    pub credential: SecretHash,
    /// Whether that secret was revoked, so that only a join token can begin the next life.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// The hashes of the latest former lives' secrets, so that their bearers learn what happened.
    #[serde(default)]
    pub former_credentials: Vec<SecretHash>,
    /// The attributes it gave itself.
    #[serde(default)]
    pub attributes: Attributes,
    /// Whether it must have a plan approved before it may work on tasks.
    #[serde(default)]
    pub plan_mode_required: bool,
    /// Whether it has had a plan approved in this life.
    #[serde(default)]
    pub plan_approved: bool,
    /// The shutdown request that awaits its answer.
    #[serde(default)]
    pub pending_shutdown: Option<Pending>,
    /// Its plan that awaits an answer.
    #[serde(default)]
    pub pending_plan: Option<Pending>,
    /// Its permission requests that await an answer, the oldest first.
    #[serde(default)]
    pub pending_permissions: Vec<Pending>,
    /// Which notices it gets.
    #[serde(default)]
    pub notice_level: NoticeLevel,
    /// Whether it is a host, which takes orders and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_host: bool,
    /// The order that began its present life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<Ordered>,
    /// That order, as long as it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_order: Option<Pending>,
    /// When its program's latest crashes were reported, the oldest first, across its lives.
    #[serde(default)]
    pub crashes_ms: Vec<u64>,
    /// How many of its lives the history records.
    #[serde(default)]
    pub lives: RecordedLives,
}

/// How many of a member's lives the history records, so that a member that joins over and over pushes nothing else out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLives {
    /// When the present period began.
    pub since_ms: u64,
    /// How many lives have begun in it.
    pub begun: u32,
    /// How many lives the history leaves out since the last one that it records. 0: it records the present one.
    pub left_out: u32,
}

/// How a member was ordered from a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// The request.
    pub request_id: String,
    /// The host that starts it, or has started it.
    pub host: Name,
    /// The message that holds its prompt. Empty: it has none.
    pub prompt_id: String,
    /// The public part of the join token that the host has taken the order with.
    #[serde(default)]
    pub token_id: Option<String>,
    /// Whether it is ordered again from another host if it is lost together with its host.
    #[serde(default)]
    pub reschedule: bool,
}

/// A request that awaits an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The request.
    pub id: String,
    /// When it expires.
    pub expires_ms: u64,
    /// The member that a permission request names as its approver. `None`: it names none, or it is of another kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<Name>,
}

/// The state of a member's life. Whether a live member is active or idle is in its presence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Counts as alive.
    Live,
    /// Has approved its shutdown, or was stopped by force.
    Stopping {
        /// The request that it approved. Empty: it is leaving voluntarily. `None`: it was stopped by force.
        request_id: Option<String>,
        /// Who stopped it by force. Empty: no one.
        #[serde(default)]
        forced_by: String,
        /// Whether the lead was notified that it has not exited.
        alarmed: bool,
    },
    /// Has exited.
    Exited {
        /// How it exited.
        exit: Exit,
        /// Whether it approved a shutdown or was stopped by force, so that its credential is no longer accepted.
        dismissed: bool,
    },
    /// Gave no heartbeat for too long.
    Lost,
    /// Was ordered from a host, and has not joined.
    Spawning,
}

impl Life {
    /// Returns how to describe a member whose life is ending or has ended, such as `has exited`. `None`: its life continues.
    pub fn how_it_ends(&self) -> Option<&'static str> {
        match self {
            Self::Live | Self::Lost | Self::Spawning => None,
            Self::Stopping { .. } => Some("is stopping"),
            Self::Exited { .. } => Some("has exited"),
        }
    }

    /// Returns whether this life has neither ended nor been lost.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live | Self::Stopping { .. })
    }

    /// Returns whether no other member may take the name.
    pub fn holds_name(&self) -> bool {
        self.is_live() || *self == Self::Spawning
    }
}

/// How a process exited. See `ExitReport` of the protocol.
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
    /// The shutdown request that the member had approved. Empty: none.
    #[serde(default)]
    pub approved_request_id: String,
    /// What the runner did to end the process: a `RunnerAction` of the protocol.
    #[serde(default)]
    pub runner_action: i32,
}

impl From<Exit> for v1::ExitReport {
    fn from(exit: Exit) -> Self {
        Self {
            code: exit.code,
            signal: exit.signal,
            duration: (exit.duration_ms > 0).then(|| duration(exit.duration_ms)),
            detail: exit.detail,
            approved_request_id: exit.approved_request_id,
            runner_action: exit.runner_action,
        }
    }
}

/// The attributes that a member gave itself. See `MemberAttributes` of the protocol.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attributes {
    /// Its role, such as `researcher`.
    pub agent_type: String,
    /// The model it uses.
    pub model: String,
    /// The machine it runs on.
    pub host: String,
    /// A color for displays.
    pub color: String,
    /// Free-form pairs.
    pub labels: BTreeMap<String, String>,
}

/// A team in the directory. Id: its folded name. May exist a moment before and after the team.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedTeam {
    /// The name as first written.
    pub name: Name,
}

stored_as_json!(ListedTeam, "listed");
