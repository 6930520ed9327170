//! What a coordinator tells its operators: numbers for Prometheus, and the spans of a call.
//!
//! - [`Metrics`]: every number, with its name and help text. [`metrics_endpoint`]: serves them to Prometheus.
//! - [`metered_store`]: times the store's operations. [`metered_conn`]: counts open connections.
//!
//! Calls are counted, logged and traced in `grpc/meter.rs`.
//!
//! Architecture invariant: no label holds the name of a team or a member, or anything else that callers choose; so the
//! number of series is bounded by what is written in this program. The exception is the usage of models (`usage.rs`),
//! if the configuration allows names there: the configuration bounds these series. `domain/` knows nothing about this.

mod decisions;
pub mod metered_conn;
pub mod metered_store;
mod metrics;
pub mod metrics_endpoint;
mod span;
mod usage;

pub use metrics::{HOST_STATES, Label, Labels, MEMBER_STATES, Metrics, QUOTA_LEVELS, SLOT_STATES, TASK_STATUSES};
pub(crate) use span::step;
