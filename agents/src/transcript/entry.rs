//! One entry, and the line of JSON that holds it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use teamwire_proto::{
    v1::{self, TranscriptKind},
    word::cut_middle,
};

/// How many bytes of a text are kept.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What happened, for the transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) incarnation: u64,
    pub(crate) turn: u64,
    pub(crate) kind: TranscriptKind,
    pub(crate) text: String,
    pub(crate) tool: String,
    pub(crate) call_id: String,
    pub(crate) failed: bool,
    pub(crate) usage: Option<v1::Usage>,
}

/// An entry as a line of its file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub(super) sequence: u64,
    at: Timestamp,
    pub(super) incarnation: u64,
    pub(super) turn: u64,
    /// The last word of the kind's name in the protocol.
    kind: String,
    text: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    tool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call_id: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<v1::Usage>,
}

/// What the names of all kinds begin with.
const PREFIX: &str = "TRANSCRIPT_KIND_";

impl Line {
    /// Makes the line of an entry that happens now.
    pub(super) fn new(sequence: u64, entry: Entry) -> Self {
        let kind = entry.kind.as_str_name();
        Self {
            sequence,
            at: Timestamp::now(),
            incarnation: entry.incarnation,
            turn: entry.turn,
            kind: kind.strip_prefix(PREFIX).unwrap_or(kind).to_ascii_lowercase(),
            text: cut_middle(&entry.text, TEXT_BYTES_MAX),
            tool: entry.tool,
            call_id: entry.call_id,
            failed: entry.failed,
            usage: entry.usage,
        }
    }

    /// Returns the protocol form.
    pub(super) fn show(self) -> v1::TranscriptEntry {
        let kind = TranscriptKind::from_str_name(&format!("{PREFIX}{}", self.kind.to_ascii_uppercase()));
        v1::TranscriptEntry {
            sequence: self.sequence,
            at: Some(prost_types::Timestamp { seconds: self.at.as_second(), nanos: self.at.subsec_nanosecond() }),
            incarnation: self.incarnation,
            turn: self.turn,
            kind: kind.unwrap_or_default().into(),
            text: self.text,
            tool: self.tool,
            call_id: self.call_id,
            failed: self.failed,
            usage: self.usage,
        }
    }
}
