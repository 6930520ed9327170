//! What the lines of a backup say.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::store::{FORMAT_KNOWN, Item, Namespace};

/// The format in which this version writes backups. Increase it when older versions could no longer read them.
pub const FORMAT: u64 = 1;

/// The first line of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the backup, [`FORMAT`].
    pub teamwire_backup: u64,
    /// The version of teamwire that made it.
    pub release: String,
    /// The format of the store that it is from.
    pub store_format: u64,
    /// The kind of that store.
    pub store: String,
    /// When it was begun, as in RFC 3339.
    pub at: String,
    /// What the backup covers.
    pub covers: String,
}

impl Header {
    /// Describes a backup that this version begins now.
    pub(super) fn now(store: &str) -> Self {
        Self {
            teamwire_backup: FORMAT,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            store_format: FORMAT_KNOWN,
            store: store.to_owned(),
            at: prost_types::Timestamp::from(std::time::SystemTime::now()).to_string(),
            covers: "the whole store".to_owned(),
        }
    }
}

/// How many lines of each sort a backup has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Namespaces: teams, the directory and the audit log.
    pub namespaces: u64,
    /// Records.
    pub records: u64,
    /// Streams.
    pub streams: u64,
    /// Entries of streams.
    pub entries: u64,
    /// Leases.
    pub leases: u64,
    /// Idempotency keys.
    pub replies: u64,
}

impl Counts {
    /// Counts an item.
    pub(super) fn add(&mut self, item: &Item) {
        *match item {
            Item::Namespace { .. } => &mut self.namespaces,
            Item::Record { .. } => &mut self.records,
            Item::Stream { .. } => &mut self.streams,
            Item::Entry { .. } => &mut self.entries,
            Item::Lease { .. } => &mut self.leases,
            Item::Reply { .. } => &mut self.replies,
        } += 1;
    }
}

/// The last line of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) counts: Counts,
    /// The BLAKE3 hash of all lines before.
    pub(super) blake3: String,
}

/// A line after the header.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'l> {
    Namespace { name: Cow<'l, str>, version: u64, clock_ms: u64 },
    Record { kind: Cow<'l, str>, id: Cow<'l, str>, data: Data<'l> },
    Entry { stream: Cow<'l, str>, sequence: u64, weight: u64, data: Data<'l> },
    Stream { stream: Cow<'l, str>, next: u64 },
    Lease { name: Cow<'l, str>, left_ms: u64 },
    Reply { key: Cow<'l, str>, data: Data<'l> },
    End(End),
}

/// Contents: a text, so that a person can read it, or any bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Data<'l> {
    Text(Cow<'l, str>),
    Bytes { base64: String },
}

impl<'l> From<&'l Bytes> for Data<'l> {
    fn from(data: &'l Bytes) -> Self {
        match std::str::from_utf8(data) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Bytes { base64: BASE64_STANDARD.encode(data) },
        }
    }
}

impl Data<'_> {
    fn decode(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(text.into_owned().into()),
            Self::Bytes { base64 } => BASE64_STANDARD.decode(base64).ok().map(Bytes::from),
        }
    }
}

impl<'l> From<&'l Item> for Line<'l> {
    fn from(item: &'l Item) -> Self {
        match item {
            Item::Namespace { namespace, version, clock_ms } => {
                Self::Namespace { name: namespace.as_str().into(), version: *version, clock_ms: *clock_ms }
            }
            Item::Record { kind, id, data } => Self::Record { kind: kind.into(), id: id.into(), data: data.into() },
            Item::Entry { stream, sequence, weight, data } => {
                Self::Entry { stream: stream.into(), sequence: *sequence, weight: *weight, data: data.into() }
            }
            Item::Stream { stream, next } => Self::Stream { stream: stream.into(), next: *next },
            Item::Lease { name, left_ms } => Self::Lease { name: name.into(), left_ms: *left_ms },
            Item::Reply { key, data } => Self::Reply { key: key.into(), data: data.into() },
        }
    }
}

impl Line<'_> {
    /// Returns the item, or the last line. `None` if the contents are not what a backup holds.
    pub(super) fn decode(self) -> Option<Result<Item, End>> {
        Some(Ok(match self {
            Self::Namespace { name, version, clock_ms } => {
                Item::Namespace { namespace: namespace(&name)?, version, clock_ms }
            }
            Self::Record { kind, id, data } => {
                Item::Record { kind: kind.into_owned(), id: id.into_owned(), data: data.decode()? }
            }
            Self::Entry { stream, sequence, weight, data } => {
                Item::Entry { stream: stream.into_owned(), sequence, weight, data: data.decode()? }
            }
            Self::Stream { stream, next } => Item::Stream { stream: stream.into_owned(), next },
            Self::Lease { name, left_ms } => Item::Lease { name: name.into_owned(), left_ms },
            Self::Reply { key, data } => Item::Reply { key: key.into_owned(), data: data.decode()? },
            Self::End(end) => return Some(Err(end)),
        }))
    }
}

fn namespace(name: &str) -> Option<Namespace> {
    let fits = (1..=63).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b':' | b'/'));
    fits.then(|| Namespace::from_stored(name))
}
