//! Asks before a team gets a lead that may not be able to lead it.

use teamwire_client::v1;
use teamwire_proto::v1::MemberState;

use super::confirm::Confirm;
use crate::{context::Caller, failure::Failure, show};

/// Asks for confirmation if the new lead is lost, or has been asked to shut down. The coordinator itself refuses one
/// that has exited or is stopping, and a caller that may not appoint a lead.
pub(in crate::command) async fn confirm(caller: &Caller, successor: &str, confirm: Confirm) -> Result<(), Failure> {
    let Some(member) = caller.find_member(successor).await? else { return Ok(()) };
    let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.unwrap_or_default();
    let may_appoint = caller.member.is_none() || caller.is(&team.lead);
    if !may_appoint || member.name == team.lead {
        return Ok(());
    }
    let name = &member.name;
    let what = if member.state() == MemberState::Lost {
        format!(
            "{name} has been lost since {}: no coordinator hears from it. Until it is back, no one leads the team.",
            show::time(member.state_since.as_ref())
        )
    } else if !member.pending_shutdown.is_empty() {
        format!("{name} has been asked to shut down. If it approves, no one leads the team.")
    } else {
        return Ok(());
    };
    confirm.ask(&what, " Or name another member.")
}
