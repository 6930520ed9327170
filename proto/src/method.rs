//! The RPCs and how clients may repeat them. The table comes from the options in `teamwire/v1`.

use std::time::Duration;

use crate::duration;

include!(concat!(env!("OUT_DIR"), "/method.rs"));

/// What an RPC does to a coordinator, which limits how a client may repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Read,
    /// A change that may be repeated, by its idempotency key or by its nature.
    Repeatable,
    /// A change that must not be repeated while its outcome is unknown.
    Once,
}

/// How long a coordinator holds back its reply when the request asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The request's field that asks for it.
    pub field: &'static str,
    /// How long when the field is absent.
    pub default: Duration,
    /// The longest wait; larger values are treated as this.
    pub max: Duration,
}

impl Wait {
    /// Returns how long the coordinator waits, given the request's field. None: the field is negative.
    pub fn asked(&self, field: Option<&prost_types::Duration>) -> Option<Duration> {
        let asked = field.map_or(Some(self.default), |&asked| duration::from_proto(asked))?;
        Some(asked.min(self.max))
    }
}
