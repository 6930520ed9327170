//! Requests that can no longer be answered.

use teamwire_proto::{
    name::Name,
    v1::{self, CancelCause, NoticeKind, RequestKind, RequestState},
};

use super::{cause_text, conclude, find_pending, leave_pending, remove_pending, spawn, take_back, tell_requester};
use crate::domain::{
    records::TeamRecord,
    tx::{RuleError, Tx},
};

/// Cancels all requests of the member that are pending, because its life ends. Notifies the requesters of shutdowns.
/// The caller puts the team.
pub fn cancel_all(tx: &mut Tx<'_>, team: &mut TeamRecord, member: &Name, cause: CancelCause) -> Result<(), RuleError> {
    for request in find_pending(tx, team, member, |_| true)? {
        cancel(tx, team, &request, cause)?;
    }
    Ok(())
}

/// Cancels a pending request. Notifies the requester of a shutdown. The caller puts the team.
pub(super) fn cancel(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    request: &v1::Request,
    cause: CancelCause,
) -> Result<(), RuleError> {
    let member = remove_pending(team, request)?;
    let cancelled = v1::Request { cancel_cause: cause.into(), ..leave_pending(tx, request, RequestState::Cancelled) };
    conclude(tx, &cancelled);
    take_back(tx, team, request)?;
    if request.kind() == RequestKind::Spawn {
        spawn::clear_up(tx, team, request, &format!("its start was cancelled: {}", cause_text(cause)))?;
    }
    // A member that submits a newer plan, withdraws a request or has exited needs no notice about the old one.
    if request.kind() == RequestKind::Shutdown {
        let text = format!("The shutdown request for {member} was cancelled: {}.", cause_text(cause));
        tell_requester(tx, team, request, NoticeKind::RequestCancelled, text)?;
    }
    Ok(())
}
