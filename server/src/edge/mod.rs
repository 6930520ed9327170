//! The network edge: who may connect, how long that may take, and how much a client may demand at once.
//!
//! - [`listen`]: the network, and the Unix socket of this machine.
//! - [`Acceptor`]: accepts connections, and does the TLS handshake.
//! - [`slots`]: how many connections may be open, and whose.
//! - [`tls`]: certificates, and reloading them while running.
//! - [`connection`]: what hyper reads from and writes to; closes itself if no call presents a valid credential in time.
//! - [`auth_gate`]: notes whether one has.
//! - [`PublicListener`]: accepts connections from probes and scrapers, which present no credential.
//!
//! A connection passes through `Acceptor` on its own task until it speaks HTTP/2, so that a slow one delays no other.
//! From then on tonic and hyper own it, within the bounds that [`Bounds::server`] sets.
//!
//! Architecture invariant: nothing here knows what calls are about; `grpc/` only says when a credential is valid.

mod acceptor;
pub mod auth_gate;
mod bounds;
pub mod connection;
pub mod listen;
mod pace;
mod public_listener;
mod slots;
pub mod tls;

pub use acceptor::Acceptor;
pub use bounds::Bounds;
pub use listen::Listen;
pub use public_listener::PublicListener;
