//! What clients conclude from the record of a host.

use crate::v1::{Host, MemberState};

impl Host {
    /// Returns whether the coordinator gives orders to the host: its life has not ended, and its lease has not run out.
    pub fn is_live(&self) -> bool {
        let has_lease = self.lease_left.is_some_and(|left| left.seconds > 0 || left.nanos > 0);
        has_lease && matches!(self.state(), MemberState::Joined | MemberState::Active | MemberState::Idle)
    }
}
