//! The edge towards the network: who may connect, how long it may take, and how much it may ask for at once.
//!
//! - [`Acceptor`]: takes connections, up to a number, and shakes hands.
//! - [`tls`]: certificates, and taking new ones while running.
//! - [`connection`]: what hyper reads from and writes to; closes itself when nobody has shown a credential in time.
//! - [`auth_gate`]: finds out whether somebody has.
//!
//! A connection goes through `Acceptor` on a task of its own until it speaks HTTP/2, so that a slow one keeps nobody
//! else waiting. From there on it is tonic's and hyper's, within the bounds that [`Bounds::server`] sets.
//!
//! Architecture invariant: nothing here knows what is asked for; `grpc/` only says when a credential was shown.

mod acceptor;
pub mod auth_gate;
mod bounds;
pub mod connection;
pub mod tls;

pub use acceptor::{Acceptor, Listen};
pub use bounds::Bounds;
