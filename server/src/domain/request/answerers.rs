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
        RequestKind::Permission => [request.approver.as_str(), lead],
        RequestKind::Spawn => [request.approver.as_str(), ""],
        RequestKind::Unspecified => return Ok(()),
    };
    let mut answerers = answerers.into_iter().filter(|name| !name.is_empty());
    let Some(first) = answerers.next() else { return Ok(()) };
    let Some(how) = gone(team, first) else { return Ok(()) };
    if answerers.any(|name| gone(team, name).is_none()) {
        return Ok(());
    }
    Err(Refusal::new(
        Reason::AnswererLost,
        format!(
            "{first} {how}, so no member decides this request now. It stays pending: {first} can decide it after coming back, \
             and so can the operator."
        ),
    )
    .with("member", first))
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
