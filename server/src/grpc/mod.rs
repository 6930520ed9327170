//! The protocol's services: parse a call, have the coordinator carry it out, build the reply.
//!
//! - [`message`](self), `team`, `request`, `task`, `history`, `host`, `watch`, `access`, `audit`, `backup`,
//!   `carry`: the services, one file each. [`frames`]: the replies to calls in frames. [`follow`]: streams that follow a team. [`advertised`]: what goes into join strings.
//! - [`call_layer`]: what happens to a call, step by step. [`call`]: what the steps share. [`credentials`]: who calls.
//!   [`admission`]: whether the credential is current, and who pays. [`cost`]: what a call costs. [`request_body`]:
//!   requests that arrive. [`reply_body`]: replies that wait. [`audited`], [`audit_entry`]: what the audit log keeps.
//!   [`meter`]: counts, logs and traces calls. [`request_errors`]: explains what tonic refuses. [`web`]: translates
//!   gRPC-web.
//!
//! Architecture invariant: only this module names `tonic::Status`; no rule is in here.

mod access;
mod admission;
mod advertised;
mod audit;
mod audit_entry;
mod audited;
mod backup;
mod call;
pub mod call_layer;
mod carry;
mod cost;
mod credentials;
mod follow;
mod frames;
mod history;
mod host;
mod message;
mod meter;
mod reply_body;
mod request;
mod request_body;
mod request_errors;
pub mod services;
mod task;
mod team;
mod watch;
pub mod web;

pub use self::advertised::Advertised;
pub use self::services::{ServiceConfig, Services};
