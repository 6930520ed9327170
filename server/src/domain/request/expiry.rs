//! Requests that were not answered in time.

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind, RequestKind, RequestState},
};

use super::{conclude, find_pending, leave_pending, remove_pending, tell_requester};
use crate::domain::{
    records::TeamRecord,
    tx::{RuleError, Tx},
};

/// Expires the member's pending requests whose time has passed. Returns whether there were any. The caller puts the team.
pub fn expire_overdue(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<bool, RuleError> {
    let now_ms = tx.ctx.now_ms;
    let overdue = find_pending(tx, team, name, |pending| pending.expires_ms <= now_ms)?;
    for request in &overdue {
        expire(tx, team, request)?;
    }
    Ok(!overdue.is_empty())
}

/// Expires a pending request, and notifies the requester. The caller puts the team.
fn expire(tx: &mut Tx<'_>, team: &mut TeamRecord, request: &v1::Request) -> Result<(), RuleError> {
    let member = remove_pending(team, request)?;
    conclude(tx, &leave_pending(tx, request, RequestState::Expired));
    let text = match request.kind() {
        RequestKind::PlanApproval => {
            "Your plan was not answered in time. Submit it again if it still matters.".to_owned()
        }
        _ => format!("{member} did not answer its shutdown request in time. Ask again, or stop it with --force."),
    };
    tell_requester(tx, team, request, NoticeKind::RequestExpired, text)
}
