//! Subscriptions to events: a member asks for one notice when something happens.
//!
//! A member's record holds its subscriptions, and a record for each event names its subscribers, so that an event that
//! no one waits for costs one read. Both change together.
//!
//! - [`subscribe`](mod@subscribe): the calls. [`happened`](mod@happened): an event ends subscriptions.
//! - [`expire`](mod@expire): time ends them, too. [`already`]: what is true already.

mod already;
mod expire;
mod happened;
mod subscribe;

pub use expire::expire;
pub use happened::{files_edited, forget, happened, life_ended, member_idle, task_done};
pub use subscribe::{cancel, list, subscribe};
