//! `teamwire whoami` and `teamwire use`: which identity is used.

use clap::Args;

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Show who you are
#[derive(Args, Debug)]
pub struct Whoami {
    #[command(flatten)]
    pub output: Output,
}

/// Choose who you are from now on, among the identities of the context file
#[derive(Args, Debug)]
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
            (None, Some(team)) => anstream::println!("without a membership, for team {team}, at {}", caller.address),
            (_, None) => anstream::println!("the operator at {}", caller.address),
        }
        Ok(())
    }
}

impl Use {
    pub fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let (member, team) =
            self.who.split_once('@').map_or((self.who.as_str(), context.team()), |(m, t)| (m, Some(t)));
        let Some(identity) = context.kept(member, team)? else {
            return Err(Failure::usage(format!(
                "There is no identity \"{}\" in the context file. There are: {}.",
                self.who,
                context.load()?.names()
            )));
        };
        let name = identity.name();
        context.change(|file| file.current = Some(name.clone()))?;
        anstream::println!("You are {name} now.");
        Ok(())
    }
}
