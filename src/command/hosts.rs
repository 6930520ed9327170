//! `teamwire hosts`: lists the machines and clusters that start teammates.

use clap::Args;
use teamwire_client::v1;
use teamwire_proto::v1::MemberState;

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// List the hosts of your team: what each can start, and how many slots are taken
///
/// A host is a machine or a cluster that starts teammates when the lead orders them with `teamwire spawn`. Hosts that
/// have exited come last.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire hosts\n    teamwire hosts --json")]
pub(super) struct Hosts {
    #[command(flatten)]
    pub output: Output,
}

impl Hosts {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let mut hosts = caller.client.list_all_hosts(v1::ListHostsRequest::default(), usize::MAX).await?.hosts;
        hosts.sort_by_key(|host| host.state() == MemberState::Exited);
        if self.output.json {
            hosts.iter().for_each(|host| show::line(&show::json("Host", host)));
        } else if hosts.is_empty() {
            anstream::println!(
                "The team has no host. The lead invites one with `teamwire invite --host`, and starts it on the other machine \
                 with `teamwire host --join -`."
            );
        } else {
            show::hosts(&hosts);
        }
        Ok(())
    }
}
