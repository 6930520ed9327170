//! `teamwire whoami`, `teamwire identities` and `teamwire use`: show, list and choose identities.

use clap::Args;
use futures::future::join_all;
use serde_json::json;
use teamwire_client::{Error, KeptIdentity, Reason, Retry};
use teamwire_proto::word;

use super::Output;
use crate::{
    context::{ContextArgs, Who, has_ended, refuse_within_runner},
    failure::Failure,
    show,
};

/// Show your current identity: member, team and coordinator
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire whoami\n    teamwire --as backend@acme whoami")]
pub(super) struct Whoami {
    #[command(flatten)]
    pub output: Output,
}

/// List the identities saved on this machine: yours, and those of runners
///
/// Asks the coordinator of each identity, without a retry, what became of the member. `ended` identities can no longer
/// be used; --prune removes them.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire identities\n    teamwire identities --prune")]
pub(super) struct Identities {
    /// Remove identities that have ended, or that their coordinator does not know
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Choose your current identity from the context file
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire use backend@acme")]
pub(super) struct Use {
    /// NAME, or NAME@TEAM
    who: String,
}

impl Whoami {
    pub(super) fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        if self.output.json {
            show::line(&json!({ "member": caller.member, "team": caller.team, "address": caller.address }));
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

/// A saved identity and what its coordinator says of it.
struct Listed {
    identity: KeptIdentity,
    is_current: bool,
    is_runs: bool,
    state: String,
    is_usable: bool,
}

impl Identities {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let (file, runs) = (context.load()?, context.load_runs()?);
        let current = file.current.clone();
        let is_current = |identity: &KeptIdentity| current.as_deref() == Some(identity.name().as_str());
        let own = file.identities.into_iter().map(|identity| (is_current(&identity), false, identity));
        let all = own.chain(runs.identities.into_iter().map(|identity| (false, true, identity)));
        let listed = join_all(all.map(|(is_current, is_runs, identity)| async move {
            let (state, is_usable) = state(context, &identity).await;
            Listed { identity, is_current, is_runs, state, is_usable }
        }));
        let (mut listed, mut pruned) = (listed.await, Vec::new());
        if self.prune {
            let (kept, ended) = listed.into_iter().partition::<Vec<_>, _>(|listed| listed.is_usable);
            pruned = ended.into_iter().map(|ended| ended.identity).collect();
            context.forget(&pruned)?;
            listed = kept;
        }
        self.print(listed, &pruned);
        Ok(())
    }

    fn print(&self, listed: Vec<Listed>, pruned: &[KeptIdentity]) {
        if self.output.json {
            for Listed { identity, is_current, is_runs, state, .. } in listed {
                show::line(&json!({
                    "member": identity.member, "team": identity.team, "address": identity.address,
                    "current": is_current, "runner": is_runs, "state": state,
                }));
            }
            return;
        }
        if !pruned.is_empty() {
            let names: Vec<_> = pruned.iter().map(KeptIdentity::name).collect();
            anstream::println!("Removed {}.", names.join(", "));
        }
        if listed.is_empty() {
            anstream::println!("No identities are saved here. Join a team with `teamwire join`, or create one.");
            return;
        }
        let rows = listed.into_iter().map(|listed| {
            let of = match (listed.is_current, listed.is_runs) {
                (true, _) => "you, current",
                (false, true) => "a runner",
                (false, false) => "you",
            };
            vec![listed.identity.name(), of.to_owned(), listed.state, listed.identity.address]
        });
        show::table(&["identity", "of", "state", "coordinator"], rows.collect());
    }
}

/// Asks the identity's coordinator what became of the member. Returns that, and whether the identity may still be of
/// use.
async fn state(context: &ContextArgs, identity: &KeptIdentity) -> (String, bool) {
    let caller = match context.caller(Who::Saved(identity)) {
        Ok(caller) => caller,
        Err(_) => return ("unusable".to_owned(), true),
    };
    let client = caller.client.with_retry(Retry::none());
    match client.members().await {
        Ok(members) => {
            let own = members.into_iter().find(|member| identity.is(&member.name, None));
            (own.map_or_else(|| "ended".to_owned(), |member| word::member_state(member.state()).to_owned()), true)
        }
        Err(error) if has_ended(&error) => ("ended".to_owned(), false),
        // Its credential may start a new life.
        Err(error) if error.reason() == Some(Reason::MemberStopped) => ("exited".to_owned(), true),
        Err(error) if error.reason() == Some(Reason::CredentialInvalid) => ("unknown there".to_owned(), false),
        Err(Error::Unreachable { .. }) => ("unreachable".to_owned(), true),
        Err(error) => (error.reason().map_or("unreachable", Reason::as_str).to_owned(), true),
    }
}

impl Use {
    pub(super) fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("The current identity cannot be changed here.")?;
        let (member, team) =
            self.who.split_once('@').map_or((self.who.as_str(), context.team()), |(m, t)| (m, Some(t)));
        let Some(identity) = context.saved_identity(member, team)? else {
            return Err(Failure::usage(match context.load_runs()?.find(member, team).map(KeptIdentity::name) {
                Some(name) => {
                    format!("{name} is the identity of a runner. To act as it in one command, add --as {name}.")
                }
                None => {
                    format!("The context file has no identity \"{}\". It has: {}.", self.who, context.load()?.names())
                }
            }));
        };
        let name = identity.name();
        context.update(|file| file.current = Some(name.clone()))?;
        anstream::println!("You are now {name}.");
        Ok(())
    }
}
