//! `teamwire join`: becomes a member by a join string.

use clap::Args;
use teamwire_client::v1;

use super::Output;
use crate::{
    context::{ContextArgs, identity},
    failure::Failure,
    show,
};

/// Become a member of a team
///
/// Keeps the credential in the context file and makes it the current identity, so that `send`, `inbox` and the others
/// need no more. To run a program as a member, use `teamwire run`.
#[derive(Args, Debug)]
pub struct Join {
    /// What `teamwire invite` has printed: it says where, too. Or a bare join token, with --address
    #[arg(value_name = "JOIN_STRING")]
    token: String,
    /// The name to bear; may be left out when the token is bound to one
    #[arg(long, short, default_value = "")]
    name: String,
    #[command(flatten)]
    attributes: Attributes,
    #[command(flatten)]
    pub output: Output,
}

/// What a member tells of itself.
#[derive(Args, Clone, Debug)]
pub struct Attributes {
    /// What kind of agent it is
    #[arg(long, default_value = "", hide_default_value = true)]
    agent_type: String,
    /// The model behind it
    #[arg(long, default_value = "", hide_default_value = true)]
    model: String,
    /// A colour for displays
    #[arg(long, default_value = "", hide_default_value = true)]
    color: String,
    /// A label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// It must have a plan approved before it may work on tasks
    #[arg(long = "plan-mode")]
    plan_mode: bool,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Attributes {
    /// Returns them as the protocol has them, with this machine's name.
    pub fn to_proto(&self) -> v1::MemberAttributes {
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
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let joining = context.joining(&self.token)?;
        let request = v1::JoinRequest {
            name: self.name.clone(),
            attributes: Some(self.attributes.to_proto()),
            ..v1::JoinRequest::default()
        };
        context.prepare_to_keep()?;
        let reply = joining.client.join(request).await?;
        let (team, member) = reply.team.zip(reply.member).ok_or_else(show::incomplete)?;
        let identity = identity(&team.name, &member.name, &reply.credential, &joining.client);
        context.keep(identity, true)?;
        if self.output.json {
            show::line(&serde_json::json!({
                "team": show::json("Team", &team),
                "member": show::json("Member", &member),
                "credential": reply.credential,
            }));
            return Ok(());
        }
        anstream::println!(
            "You are {} in team {} now, led by {}.",
            show::paint(show::bold(), &member.name),
            team.name,
            team.lead
        );
        anstream::println!("Try:  teamwire inbox --follow");
        anstream::println!("      teamwire send team-lead \"I am here.\" -s \"arrived\"");
        Ok(())
    }
}
