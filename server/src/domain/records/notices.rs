//! The notices of a member, and the level at which it gets them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use teamwire_proto::{id::MessageId, v1};

use super::record_type::stored_as_json;

/// Which notices a member gets. See `NoticeLevel` of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// All.
    #[default]
    All,
    /// Only important ones.
    Important,
    /// Important ones at once, the others in a digest.
    Digest,
}

impl NoticeLevel {
    /// Reads a level as the protocol names it. `None` means unspecified.
    pub fn from_protocol(level: v1::NoticeLevel) -> Option<Self> {
        match level {
            v1::NoticeLevel::Unspecified => None,
            v1::NoticeLevel::All => Some(Self::All),
            v1::NoticeLevel::Important => Some(Self::Important),
            v1::NoticeLevel::Digest => Some(Self::Digest),
        }
    }
}

impl From<NoticeLevel> for v1::NoticeLevel {
    fn from(level: NoticeLevel) -> Self {
        match level {
            NoticeLevel::All => Self::All,
            NoticeLevel::Important => Self::Important,
            NoticeLevel::Digest => Self::Digest,
        }
    }
}

/// The notices that a member may not have processed yet: the latest of each kind about each thing. Id: the member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticesRecord {
    /// One slot for each kind and thing, in the order in which they were last used.
    pub slots: Vec<NoticeSlot>,
}

stored_as_json!(NoticesRecord, "notices");

/// The latest notice of one kind about one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeSlot {
    /// The number of its `NoticeKind`.
    pub kind: i32,
    /// What it is about; see `Notice::about`.
    pub about: String,
    /// Whether it is important.
    pub important: bool,
    /// The one that was put into the inbox. `None` if it was processed, or there was none.
    pub sent: Option<SentNotice>,
    /// The one that waits to be sent.
    pub waiting: Option<WaitingNotice>,
}

/// A notice in an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentNotice {
    /// The message.
    pub message_id: MessageId,
    /// When it was sent.
    pub sent_ms: u64,
}

/// A notice that waits to be sent. Its message is stored, and changes until it is sent; no inbox names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingNotice {
    /// The message.
    pub message_id: MessageId,
    /// When to send it.
    pub due_ms: u64,
}

/// When the first waiting notice of each member is due, and when its first subscription expires. Id: "".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueNoticesRecord {
    /// When the first waiting notice is due, by the folded names of the members that have any.
    pub due_ms: BTreeMap<String, u64>,
    /// When the first subscription expires, by the folded names of the members that have any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub expiry_ms: BTreeMap<String, u64>,
}

stored_as_json!(DueNoticesRecord, "due");
