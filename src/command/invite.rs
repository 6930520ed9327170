//! `teamwire invite`: mints join tokens.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{context::ContextArgs, failure::Failure, show};

/// Mint a join token for a new member
///
/// Give it to the process that is to join: `teamwire join TOKEN`, or `teamwire run NAME --join TOKEN -- COMMAND`.
#[derive(Args, Debug)]
pub struct Invite {
    /// The one name that the token is good for [default: any free name]
    name: Option<String>,
    /// How many joins it is good for
    #[arg(long, default_value_t = 1)]
    uses: u32,
    /// How long it is good for, in minutes
    #[arg(long, default_value_t = 15)]
    minutes: i64,
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
        let ttl = Some(prost_types::Duration { seconds: self.minutes.saturating_mul(60), nanos: 0 });
        let (token, expires_at) = if self.observer {
            let request = v1::CreateObserverRequest { team: String::new(), ttl };
            let reply = caller.client.create_observer(request).await?;
            (reply.credential, reply.expires_at)
        } else {
            let request = v1::InviteRequest {
                team: String::new(),
                member: self.name.clone().unwrap_or_default(),
                uses_max: self.uses,
                ttl,
                plan_mode_required: self.plan,
            };
            let reply = caller.client.invite(request).await?;
            (reply.join_token, reply.expires_at)
        };
        if self.output.json {
            let expires_at = expires_at.map(|at| at.to_string());
            show::line(&serde_json::json!({ "token": token, "expires_at": expires_at, "address": caller.address }));
            return Ok(());
        }
        // The token alone goes to standard output, so that it can be piped.
        anstream::println!("{token}");
        let use_it = if self.observer { "TEAMWIRE_CREDENTIAL=TOKEN teamwire history" } else { "teamwire join TOKEN" };
        anstream::eprintln!(
            "{}",
            show::paint(
                show::dim(),
                format!(
                    "Good until {}. Use it with: {use_it} --address {}",
                    show::time(expires_at.as_ref()),
                    caller.address
                )
            )
        );
        Ok(())
    }
}
