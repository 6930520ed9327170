//! Processes that end with everything they started.
//!
//! - [`process_tree`]: starts a program, waits for it, and ends it with its descendants. [`descendants`]: finds and reaps them.
//! - [`parent_death`]: has the kernel end a program when its runner dies.

mod descendants;
mod parent_death;
mod process_tree;

pub(crate) use process_tree::Process;
