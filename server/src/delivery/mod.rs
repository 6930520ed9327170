//! Open sessions: delivering to them, keeping their members alive, ending them.
//!
//! - [`session`]: the loop of one session. [`reconciler`]: finds what wake-ups have missed. [`data_loss`]: when the store has
//!   lost what it had answered.
//! - [`heartbeats`]: signs of life, gathered and written in batches. [`expiry_worker`]: what is due when time passes;
//!   [`retention_worker`]: what may be forgotten. [`gauges`]: numbers that are looked up from time to time.

pub mod data_loss;
pub mod expiry_worker;
pub mod gauges;
pub mod heartbeats;
pub mod reconciler;
pub mod retention_worker;
pub mod session;
