//! Reads the body of a message of any kind. `Message.body` in `teamwire/v1/message.proto` lists the kinds.
//!
//! Both `Body` types of [`v1`] read alike whatever their kind: `kind()`, `recipient()`, `tool()`, `summary()`,
//! `text()`, `request_id()`, `approve()`.

use crate::v1::{self, message, send_request};

include!(concat!(env!("OUT_DIR"), "/body.rs"));

/// What messages of any kind are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The member that receives it.
    pub recipient: String,
    /// What the sender asks to use.
    pub tool: String,
    /// One line about it.
    pub summary: String,
    /// The content, the reason, the plan, the feedback or the detail.
    pub text: String,
    /// The id of the request that it answers.
    pub request_id: String,
    /// The decision on that request.
    pub approve: Option<bool>,
}

impl Kind {
    /// Returns whether a message of this kind makes a request, which is answered by another message.
    pub const fn is_request(self) -> bool {
        self.answered_by().is_some()
    }

    /// Returns the kind that a client can send and that has this name.
    pub fn sendable(name: &str) -> Option<Self> {
        Self::SENDABLE.iter().copied().find(|kind| kind.name() == name)
    }
}
