//! The coordinator of teamwire.

pub mod store;
