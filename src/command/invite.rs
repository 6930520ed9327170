//! `teamwire invite`: creates join tokens and observer credentials.

use clap::Args;
use teamwire_client::v1;
use teamwire_proto::{address::Address, join_string::JoinString};

use super::Output;
use crate::{
    context::{ContextArgs, Who},
    failure::Failure,
    show,
};

/// Invite a new member or a host
///
/// Prints a join string: the coordinator's addresses, the fingerprint of its certificate authority, and a join token.
/// Where the new member works, run `teamwire join -` or `teamwire run NAME --join - -- COMMAND`, and paste the string there.
/// With --host, the string is for a machine that starts teammates: run `teamwire host --join -` there. Anyone who has
/// the string can join, so treat it like a password. Do not give it as an argument: all users of the machine could see
/// it in the process list.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire invite backend\n    teamwire invite --uses 10 --minutes 60\n    teamwire invite --host\n    teamwire invite --observer"
)]
pub(super) struct Invite {
    /// The only name the token can be used for [default: any free name]
    name: Option<String>,
    /// How many members can join with the token
    #[arg(long, default_value_t = 1)]
    uses: u32,
    /// How long the token is valid, in minutes [default: set by the coordinator: 15 minutes, or 24 hours for an
    /// observer]
    #[arg(long)]
    minutes: Option<i64>,
    /// Require the new member to have a plan approved before it works on tasks
    #[arg(long)]
    plan: bool,
    /// A tag that the new member gets, so that messages to @TAG reach it; may be repeated
    #[arg(long = "tag", value_name = "TAG", conflicts_with = "host")]
    tags: Vec<String>,
    /// Invite a host, a machine that starts teammates when you order them with `teamwire spawn`
    #[arg(long, conflicts_with = "plan")]
    host: bool,
    /// Create a read-only credential for an observer instead
    #[arg(long, conflicts_with_all = ["name", "uses", "plan", "tags", "host"])]
    observer: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Invite {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        let seconds = self.minutes.map(|minutes| minutes.saturating_mul(60));
        let ttl = seconds.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
        if self.observer {
            let request = v1::CreateObserverRequest { team: String::new(), ttl };
            let reply = caller.client.create_observer(request).await?;
            let use_it =
                format!("Use it with: TEAMWIRE_CREDENTIAL=TOKEN teamwire history --address {}", caller.address);
            let value = serde_json::json!({ "token": reply.credential, "address": caller.address });
            self.print(value, &reply.credential, reply.expires_at, &use_it);
            let addresses = Address::parse_list(&caller.address).unwrap_or_default();
            warn_of_reach("credential", &addresses);
            return Ok(());
        }
        let request = v1::InviteRequest {
            team: String::new(),
            member: self.name.clone().unwrap_or_default(),
            uses_max: self.uses,
            ttl,
            plan_mode_required: self.plan,
            host: self.host,
            tags: self.tags.clone(),
        };
        let reply = caller.client.invite(request).await?;
        // An older coordinator returns no join string.
        let composed = Some(reply.join_string).filter(|text| !text.is_empty());
        let join_string = composed.unwrap_or_else(|| reply.join_token.clone());
        let value = serde_json::json!({
            "token": reply.join_token, "join_string": join_string, "address": caller.address,
        });
        // An argument would be visible in the process list.
        let command = match (self.host, &self.name) {
            (true, _) => "teamwire host --join -",
            (false, Some(_)) => "teamwire join -",
            (false, None) => "teamwire join --name NAME -",
        };
        let place = if self.host { "on the machine that is to start teammates" } else { "where the new member works" };
        let use_it = format!("Run this {place}, and paste the string there: {command}");
        self.print(value, &join_string, reply.expires_at, &use_it);
        match JoinString::parse(&join_string).map(|joining| joining.addresses).unwrap_or_default().as_slice() {
            [] => show::warn("The token does not include the coordinator's address. Join with --address URL."),
            addresses => warn_of_reach("join string", addresses),
        }
        Ok(())
    }

    /// Prints the token alone to standard output, so that it can be piped, and how to use it to standard error.
    fn print(&self, mut value: serde_json::Value, minted: &str, until: Option<prost_types::Timestamp>, use_it: &str) {
        if self.output.json {
            value["expires_at"] = until.map(|at| at.to_string()).into();
            show::line(&value);
            return;
        }
        anstream::println!("{minted}");
        let hint = format!("Valid until {}. {use_it}", show::time(until.as_ref()));
        anstream::eprintln!("{}", show::paint(show::dim(), hint));
    }
}

/// Warns if what was created is of use on this machine only. `what`: such as "join string".
fn warn_of_reach(what: &str, addresses: &[Address]) {
    match addresses {
        [Address::Unix(_), ..] => show::warn(&format!(
            "The {what} works on this machine only, and for your user only. For other users of this machine, add --address with \
             the coordinator's http address; for other machines, open the coordinator first: `teamwire open`, or `teamwire serve --advertise URL`.",
        )),
        addresses if addresses.iter().all(Address::is_loopback) => show::warn(&format!(
            "The {what} works on this machine only. For other machines, open the coordinator first: `teamwire open`, or `teamwire serve \
             --advertise URL`.",
        )),
        _ => {}
    }
}
