//! The task board.
//!
//! A claim has no lease: it ends with the life of its owner, whose lease its heartbeats renew. Every rule that ends a
//! life calls [`give_back::give_back`]. A detached life may last forever, so its claims expire.
//!
//! - [`board`] and [`terms`]: what is stored. [`change`]: a board that is about to be changed.
//! - [`edit`]: adding, changing and deleting tasks; [`dependencies`] between them.
//! - [`claim`]: who works on them. [`give_back`]: what happens to a member's tasks when its life or their claims end.
//! - [`paths`]: which files tasks will change, and which claims that excludes. [`review`]: tasks that await their review.
//! - [`listing`]: which tasks a list contains.
//! - [`authority`]: who may change a task. [`notices`]: what owners and subscribers learn. [`remembered`]: tasks in the replies to
//!   repeated calls.

mod authority;
pub mod board;
mod change;
pub mod claim;
mod dependencies;
pub mod edit;
pub mod give_back;
pub mod listing;
mod notices;
mod paths;
mod remembered;
pub mod review;
mod terms;

pub use board::record_id;
pub use give_back::claimed_by;
pub(super) use notices::{closed, summary_of};
pub use terms::{PathsRecord, TaskPaths};
