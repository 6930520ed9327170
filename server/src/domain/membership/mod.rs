//! Who is in a team: inviting, joining, leaving, stopping by force; who leads; which notices and tags members get.

mod exit;
mod heartbeat;
mod invite;
mod join;
mod lead;
mod notice_level;
mod tags;
mod work_failure;

pub(super) use exit::{conclude_life, exit_of};
pub use exit::{force_stop, leave};
pub use heartbeat::heartbeat;
pub use invite::{create_observer, invite};
pub use join::join;
pub use lead::set_lead;
pub use notice_level::set_notice_level;
pub use tags::set_tags;
