//! The marker: one key that tells which store this is, and in which format its data is.
//!
//! The first coordinator that connects to a store creates it, with a random id that becomes part of the server's
//! history (see `data_loss.rs`). If the id changes, the store was emptied, for example by FLUSHALL, or replaced by
//! another one.

use redis::{Cmd, Value};

use super::keys::Keys;
use crate::store::{FORMAT_KNOWN, StoreError, newer_format};

/// The marker of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The store's id.
    pub(super) id: String,
    format: u64,
    /// The teamwire that wrote it.
    release: Option<String>,
}

impl Marker {
    /// Returns the command that reads the marker.
    pub(super) fn query(keys: &Keys) -> Cmd {
        let mut query = redis::cmd("HMGET");
        query.arg(keys.marker()).arg(&["id", "format", "release"]);
        query
    }

    /// Returns the command that creates the marker if there is none, with a new id, and then reads it.
    pub(super) fn create(keys: &Keys, function: &str) -> Cmd {
        let mut create = redis::cmd("FCALL");
        create.arg(function).arg(1).arg(keys.marker());
        create.arg(format!("{:08x}", rand::random::<u32>())).arg(FORMAT_KNOWN).arg(env!("CARGO_PKG_VERSION"));
        create
    }

    /// Parses the answer to either command. `None` if there is no marker.
    pub(super) fn parse(answer: Value) -> Option<Self> {
        let (id, format, release) = redis::from_redis_value::<(Option<String>, Option<u64>, _)>(answer).ok()?;
        Some(Self { id: id?, format: format?, release })
    }

    /// Fails if a newer version of teamwire wrote the store at `address`, and this one may misread it.
    pub(super) fn check_format(&self, address: &str) -> Result<(), StoreError> {
        if self.format <= FORMAT_KNOWN {
            return Ok(());
        }
        let store = format!("the store at {address}");
        Err(StoreError::Unusable(newer_format(&store, self.format, self.release.as_deref())))
    }
}
