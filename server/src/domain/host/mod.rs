//! Hosts: what they offer, which one gets an order, and how they answer it.
//!
//! A host is a member of the roster that takes orders and does nothing else. An order is a request; `request/spawn.rs`
//! describes how it ends.

mod ending;
mod offer;
mod order;
mod placement;
mod reschedule;
mod spawn;

pub use ending::expire_overdue;
pub use offer::{show, update};
pub use order::{refuse, report_exit, take};
pub use placement::{Candidate, candidates};
pub use reschedule::reschedule;
pub use spawn::spawn;
