//! `teamwire invite`: mints join tokens, and says how to join with them from another machine.

use clap::Args;
use teamwire_client::v1;
use teamwire_proto::{address::Address, join_string::JoinString};

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Invite a new member
///
/// Prints a join string, which says where the coordinator is, whom to trust there, and holds the join token. Paste it on
/// the other machine: `teamwire join JOIN_STRING`, or `teamwire run NAME --join JOIN_STRING -- COMMAND`. Who has it can
/// join, so treat it like a password.
#[derive(Args, Debug)]
pub struct Invite {
    /// The one name that the token is good for [default: any free name]
    name: Option<String>,
    /// How many joins it is good for
    #[arg(long, default_value_t = 1)]
    uses: u32,
    /// How long it is good for, in minutes [default: as the coordinator is configured: 15, for an observer a day]
    #[arg(long)]
    minutes: Option<i64>,
    /// Who joins with it must have a plan approved before it may work on tasks
    #[arg(long)]
    plan: bool,
    /// Mint a credential that reads the team and changes nothing, instead
    #[arg(long, conflicts_with_all = ["name", "uses", "plan"])]
    observer: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Invite {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        let seconds = self.minutes.map(|minutes| minutes.saturating_mul(60));
        let ttl = seconds.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        if self.observer {
            let request = v1::CreateObserverRequest { team: String::new(), ttl };
            let reply = caller.client.create_observer(request).await?;
            let use_it = format!("TEAMWIRE_CREDENTIAL=TOKEN teamwire history --address {}", caller.address);
            let value = serde_json::json!({ "token": reply.credential, "address": caller.address });
            self.print(value, &reply.credential, reply.expires_at, &use_it);
            return Ok(());
        }
        let request = v1::InviteRequest {
            team: String::new(),
            member: self.name.clone().unwrap_or_default(),
            uses_max: self.uses,
            ttl,
            plan_mode_required: self.plan,
        };
        let reply = caller.client.invite(request).await?;
        // An older coordinator does not compose it.
        let composed = Some(reply.join_string).filter(|text| !text.is_empty());
        let join_string = composed.unwrap_or_else(|| reply.join_token.clone());
        let value = serde_json::json!({
            "token": reply.join_token, "join_string": join_string, "address": caller.address,
        });
        self.print(value, &join_string, reply.expires_at, "teamwire join JOIN_STRING");
        match JoinString::parse(&join_string).map(|joining| joining.addresses).unwrap_or_default().as_slice() {
            [] => warn("It does not say where the coordinator is: join with --address URL."),
            addresses if addresses.iter().all(Address::is_loopback) => {
                warn("Good on this machine only. For others, start the coordinator with --advertise URL.");
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints what was minted: alone to standard output, so that it can be piped, and what is to know to standard error.
    fn print(&self, mut value: serde_json::Value, minted: &str, until: Option<prost_types::Timestamp>, use_it: &str) {
        if self.output.json {
            value["expires_at"] = until.map(|at| at.to_string()).into();
            show::line(&value);
            return;
        }
        anstream::println!("{minted}");
        let hint = format!("Good until {}. Use it with: {use_it}", show::time(until.as_ref()));
        anstream::eprintln!("{}", show::paint(show::dim(), hint));
    }
}

fn warn(text: &str) {
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    anstream::eprintln!("{} {text}", show::paint(yellow, "warning:"));
}
