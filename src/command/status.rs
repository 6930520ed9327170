//! `teamwire status`: shows the team and its members.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{
    context::{Caller, ContextArgs},
    failure::Failure,
    show,
};

/// Show your team and its members: role, state, inbox size, what they are doing, and what they have used
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire status")]
pub struct Status {
    #[command(flatten)]
    pub output: Output,
}

impl Status {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        show(&context.caller()?, None, self.output).await
    }
}

/// Prints the team `named`, or the caller's own, and its members.
pub async fn show(caller: &Caller, named: Option<&str>, output: Output) -> Result<(), Failure> {
    let named = named.unwrap_or_default().to_owned();
    let team = caller.client.get_team(v1::GetTeamRequest { team: named.clone() }).await?;
    let team = team.team.ok_or_else(show::incomplete)?;
    let members = caller
        .client
        .list_all_members(v1::ListMembersRequest { team: named, ..Default::default() }, usize::MAX)
        .await?
        .members;
    let usage = show::usage_of_all(&members);
    if output.json {
        let shown: Vec<_> = members.iter().map(|member| show::json("Member", member)).collect();
        let mut value = serde_json::json!({ "team": show::json("Team", &team), "members": shown });
        if let Some(usage) = usage {
            value["usage"] = show::json("Usage", &usage);
        }
        show::line(&value);
        return Ok(());
    }
    let you = caller.member.as_ref().map_or_else(String::new, |member| format!(", you are {member}"));
    anstream::println!(
        "Team {}{}{you}",
        show::paint(show::bold(), &team.name),
        show::paint(show::dim(), format!(" at {}", caller.address))
    );
    if !team.description.is_empty() {
        anstream::println!("{}", show::plain(&team.description));
    }
    anstream::println!();
    show::members(&members);
    if let Some(usage) = usage {
        anstream::println!("\nUsed in all: {}", show::usage(&usage));
    }
    Ok(())
}
