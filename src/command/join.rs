//! `teamwire join`: joins a team with a join string, or again with a saved identity.

use clap::Args;
use teamwire_client::{JOIN_VARIABLE, v1};
use teamwire_proto::v1::Liveness;

use super::{Output, join_string, pair};
use crate::{
    context::{Caller, ContextArgs, Who, identity, may_rejoin, refuse_within_runner},
    failure::{Failure, REFUSED},
    show,
};

/// Join a team
///
/// Saves your new identity in the context file and makes it the current one, so that `send`, `inbox` and other commands
/// need no further options. Your state becomes `away` 30 s after each command, but never `lost`, and each
/// task that you claim stays yours for up to 24 h. To run a program as a member, use `teamwire run` instead.
///
/// Without a join string, the command begins a new life with your current identity, or with the one that --as names. It
/// fails while a runner or another program is connected under that identity.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire join --name backend -    # then paste the join string\n    teamwire --as lead join"
)]
pub(super) struct Join {
    /// The join string that `teamwire invite` printed or, with --address, a bare join token; use '-' to read a line
    /// from standard input
    ///
    /// Other users of this machine can see it in the process list: prefer '-' or the environment.
    #[arg(value_name = "JOIN_STRING", env = JOIN_VARIABLE, hide_env_values = true)]
    token: Option<String>,
    /// Your name in the team; optional if the token is bound to a name
    #[arg(long, short, default_value = "", hide_default_value = true)]
    name: String,
    /// Without a join string: begin a new life even though the current one has not ended; this replaces your
    /// credential, and the old credential ends at once
    ///
    /// As with each new life, the tasks that you claimed return to the board, and the requests that you made are
    /// cancelled.
    #[arg(long, conflicts_with = "token")]
    new_credential: bool,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    pub output: Output,
}

/// The attributes of a new member.
#[derive(Args, Clone, Debug)]
pub(super) struct Attributes {
    /// The kind of agent, such as claude-code
    #[arg(long, default_value = "", hide_default_value = true)]
    agent_type: String,
    /// The model that the agent uses, for display only: this option does not select the model
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// The color in which the member is displayed
    #[arg(long, default_value = "", hide_default_value = true)]
    color: String,
    /// A label to attach to the member; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Require the member to have a plan approved before it works on tasks
    #[arg(long = "plan-mode")]
    plan_mode: bool,
}

impl Attributes {
    /// Converts the attributes to the protocol's form and adds this machine's host name.
    pub(super) fn to_proto(&self) -> v1::MemberAttributes {
        let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok()).unwrap_or_default();
        v1::MemberAttributes {
            agent_type: self.agent_type.clone(),
            model: self.model.clone(),
            host,
            color: self.color.clone(),
            labels: self.labels.iter().cloned().collect(),
            plan_mode_required: self.plan_mode,
        }
    }
}

impl Join {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        refuse_within_runner("To run another member, use `teamwire run`; you cannot join as one here.")?;
        let caller = match join_string(self.token.as_deref(), None)? {
            Some(token) => context.caller(Who::Joining(&token))?,
            None => may_rejoin_as(context, self.new_credential).await?,
        };
        let request = v1::JoinRequest {
            name: self.name.clone(),
            attributes: Some(self.attributes.to_proto()),
            // Commands come and go; no process keeps this life going.
            liveness: Liveness::Detached.into(),
            ..v1::JoinRequest::default()
        };
        context.ensure_writable()?;
        let reply = caller.client.join(request).await?;
        let (team, member) = reply.team.zip(reply.member).ok_or_else(show::incomplete)?;
        let identity = identity(&team.name, &member.name, &reply.credential, &caller.client);
        context.save_identity(identity)?;
        if self.output.json {
            show::line(&serde_json::json!({
                "team": show::json("Team", &team),
                "member": show::json("Member", &member),
                "credential": reply.credential,
            }));
            return Ok(());
        }
        let name = show::paint(show::bold(), &member.name);
        let next = if member.role() == v1::Role::Lead {
            anstream::println!("You are now {name}, the lead of team {}.", team.name);
            "teamwire status"
        } else {
            anstream::println!("You are now {name} in team {}, led by {}.", team.name, team.lead);
            "teamwire send team-lead \"I am here.\" -s \"arrived\""
        };
        anstream::println!("Try:  teamwire inbox --follow");
        anstream::println!("      {next}");
        Ok(())
    }
}

/// Returns the caller, whose credential may begin a new life: the last one has ended, or its runner no longer has a
/// session.
async fn may_rejoin_as(context: &ContextArgs, is_replaced: bool) -> Result<Caller, Failure> {
    const JOIN_ANOTHER: &str = "To join with another identity, give a join string: teamwire join -";
    let caller = context.caller(Who::Current)?;
    let (Some(member), Some(team)) = (&caller.member, &caller.team) else {
        return Err(Failure::usage(format!("You have no identity to join again with. {JOIN_ANOTHER}")));
    };
    let members = match caller.client.members().await {
        Err(error) if may_rejoin(&error) => return Ok(caller),
        members => members?,
    };
    let Some(own) = members.into_iter().find(|listed| caller.is(&listed.name)) else { return Ok(caller) };
    match (own.liveness(), own.connected) {
        (Liveness::Detached, _) if is_replaced => Ok(caller),
        (Liveness::Detached, _) => Err(Failure::usage(format!("You are {member}@{team} already. {JOIN_ANOTHER}"))),
        (_, true) => Err(Failure::with_code(
            REFUSED,
            format!("A runner, or another program, is running {member}@{team}. End it before you join again."),
        )),
        (_, false) => Ok(caller),
    }
}
