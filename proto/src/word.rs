//! The words in which people read the protocol's values.

use crate::v1::MemberState;

/// Returns the name of a member's state.
pub fn member_state(state: MemberState) -> &'static str {
    match state {
        MemberState::Unspecified => "unknown",
        MemberState::Joined => "joined",
        MemberState::Active => "active",
        MemberState::Idle => "idle",
        MemberState::Stopping => "stopping",
        MemberState::Exited => "exited",
        MemberState::Lost => "lost",
        MemberState::Away => "away",
    }
}
