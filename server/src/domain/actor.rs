//! Who acts.

use serde::{Deserialize, Serialize};
use teamwire_proto::{name::Name, v1};

/// Who acts: the sender of a message, the author of an entry in the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// A member.
    Member(Name),
    /// The operator.
    Operator,
    /// The coordinator itself.
    Coordinator,
}

impl From<&Actor> for v1::Sender {
    fn from(party: &Actor) -> Self {
        let (kind, name) = match party {
            Actor::Member(name) => (v1::SenderKind::Member, name.as_str()),
            Actor::Operator => (v1::SenderKind::Operator, "operator"),
            Actor::Coordinator => (v1::SenderKind::Coordinator, "coordinator"),
        };
        Self { kind: kind.into(), name: name.to_owned() }
    }
}

impl Actor {
    /// Returns the name under which the actor's idempotency keys are kept, in lower case. No member can be named
    /// `operator`.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Member(name) => name.folded(),
            Self::Operator | Self::Coordinator => "operator",
        }
    }
}
