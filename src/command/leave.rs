//! `teamwire leave`: ends the caller's membership.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Leave the team: your state becomes `exited`, and the lead is notified
#[derive(Args, Debug)]
pub struct Leave {
    /// Why you are leaving; shown to the lead
    #[arg(long, default_value = "left", value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    pub output: Output,
}

impl Leave {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let member = caller.member()?;
        let exit = v1::ExitReport { detail: self.reason.clone(), ..v1::ExitReport::default() };
        caller.client.leave(v1::LeaveRequest { exit: Some(exit) }).await?;
        let team = caller.team.clone().unwrap_or_default();
        context.remove_identities(&caller.address, &team, Some(member))?;
        if self.output.json {
            show::line(&serde_json::json!({ "left": team, "member": member }));
        } else {
            anstream::println!("{member} has left team {team}.");
        }
        Ok(())
    }
}
