//! The rules of teamwire, as pure functions: from what was read and what is asked for to a transaction or a refusal.
//!
//! Every rule is a function over a [`tx::Tx`]. It reads records through it, and whatever it has read is checked again
//! when the transaction is committed; so a rule is written as if it ran alone. When it needs a record that is not
//! loaded yet it stops with [`tx::RuleError::NeedsRecords`]; the coordinator loads the record and runs the rule again. A rule that
//! runs again must come to the same ids: they are drawn from the seed in its [`Context`].
//!
//! - [`record`]: what is stored of a team.
//! - [`identity`]: who calls, from a credential.
//! - [`team`], [`membership`]: teams and the lives of their members. [`roster`]: finding and addressing members.
//! - [`send`]: the six messages. [`request`]: the one state machine of shutdowns and plans.
//! - [`task`]: the task board.
//! - [`session`]: subscriptions, deliveries, acknowledgements. [`post`]: putting messages into inboxes.
//! - [`deadline`]: what happens by itself when time passes. [`retention`]: what is forgotten.
//! - [`query`]: what may be seen, and how it is shown.
//!
//! Architecture invariant: no clock, no random, no tonic, no store in here; no rule anywhere else.

pub mod actor;
pub mod dead_letters;
pub mod deadline;
mod envelope;
pub mod fields;
pub mod history;
mod idempotency;
pub mod identity;
pub mod inbox;
pub mod life;
pub mod limits;
pub mod membership;
pub mod page;
pub mod post;
pub mod query;
pub mod records;
pub mod request;
pub mod retention;
pub mod roster;
pub mod secret;
pub mod send;
pub mod session;
pub mod streams;
pub mod task;
pub mod team;
mod text;
pub mod time;
pub mod topics;
pub mod tx;

pub use limits::Limits;

use secret::SecretHash;

/// What a rule is given besides the records.
#[derive(Clone, Debug)]
pub struct Context {
    /// The store's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// Where ids and secrets are drawn from. Fresh for each call, the same when a rule runs again for it.
    pub seed: [u8; 32],
    /// The bounds in force.
    pub limits: std::sync::Arc<Limits>,
    /// The hash of the operator's secret.
    pub operator: SecretHash,
    /// Which coordinator runs the rule, as its notifications say.
    pub by: u64,
}
