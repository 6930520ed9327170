//! The contract of teamwire: what travels between a client and a coordinator, and the rules that both must know.
//!
//! - [`v1`]: the generated protocol, from `proto/teamwire/v1`.
//! - [`name`], [`credential`], [`id`]: what may stand in a string field, checked once at the edge.
//! - [`address`], [`join_string`]: where a coordinator is, and the one word that is pasted to join from another machine.
//! - [`reason`]: the one table from reasons to gRPC codes; [`refusal`]: an error with its reason, as a `tonic::Status`.
//! - [`dialect`]: the JSON forms of SendMessage; [`word`]: the words in which people read values.
//! - [`trace_parent`]: the trace that a call or a message belongs to.

pub mod address;
pub mod credential;
pub mod dialect;
pub mod id;
pub mod join_string;
pub mod name;
pub mod reason;
pub mod refusal;
pub mod trace_parent;
pub mod word;

pub use reason::Reason;
pub use refusal::Refusal;

/// The generated protocol, version 1.
#[allow(missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("teamwire.v1");
}

/// The descriptors of the protocol, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The metadata key that carries the id of the caller's open session.
pub const SESSION_METADATA_KEY: &str = "teamwire-session";
