//! Requests that were not answered in time.

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind, RequestKind, RequestState},
};

use super::{approver, conclude, find_pending, leave_pending, remove_pending, take_back, tell, tell_requester};
use crate::domain::{
    records::TeamRecord,
    tx::{RuleError, Tx},
};

/// Expires the member's pending requests whose time has passed, but not an order, whose end also ends the member.
/// Returns how many there were. The caller puts the team.
pub fn expire_overdue(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<usize, RuleError> {
    let now_ms = tx.ctx.now_ms;
    let order = team.member(name).and_then(|member| member.pending_order.clone());
    let overdue =
        find_pending(tx, team, name, |pending| pending.expires_ms <= now_ms && Some(pending) != order.as_ref())?;
    for request in &overdue {
        expire(tx, team, request)?;
    }
    Ok(overdue.len())
}

/// Expires a pending request, and notifies the requester. The caller puts the team.
fn expire(tx: &mut Tx<'_>, team: &mut TeamRecord, request: &v1::Request) -> Result<(), RuleError> {
    let member = remove_pending(team, request)?;
    conclude(tx, &leave_pending(tx, request, RequestState::Expired));
    take_back(tx, team, request)?;
    let text = match request.kind() {
        RequestKind::PlanApproval => {
            "Your plan was not answered in time. Submit it again if it still matters.".to_owned()
        }
        RequestKind::Permission => {
            let text = format!(
                "{member} was refused permission to use {}, because its request expired without an answer.",
                request.tool
            );
            let approver = approver(team, request)?;
            tell(tx, team, request, &approver, NoticeKind::RequestExpired, text)?;
            format!(
                "Your request for permission to use {} was not answered in time, so it expired. Do not do it. Ask again if \
                 you still need to.",
                request.tool
            )
        }
        _ => format!("{member} did not answer its shutdown request in time. Ask again, or stop it with --force."),
    };
    tell_requester(tx, team, request, NoticeKind::RequestExpired, text)
}
