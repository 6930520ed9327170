//! What is stored of a team: the records, and the names of its streams, leases and notification topics.
//!
//! Messages and requests are stored in their protocol form; everything else as JSON, so that it can be read with the
//! store's own tools and gain fields without a migration.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use teamwire_proto::{name::Name, v1};
use uuid::Uuid;

use super::{
    post::duration,
    secret::SecretHash,
    task::board::{BoardRecord, TaskRecord, WaitingRecord},
};

/// The stream of a team's history. Each entry is a `HistoryEntry` in which messages and requests are only their ids.
pub const HISTORY: &str = "history";

/// The stream of the ids of all requests of a team, in the order in which they were made.
pub const REQUESTS: &str = "requests";

/// The stream of the ids of messages that lie in an inbox although the history has forgotten them.
pub const LEFTOVERS: &str = "leftovers";

/// Notification: any member's inbox may have grown.
pub const TOPIC_INBOXES: &str = "inboxes";

/// Notification: a task has changed.
pub const TOPIC_TASKS: &str = "tasks";

/// Notification: the team itself was changed or deleted.
pub const TOPIC_TEAM: &str = "team";

/// Returns the stream of a member's inbox. Each entry is the 16 bytes of a message's id.
pub fn inbox(member: &Name) -> String {
    format!("inbox/{}", member.folded())
}

/// Notification: this member's inbox has grown.
pub fn topic_inbox(member: &Name) -> String {
    format!("inbox/{}", member.folded())
}

/// Notification: the session of this member was replaced or ended.
pub fn topic_session(member: &Name) -> String {
    format!("session/{}", member.folded())
}

/// A kind of record.
pub trait RecordType: Sized + Send + Sync + 'static {
    /// Its name in the store.
    const KIND: &'static str;

    /// Returns what is stored.
    fn encode(&self) -> Bytes;

    /// Reads what was stored.
    fn decode(data: &[u8]) -> Result<Self, String>;
}

macro_rules! stored_as_json {
    ($($record:ty = $kind:literal),* $(,)?) => {$(
        impl RecordType for $record {
            const KIND: &'static str = $kind;

            fn encode(&self) -> Bytes {
                json(self)
            }

            fn decode(data: &[u8]) -> Result<Self, String> {
                from_json(data)
            }
        }
    )*};
}

macro_rules! stored_as_protobuf {
    ($($record:ty = $kind:literal),* $(,)?) => {$(
        impl RecordType for $record {
            const KIND: &'static str = $kind;

            fn encode(&self) -> Bytes {
                self.encode_to_vec().into()
            }

            fn decode(data: &[u8]) -> Result<Self, String> {
                prost::Message::decode(data).map_err(|error| error.to_string())
            }
        }
    )*};
}

stored_as_json! {
    TeamRecord = "team",
    SessionRecord = "session",
    CursorRecord = "cursor",
    PresenceRecord = "presence",
    ReceiptRecord = "receipt",
    UnprocessedRecord = "unprocessed",
    JoinTokenRecord = "token",
    ObserverRecord = "observer",
    ListedTeam = "listed",
    TaskRecord = "task",
    BoardRecord = "board",
    WaitingRecord = "waiting",
}

stored_as_protobuf! {
    v1::Message = "message",
    v1::Request = "request",
}

fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect("records have string keys and no failing serializers").into()
}

fn from_json<T: DeserializeOwned>(data: &[u8]) -> Result<T, String> {
    serde_json::from_slice(data).map_err(|error| error.to_string())
}

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

/// What a member does; id: the member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PresenceRecord {
    /// The life that said so.
    pub incarnation: u64,
    /// Has nothing to do.
    pub idle: bool,
    /// Since when.
    pub since_ms: u64,
    /// What it did last.
    pub summary: String,
}

/// What became of a message at a recipient, once it has left the inbox; id: `MESSAGE/member`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiptRecord {
    /// Its place in the inbox.
    pub sequence: u64,
    /// When it was last delivered. Zero: not known.
    pub delivered_ms: u64,
    /// When it left the inbox.
    pub finished_ms: u64,
    /// How many sessions have delivered it or may have.
    pub delivery_count: u32,
    /// Why it was given up, the name of a `DeadLetterCause`. Empty: it was processed.
    pub cause: String,
}

/// The last alarm of unprocessed messages; id: the member whose they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UnprocessedRecord {
    /// The place of the oldest of them.
    pub sequence: u64,
    /// When the lead was told.
    pub told_ms: u64,
}

/// A join token; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinTokenRecord {
    /// Of its secret.
    pub secret: SecretHash,
    /// The one name that it may be used for.
    pub member: Option<Name>,
    /// How many joins are left.
    pub uses_left: u32,
    /// When it expires.
    pub expires_ms: u64,
    /// Who joins with it must have a plan approved.
    pub plan_mode_required: bool,
}

/// An observer's credential; id: its public part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ObserverRecord {
    /// Of its secret.
    pub secret: SecretHash,
    /// When it expires.
    pub expires_ms: u64,
}

/// A team in the directory; id: its folded name. May outlive the team for a moment, and precede it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedTeam {
    /// As first written.
    pub name: Name,
}
