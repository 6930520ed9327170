//! The protocol's face: takes a call apart, has the coordinator decide it, puts the reply together.
//!
//! - [`message`](self), `team`, `request`, `task`, `history`, `host`, `watch`, `access`, `audit`, `backup`: the services, one file each. [`follow`]: streams that follow a
//!   team. [`advertised`]: what goes into join strings.
//! - Layers: [`credentials`] reads them once; [`audit_layer`] passes calls to the audit log, `audited` says which;
//!   [`budget_layer`] bounds what each call uses, as [`spending`] counts it, [`request_body`] the requests that arrive,
//!   and [`reply_body`] the replies that wait; [`heartbeat_layer`] counts calls as heartbeats; [`metrics_layer`] counts, logs and
//!   traces calls; [`request_errors`] explains what tonic refuses; [`web`] translates gRPC-web.
//!
//! Architecture invariant: only this module names `tonic::Status`; no rule is in here.

mod access;
mod advertised;
mod audit;
pub mod audit_layer;
mod audited;
mod backup;
pub mod budget_layer;
pub mod credentials;
mod follow;
pub mod heartbeat_layer;
mod history;
mod host;
mod message;
pub mod metrics_layer;
mod reply_body;
mod request;
pub mod request_body;
pub mod request_errors;
pub mod services;
mod spending;
mod task;
mod team;
mod watch;
pub mod web;

pub use self::advertised::Advertised;
pub use self::services::{ServiceConfig, Services};
