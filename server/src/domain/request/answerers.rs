//! Who can still decide a request.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, RequestKind},
};

use crate::domain::records::{Life, MemberRecord, TeamRecord};

/// Refuses to wait for a decision that no one can make now: every member that could make it was lost or has exited.
pub fn check_awaited(team: &TeamRecord, request: &v1::Request) -> Result<(), Refusal> {
    let lead = team.lead.as_str();
    let answerers = match request.kind() {
        RequestKind::Shutdown => [request.member.as_str(), ""],
        RequestKind::PlanApproval => [lead, ""],
        RequestKind::Permission | RequestKind::Review => [request.approver.as_str(), lead],
        RequestKind::Spawn => [request.approver.as_str(), ""],
        RequestKind::Unspecified => return Ok(()),
    };
    let mut answerers = answerers.into_iter().filter(|name| !name.is_empty());
    let Some(first) = answerers.next() else { return Ok(()) };
    let Some(how) = gone(team, first) else { return Ok(()) };
    if answerers.any(|name| gone(team, name).is_none()) {
        return Ok(());
    }
    let member = request.member.as_str();
    let text = match request.kind() {
        RequestKind::Spawn if has_taken_order(team, member) => format!(
            "{first} {how} after it had taken the order. {member} may start all the same, or not at all: `teamwire status` shows \
             whether it has. To cancel the order: `teamwire shutdown {member} --force`."
        ),
        RequestKind::Spawn => format!(
            "{first} {how}, so no one starts {member} now. The order stays pending: {first} can start it after coming back. To \
             cancel it: `teamwire shutdown {member} --force`."
        ),
        RequestKind::Shutdown => format!(
            "{first} {how}, so no one answers this request now. It stays pending: {first} can answer it after coming back."
        ),
        _ => format!(
            "{first} {how}, so no member decides this request now. It stays pending: {first} can decide it after coming back, \
             and so can the operator."
        ),
    };
    Err(Refusal::new(Reason::AnswererLost, text).with("member", first))
}

/// Returns whether a host has taken the order to start this member.
fn has_taken_order(team: &TeamRecord, name: &str) -> bool {
    let name = Name::parse(name, "member").ok();
    let ordered = name.and_then(|name| team.member(&name)).and_then(|member| member.ordered.as_ref());
    ordered.is_some_and(|ordered| ordered.token_id.is_some())
}

/// Returns how a member is gone. `None` if it can still answer.
fn gone(team: &TeamRecord, name: &str) -> Option<&'static str> {
    let name = Name::parse(name, "member").ok()?;
    match team.member(&name).map(|member: &MemberRecord| &member.life) {
        None => Some("is no longer a member"),
        Some(Life::Lost) => Some("was lost"),
        Some(Life::Exited { .. }) => Some("has exited"),
        Some(Life::Spawning | Life::Live | Life::Stopping { .. }) => None,
    }
}
