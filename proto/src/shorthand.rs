//! Requests that are usually made from a single value.

use crate::v1;

/// Invites one member by name; an empty name leaves the choice to the member that joins.
impl From<&str> for v1::InviteRequest {
    fn from(member: &str) -> Self {
        Self { member: member.to_owned(), ..Self::default() }
    }
}

/// Says what a host offers.
impl From<v1::HostOffer> for v1::UpdateHostRequest {
    fn from(offer: v1::HostOffer) -> Self {
        Self { offer: Some(offer) }
    }
}

/// Names the order to take.
impl From<&str> for v1::TakeOrderRequest {
    fn from(request_id: &str) -> Self {
        Self { request_id: request_id.to_owned() }
    }
}

/// Names the team to delete.
impl From<&str> for v1::DeleteTeamRequest {
    fn from(team: &str) -> Self {
        Self { team: team.to_owned() }
    }
}

/// Reports the exit code of the caller's process.
impl From<i32> for v1::LeaveRequest {
    fn from(code: i32) -> Self {
        let exit = v1::ExitReport { code: Some(code), ..v1::ExitReport::default() };
        Self { exit: Some(exit), ..Self::default() }
    }
}
