//! A team with its roster, and its entry in the directory.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use teamwire_proto::{
    id::{MessageId, RequestId},
    name::Name,
    v1,
};
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
    /// The reviews of its tasks that await an answer, the oldest first. They outlive its lives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_reviews: Vec<Pending>,
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
    /// How its program exited in the latest of these crashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_crash: Option<Exit>,
    /// How many of its lives the history records.
    #[serde(default)]
    pub lives: RecordedLives,
    /// Its tags. They belong to the name, and outlive its lives.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<Name>,
}

/// How many of a member's lives the history records, so that a member that joins over and over pushes nothing else out
/// of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLives {
    /// When the present period began.
    pub since_ms: u64,
    /// How many lives have begun in it.
    pub begun: u32,
    /// How many lives the history leaves out since the last one that it records. 0 if it records the current life.
    pub left_out: u32,
}

/// How a member was ordered from a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// The request.
    pub request_id: RequestId,
    /// The host that starts it, or has started it.
    pub host: Name,
    /// The message that holds its prompt, if it has one.
    pub prompt_id: Option<MessageId>,
    /// The public part of the join token that the host has taken the order with.
    #[serde(default)]
    pub token_id: Option<String>,
    /// Whether it is ordered again from another host if it is lost together with its host.
    #[serde(default)]
    pub reschedule: bool,
}

/// A request that awaits an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The request.
    pub id: RequestId,
    /// When it was made.
    #[serde(default)]
    pub created_ms: u64,
    /// When it expires.
    pub expires_ms: u64,
    /// The member that a permission request or a review names. `None` if it names none, or it is of another kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<Name>,
}

impl Pending {
    /// Returns a request that is made now, and expires after this time.
    pub fn new(id: RequestId, now_ms: u64, deadline_ms: u64) -> Self {
        Self { id, created_ms: now_ms, expires_ms: now_ms.saturating_add(deadline_ms), approver: None }
    }
}

/// The state of a member's life. Whether a live member is active or idle is in its presence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Counts as alive.
    Live,
    /// Has approved its shutdown, is leaving, or was stopped by force.
    Stopping {
        /// Which of these.
        cause: EndCause,
        /// Whether the lead was notified that it has not exited.
        alarmed: bool,
    },
    /// Has exited.
    Exited {
        /// How its process exited.
        exit: Exit,
        /// Why the life ended.
        cause: EndCause,
    },
    /// Gave no heartbeat for too long.
    Lost,
    /// Was ordered from a host, and has not joined.
    Spawning,
}

/// Why a life is ending or has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The member approved this shutdown request.
    Approved(RequestId),
    /// The member left.
    Left,
    /// The member was stopped by force.
    Forced {
        /// The name of the lead or the operator that stopped it.
        by: String,
    },
    /// The member was ordered from a host, and its order ended before it had started.
    NotStarted,
    /// The process ended, and the member had neither approved its shutdown nor left.
    ProcessEnded,
}

impl EndCause {
    /// Returns whether the life's credential is no longer accepted: to come back, the member needs a join token.
    pub fn is_dismissal(&self) -> bool {
        match self {
            Self::Approved(_) | Self::Forced { .. } | Self::NotStarted => true,
            Self::Left | Self::ProcessEnded => false,
        }
    }

    /// Returns whether the member itself has decided to exit.
    pub fn is_own_decision(&self) -> bool {
        matches!(self, Self::Approved(_) | Self::Left)
    }

    /// Returns the shutdown request that the member approved.
    pub fn approved(&self) -> Option<&RequestId> {
        match self {
            Self::Approved(id) => Some(id),
            _ => None,
        }
    }
}

impl Life {
    /// Returns how to describe a member whose life is ending or has ended, such as `has exited`. `None` if its life
    /// continues.
    pub fn how_it_ends(&self) -> Option<&'static str> {
        match self {
            Self::Live | Self::Lost | Self::Spawning => None,
            Self::Stopping { .. } => Some("is stopping"),
            Self::Exited { .. } => Some("has exited"),
        }
    }

    /// Returns how the member exited, if it has.
    pub fn exit_report(&self) -> Option<v1::ExitReport> {
        match self {
            Self::Exited { exit, cause } => Some(exit.report(cause)),
            _ => None,
        }
    }

    /// Returns whether the member was stopped by force and has not exited.
    pub fn is_forced(&self) -> bool {
        matches!(self, Self::Stopping { cause: EndCause::Forced { .. }, .. })
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
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub duration_ms: Option<u64>,
    /// Why, for a reader.
    pub detail: String,
    /// What the runner did to end the process: a `RunnerAction` of the protocol.
    pub runner_action: i32,
}

impl Exit {
    /// Returns an exit of which only this is known, for a reader.
    pub fn unseen(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..Self::default() }
    }

    /// Returns the protocol form. `cause`: why the life ended.
    pub fn report(&self, cause: &EndCause) -> v1::ExitReport {
        v1::ExitReport {
            code: self.code,
            signal: self.signal.unwrap_or_default(),
            duration: self.duration_ms.map(duration),
            detail: self.detail.clone(),
            approved_request_id: cause.approved().map(RequestId::to_string).unwrap_or_default(),
            runner_action: self.runner_action,
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
