//! `teamwire whoami` and `teamwire use`: show and choose the current identity.

use clap::Args;

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Show your current identity: member, team and coordinator
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire whoami\n    teamwire --as backend@acme whoami")]
pub struct Whoami {
    #[command(flatten)]
    pub output: Output,
}

/// Choose your current identity from the context file
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire use backend@acme")]
pub struct Use {
    /// NAME, or NAME@TEAM
    who: String,
}

impl Whoami {
    pub fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        if self.output.json {
            show::line(&serde_json::json!({
                "member": caller.member, "team": caller.team, "address": caller.address,
            }));
            return Ok(());
        }
        match (&caller.member, &caller.team) {
            (Some(member), Some(team)) => anstream::println!("{member}@{team} at {}", caller.address),
            (None, Some(team)) => anstream::println!("not a member, for team {team}, at {}", caller.address),
            (_, None) => anstream::println!("the operator at {}", caller.address),
        }
        Ok(())
    }
}

impl Use {
    pub fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let (member, team) =
            self.who.split_once('@').map_or((self.who.as_str(), context.team()), |(m, t)| (m, Some(t)));
        let Some(identity) = context.saved_identity(member, team)? else {
            return Err(Failure::usage(format!(
                "The context file has no identity \"{}\". It has: {}.",
                self.who,
                context.load()?.names()
            )));
        };
        let name = identity.name();
        context.update(|file| file.current = Some(name.clone()))?;
        anstream::println!("You are now {name}.");
        Ok(())
    }
}
