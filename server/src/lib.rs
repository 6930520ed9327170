//! The coordinator of teamwire.

pub mod domain;
pub mod store;
