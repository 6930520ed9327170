//! Who is in a team: inviting, joining, leaving, stopping by force; and who leads.

mod exit;
mod heartbeat;
mod invite;
mod join;
mod lead;

pub(super) use exit::conclude_life;
pub use exit::{force_stop, leave};
pub use heartbeat::heartbeat;
pub use invite::{create_observer, invite};
pub use join::join;
pub use lead::set_lead;
