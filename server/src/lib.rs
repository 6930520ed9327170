//! The coordinator of teamwire, as a library.
//!
//! - [`domain`]: the rules, as pure functions. [`coordinator`]: runs them against the store.
//! - [`store`]: the store's contract and its backends.
//! - [`notify`]: wakes those who wait for a commit. [`delivery`]: open sessions and background work.
//! - [`grpc`]: the protocol's services. [`edge`]: connections, TLS, bounds of the transport.
//! - [`console`]: the web page for people, and what browsers may ask for. [`mcp`]: tools for agent programs, over HTTP.
//! - [`sender`]: sends notifications to people's servers and programs.
//! - [`budget`]: how much of the coordinator each credential may use.
//! - [`telemetry`]: metrics and spans. [`health`]: whether the coordinator can work.
//! - [`server`]: [`server::run`] builds a coordinator and serves it.
//!
//! Architecture invariant: dependencies go `grpc` > `delivery` > `coordinator` > `notify` > `domain` > `store`, never
//! back; `tests/architecture.rs` enforces this.

pub mod budget;
pub mod console;
pub mod coordinator;
pub mod delivery;
pub mod domain;
pub mod edge;
pub mod grpc;
pub mod health;
pub mod mcp;
pub mod notify;
pub mod sender;
pub mod server;
pub mod store;
pub mod telemetry;
