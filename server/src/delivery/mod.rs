//! Open sessions: delivering to them, keeping their members alive, ending them; and what is done in the background.
//!
//! - [`session`]: a session, from its opening to its last frame. [`delivery_loop`]: delivers while credit lasts.
//!   [`cursor`]: a session's progress. [`frames`]: its stream. [`end`]: why it ends.
//! - [`heartbeats`]: proof that members are alive, gathered and written in batches.
//! - [`team_watch`]: teams that clients watch.
//! - [`audit_writer`]: writes the audit log.
//! - [`reconciler`]: finds what sessions missed when notifications were lost.
//!   [`data_loss`]: what to do when the store has lost commits.
//! - [`due_worker`]: carries out what is due when time passes. [`retention_worker`]: deletes what has been kept long
//!   enough. [`alert_worker`]: notifies people. [`gauges`]: numbers that are looked up from time to time.

mod alert_worker;
pub mod audit_writer;
mod cursor;
pub mod data_loss;
mod delivery_loop;
pub mod due_worker;
mod end;
mod frames;
mod gauges;
pub mod heartbeats;
mod pace;
pub mod reconciler;
pub mod retention_worker;
pub mod session;
pub mod team_watch;
mod visits;

pub use self::alert_worker::{AlertQueue, AlertWorker, Targets};
pub use self::audit_writer::AuditWriter;
pub use self::frames::{Frame, FrameQueue};
pub use self::heartbeats::Heartbeats;
pub use self::pace::Pace;
pub use self::session::Session;
pub use self::team_watch::{TeamWatch, TeamWatches};
