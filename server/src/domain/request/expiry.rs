//! Requests that were not answered in time.

use teamwire_proto::{
    name::Name,
    v1::{NoticeKind, RequestKind, RequestState},
};

use super::{conclude, find, leave_pending, take_pending, tell_requester};
use crate::domain::{
    records::{Pending, TeamRecord},
    tx::{RuleError, Tx},
};

/// Expires the member's pending requests whose time has passed. Returns whether there were any. The caller puts the team.
pub fn expire_overdue(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<bool, RuleError> {
    let now_ms = tx.ctx.now_ms;
    let Some(member) = team.member(name) else { return Ok(false) };
    let is_due = |pending: &Option<Pending>| pending.as_ref().is_some_and(|pending| pending.expires_ms <= now_ms);
    let due = [
        (RequestKind::Shutdown, is_due(&member.pending_shutdown)),
        (RequestKind::PlanApproval, is_due(&member.pending_plan)),
    ];
    for (kind, _) in due.iter().filter(|(_, is_due)| *is_due) {
        expire(tx, team, name, *kind)?;
    }
    Ok(due.iter().any(|(_, is_due)| *is_due))
}

/// Expires the member's pending request of a kind, and notifies the requester. The caller puts the team.
pub fn expire(tx: &mut Tx<'_>, team: &mut TeamRecord, member: &Name, kind: RequestKind) -> Result<(), RuleError> {
    let Some(pending) = take_pending(team, member, kind)? else { return Ok(()) };
    let request = find(tx, &pending.id)?;
    conclude(tx, &leave_pending(tx, &request, RequestState::Expired));
    let text = match kind {
        RequestKind::PlanApproval => {
            "Your plan was not answered in time. Submit it again if it still matters.".to_owned()
        }
        _ => format!("{member} did not answer its shutdown request in time. Ask again, or stop it with --force."),
    };
    tell_requester(tx, team, &request, NoticeKind::RequestExpired, text)?;
    Ok(())
}
