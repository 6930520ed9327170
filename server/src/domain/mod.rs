//! The rules of teamwire, as pure functions: each takes records and a call, and returns a transaction or a refusal.
//!
//! Every rule is a function over a [`tx::Tx`]. The commit checks that every record which the rule has read through it
//! is unchanged, so a rule is written as if it ran alone. If a rule needs a record that is not loaded yet, it stops
//! with [`tx::RuleError::NeedsRecords`]; the coordinator loads the record and runs the rule again. A rule that runs
//! again must draw the same ids, so they come from the seed in its [`Context`].
//!
//! - [`records`]: what is stored of a team. [`streams`], [`topics`]: the names of its streams and notifications.
//! - [`caller`], [`identity`]: who calls, by credential. [`actor`]: who acts. [`access`]: signing in to the console,
//!   and revoking credentials.
//! - [`team`], [`membership`], [`life`]: teams, who is in them, and the lives of members. [`roster`]: finding and
//!   addressing members.
//! - [`send`]: the messages. [`tags`]: messages to the members that have a tag. [`request`]: the state machine of requests.
//! - [`permission_rules`]: what members may do without a permission request.
//! - [`task`]: the task board.
//! - [`session`]: subscriptions, deliveries, acknowledgements. [`post`], [`inbox`]: messages enter inboxes, and leave
//!   them. [`dead_letters`]: messages that cannot be delivered.
//! - [`notices`]: who gets the coordinator's notices, and how often. [`subscriptions`]: notices that members ask for. [`alerts`]: what people are notified of while they
//!   are away.
//! - [`audit`]: who used which powers, and who was refused.
//! - [`activity`]: what members' programs do and use. [`spending`]: how much they may use. [`runner_query`]: asking their runners for what only these have. [`same_files`]: members that change the same files. [`diagnosis`]: what is wrong, and what to do about it.
//! - [`due`]: what is due when time passes. [`retention`]: what is deleted, and when. [`history`]: what happened.
//!   [`quota`]: how much a team may hold.
//! - [`fields`], `text`, `path_pattern`, `envelope`, `idempotency`, [`time`]: what many calls share.
//! - [`query`]: what callers may see, and how it is shown. [`search`]: what was said. [`team_view`]: a team as those
//!   who watch it see it.
//!
//! Architecture invariant: no clock, no random numbers and no tonic in here; no store is called from here, only
//! described by its types; and no rule is anywhere else.

pub mod access;
pub mod activity;
pub mod actor;
pub mod alerts;
pub mod audit;
pub mod caller;
pub mod dead_letters;
pub mod diagnosis;
pub mod due;
mod envelope;
pub mod fields;
pub mod history;
pub mod host;
mod idempotency;
pub mod identity;
pub mod inbox;
pub mod life;
pub mod limits;
pub mod membership;
pub mod notices;
pub mod page;
mod path_pattern;
pub mod permission_rules;
pub mod post;
pub mod price;
pub mod query;
pub mod quota;
pub mod records;
mod refused_caller;
pub mod request;
pub mod retention;
pub mod roster;
pub mod runner_query;
pub mod same_files;
pub mod search;
pub mod secret;
pub mod send;
pub mod session;
pub mod spending;
pub mod streams;
pub mod subscriptions;
pub mod tags;
pub mod task;
pub mod team;
pub mod team_view;
mod text;
pub mod time;
pub mod topics;
pub mod tx;
pub mod work;

pub use limits::Limits;

use secret::{OperatorSecrets, SecretHash};

/// What a rule gets besides records.
#[derive(Clone, Debug)]
pub struct Context {
    /// The store's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// The source of ids and secrets. New for each call; the same when the call's rule runs again.
    pub seed: [u8; 32],
    /// The bounds in force.
    pub limits: std::sync::Arc<Limits>,
    /// The operator's secrets.
    pub operator: OperatorSecrets,
    /// The coordinator that runs the rule, as its notifications name it.
    pub by: u64,
    /// The store has refused the call's transaction because it is full, so the rule leaves out what it can do without,
    /// such as notices, and checks what it replaces; see
    /// [`Txn::applies_when_full`](crate::store::Txn::applies_when_full).
    pub store_is_full: bool,
}

impl Context {
    /// Returns whether this is the hash of a secret of the operator that is valid now.
    pub fn is_operator(&self, secret: &SecretHash) -> bool {
        self.operator.accept(secret, self.now_ms)
    }
}
