//! `teamwire leave`: ends the caller's membership.

use clap::Args;
use teamwire_client::v1;

use super::{Output, confirm::Confirm, successor};
use crate::{
    context::{Caller, ContextArgs, Who, is_within_runner},
    failure::Failure,
    show,
};

/// Leave the team: your state becomes `exited`, and the lead is notified
///
/// Inside a program that a runner started, the state becomes `stopping`, and the program gets time to finish, as after
/// an approved shutdown (`teamwire run --wrap-up`). The runner then ends it and reports its exit.
///
/// If you are the lead, first hand over to another member, with --hand-over-to. Without a lead, only the operator can
/// invite members, answer plans or delete the team. If the successor is lost, or has been asked to shut down, the
/// command asks for confirmation.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire leave\n    teamwire leave --hand-over-to backend")]
pub(super) struct Leave {
    /// Why you are leaving; shown to the lead
    #[arg(long, default_value = "left", value_name = "TEXT")]
    reason: String,
    /// Make this member the lead before you leave
    #[arg(long, value_name = "MEMBER")]
    hand_over_to: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pub output: Output,
}

impl Leave {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let member = caller.member()?;
        match &self.hand_over_to {
            Some(successor)
                if caller.is(successor) || successor.eq_ignore_ascii_case(teamwire_proto::name::LEAD_ALIAS) =>
            {
                return Err(Failure::usage(format!(
                    "{successor} is you or the lead itself. Name another member, as in `teamwire leave --hand-over-to NAME`."
                )));
            }
            Some(successor) => {
                successor::confirm(&caller, successor, self.confirm).await?;
                let request = v1::SetLeadRequest { member: successor.clone(), ..v1::SetLeadRequest::default() };
                caller.client.set_lead(request).await?;
            }
            None => self.confirm_leaving_without_lead(&caller).await?,
        }
        let exit = v1::ExitReport { detail: self.reason.clone(), ..v1::ExitReport::default() };
        // A runner reports the exit itself, once the program has had time to finish.
        let exit_follows = is_within_runner();
        caller.client.leave(v1::LeaveRequest { exit: Some(exit), exit_follows }).await?;
        let team = caller.team.clone().unwrap_or_default();
        context.remove_identities(&caller.address, &team, Some(member))?;
        if self.output.json {
            show::line(&serde_json::json!({ "left": team, "member": member }));
            return Ok(());
        }
        if let Some(successor) = &self.hand_over_to {
            anstream::println!("{successor} is now the lead of team {team}.");
        }
        anstream::println!("{member} has left team {team}.");
        if exit_follows {
            anstream::println!("Finish and exit now: your runner soon ends this program.");
        }
        Ok(())
    }

    /// Asks for confirmation if the caller leads the team.
    async fn confirm_leaving_without_lead(&self, caller: &Caller) -> Result<(), Failure> {
        let team = caller.client.get_team(v1::GetTeamRequest::default()).await?.team.ok_or_else(show::incomplete)?;
        if !caller.is(&team.lead) {
            return Ok(());
        }
        self.confirm.ask(
            &format!("You are the lead of team {}, which has no lead once you leave.", team.name),
            " Better: hand over with `teamwire leave --hand-over-to MEMBER`, or end the team with `teamwire team delete`.",
        )
    }
}
