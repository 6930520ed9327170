//! Wakes the sessions and calls that wait for a commit, made here or by another coordinator.
//!
//! - [`Notifier`]: knows the open sessions of this coordinator, and the calls that wait in a team, by namespace
//!   (`NamespaceWaiters`).
//! - [`TeamChanges`]: what may have changed in a team that someone watches.
//! - [`Mailbox`]: the part of a session that others touch. [`PendingCommit`]: a commit whose outcome is not known yet.
//!
//! A notification says where to look, never what is there, and may be lost. The one exception is an arrival: an entry
//! of an inbox that this very coordinator has just committed. A session takes it without reading the store if its
//! sequence is exactly the next one.
//!
//! Architecture invariant: nothing here knows the coordinator or delivery.

mod mailbox;
mod notifier;
mod pending_commit;
mod team_changes;
mod waiters;

pub use mailbox::Mailbox;
pub(crate) use mailbox::{Arrival, Delivered, Outstanding, Work};
pub use notifier::Notifier;
pub(crate) use notifier::{Changes, Worker};
pub(crate) use pending_commit::PendingCommit;
pub(crate) use team_changes::Unread;
