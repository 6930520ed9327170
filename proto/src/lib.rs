//! The protocol of teamwire: what clients and coordinators exchange, and the rules that both must know.
//!
//! - [`v1`]: the generated protocol, from `proto/teamwire/v1`.
//! - [`body`], [`method`], [`reason`]: the tables of message kinds, RPCs and reasons, generated from the protocol's
//!   options.
//! - [`refusal`]: an error with its reason, which travels in a `tonic::Status`.
//! - [`name`], [`credential`], [`id`]: string fields with a format, parsed once at the edge.
//! - [`address`], [`join_string`]: where a coordinator listens, and the one word to paste to join from another machine.
//! - [`dialect`]: the JSON forms of SendMessage; [`word`]: how people read values; [`visible`]: which characters they
//!   see.
//! - [`permission_rule`]: what a permission rule permits.
//! - [`duration`]: durations, from their protocol form.
//! - [`codec`]: how much memory encoding takes.
//! - [`audit_chain`]: how the entries of the audit log are bound to each other.
//! - `failpoint`: places at which a test can kill a coordinator or a host.
//! - [`trace_parent`]: the trace that a call or a message belongs to.

pub mod address;
pub mod audit_chain;
pub mod body;
pub mod codec;
pub mod credential;
pub mod dialect;
pub mod duration;
#[doc(hidden)]
pub mod failpoint;
mod host;
pub mod id;
pub mod join_string;
pub mod method;
pub mod name;
pub mod permission_rule;
pub mod reason;
pub mod refusal;
mod shorthand;
pub mod trace_parent;
mod usage;
pub mod visible;
pub mod word;

pub use body::Kind;
pub use method::{Method, Wait};
pub use reason::Reason;
pub use refusal::Refusal;

/// The generated protocol, version 1.
#[allow(missing_debug_implementations, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("teamwire.v1");
}

mod notice {
    //! The table of notice kinds. It comes from the options of `NoticeKind` in `teamwire/v1/message.proto`.

    use crate::v1::{Notice, NoticeKind};

    include!(concat!(env!("OUT_DIR"), "/notice.rs"));
}

mod redact {
    //! `Debug` for messages that hold a secret.

    use std::fmt;

    use crate::v1;

    /// A secret in debug output.
    struct Redacted(bool);

    impl fmt::Debug for Redacted {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(if self.0 { "\"\"" } else { "[redacted]" })
        }
    }

    include!(concat!(env!("OUT_DIR"), "/redact.rs"));
}

/// The descriptors of the protocol, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The metadata key that carries the id of the caller's open session.
pub const SESSION_METADATA_KEY: &str = "teamwire-session";

/// How many bytes a request may have that travels as a frame of CallService.Carry.
pub const FRAME_BYTES_MAX: usize = 16 * 1024;
