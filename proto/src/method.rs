//! The RPCs: who may call them, and how clients may repeat them. The table comes from the options in `teamwire/v1`.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use crate::{
    duration,
    v1::{Audience, AuditClass},
};

include!(concat!(env!("OUT_DIR"), "/method.rs"));

static BY_PATH: LazyLock<HashMap<&'static str, Method>> =
    LazyLock::new(|| Method::ALL.iter().map(|method| (method.path(), *method)).collect());

impl Method {
    /// Returns the RPC that clients call at a path. `None` if there is none.
    pub fn at(path: &str) -> Option<Self> {
        BY_PATH.get(path).copied()
    }

    /// Returns whether CallService.Carry carries the call: it has one reply, which the coordinator does not hold back.
    pub fn travels_in_frames(self) -> bool {
        !self.is_streaming() && self.wait().is_none()
    }
}

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
    /// Returns how long the coordinator waits, given the request's field. `None` if the field is negative.
    pub fn asked(&self, field: Option<&prost_types::Duration>) -> Option<Duration> {
        let asked = field.map_or(Some(self.default), |&asked| duration::from_proto(asked))?;
        Some(asked.min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_found_by_the_path_that_clients_call() {
        assert_eq!(BY_PATH.len(), Method::ALL.len());
        assert_eq!(Method::at("/teamwire.v1.MessageService/Send"), Some(Method::Send));
        assert_eq!(Method::at("/teamwire.v1.MessageService/Sent"), None);
    }
}
