//! The coordinator of teamwire, as a library.
//!
//! - [`domain`]: the rules, pure. [`coordinator`]: runs them against the store.
//! - [`store`]: the store's contract and its backends.
//! - [`delivery`]: open sessions. [`grpc`]: the protocol's face. [`edge`]: connections, TLS, bounds of the transport.
//! - [`rate`]: how fast members may send.
//! - [`telemetry`]: numbers, the log of calls, traces. [`health`]: whether it can do its work.
//! - [`server`]: [`server::run`] puts all of it together.

pub mod coordinator;
pub mod delivery;
pub mod domain;
pub mod edge;
mod failpoint;
pub mod grpc;
pub mod health;
pub mod notify;
pub mod rate;
pub mod server;
pub mod store;
pub mod telemetry;
