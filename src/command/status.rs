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
///
/// If the team has hosts, it also shows how many of their slots are taken.
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
    let client = &caller.client;
    let team = client.get_team(v1::GetTeamRequest { team: named.clone() }).await?;
    let team = team.team.ok_or_else(show::incomplete)?;
    let of_team = v1::ListMembersRequest { team: named.clone(), ..Default::default() };
    let members = client.list_all_members(of_team, usize::MAX).await?.members;
    let of_team = v1::ListHostsRequest { team: named, ..Default::default() };
    let hosts = client.list_all_hosts(of_team, usize::MAX).await?.hosts;
    let usage = show::usage_of_all(&members);
    if output.json {
        let shown: Vec<_> = members.iter().map(|member| show::json("Member", member)).collect();
        let shown_hosts: Vec<_> = hosts.iter().map(|host| show::json("Host", host)).collect();
        let mut value =
            serde_json::json!({ "team": show::json("Team", &team), "members": shown, "hosts": shown_hosts });
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
    if let Some(text) = show::hosts_in_all(&hosts) {
        anstream::println!("\n{text}");
    }
    if let Some(usage) = usage {
        anstream::println!("\nUsed in all: {}", show::usage(&usage));
    }
    Ok(())
}
