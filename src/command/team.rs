//! `teamwire team`: creates, lists, shows and deletes teams, and hands over the lead.

use clap::{Args, Subcommand};
use teamwire_client::v1;

use super::{Output, confirm::Confirm, successor};
use crate::{
    context::{ContextArgs, Who, identity},
    failure::Failure,
    show,
};

/// Create, list, show or delete teams; hand over the lead
#[derive(Debug, Subcommand)]
pub(super) enum Team {
    /// Create a team and become its lead
    Create(Create),
    /// List the teams you can see
    List(List),
    /// Show a team and its members
    Show(Show),
    /// Delete a team and all its data
    ///
    /// Refused while other members are live; the error names them. Members that are away, lost or exited do not count.
    /// Asks for confirmation; scripts add --yes.
    Delete(Delete),
    /// Make another member the lead
    ///
    /// If the new lead is lost, or has been asked to shut down, the command asks for confirmation; scripts add --yes.
    Lead(Lead),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire team create acme\n    teamwire team create acme --lead ann --description \"The billing rewrite\""
)]
pub(super) struct Create {
    /// The team's name: letters, digits, '.', '_' and '-'
    name: String,
    /// Your name as the lead
    #[arg(long, default_value = "lead")]
    lead: String,
    /// The purpose of the team
    #[arg(long, short, default_value = "", hide_default_value = true)]
    description: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire team list")]
pub(super) struct List {
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire team show")]
pub(super) struct Show {
    /// The team's name [default: your own team]
    #[arg(value_name = "TEAM")]
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire team delete\n    teamwire team delete acme")]
pub(super) struct Delete {
    /// The team's name [default: your own team]
    #[arg(value_name = "TEAM")]
    name: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire team lead backend")]
pub(super) struct Lead {
    /// The new lead
    member: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

impl Team {
    pub(super) async fn run(self, context: &ContextArgs) -> (Result<(), Failure>, bool) {
        match self {
            Self::Create(command) => (command.run(context).await, command.output.json),
            Self::List(command) => (command.run(context).await, command.output.json),
            Self::Show(command) => (command.run(context).await, command.output.json),
            Self::Delete(command) => (command.run(context).await, command.output.json),
            Self::Lead(command) => (command.run(context).await, command.output.json),
        }
    }
}

impl Create {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let (team, credential) = create(context, &self.name, &self.lead, &self.description, String::new()).await?;
        if self.output.json {
            let mut value = serde_json::json!({ "team": show::json("Team", &team) });
            value["credential"] = credential.into();
            show::line(&value);
            return Ok(());
        }
        anstream::println!("Created team {}. You are its lead, {}.", show::paint(show::bold(), &team.name), team.lead);
        anstream::println!("Add a teammate:  teamwire run NAME -- COMMAND     (on this machine)");
        anstream::println!("            or:  teamwire invite NAME             (on another machine)");
        Ok(())
    }
}

/// Creates a team, and saves its lead as the current identity. Returns the team and the lead's credential. An empty key
/// means a new one.
pub(super) async fn create(
    context: &ContextArgs,
    name: &str,
    lead: &str,
    description: &str,
    idempotency_key: String,
) -> Result<(v1::Team, String), Failure> {
    let operator =
        context.caller(Who::Operator).or_else(|failure| context.caller(Who::Current).map_err(|_| failure))?;
    let request = v1::CreateTeamRequest {
        name: name.to_owned(),
        description: description.to_owned(),
        lead_name: lead.to_owned(),
        idempotency_key,
        // Commands come and go; no process keeps the lead's life going.
        lead_liveness: v1::Liveness::Detached.into(),
        ..v1::CreateTeamRequest::default()
    };
    context.ensure_writable()?;
    let reply = operator.client.create_team_with(request).await?;
    let team = reply.team.ok_or_else(show::incomplete)?;
    context.save_identity(identity(&team.name, &team.lead, &reply.credential, &operator.client))?;
    Ok((team, reply.credential))
}

impl List {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::NamedOrOperator).or_else(|_| context.caller(Who::Current))?;
        let teams = caller.client.list_all_teams(v1::ListTeamsRequest::default(), usize::MAX).await?.teams;
        if self.output.json {
            teams.iter().for_each(|team| show::line(&show::json("Team", team)));
            return Ok(());
        }
        if teams.is_empty() {
            anstream::println!("There are no teams yet. Create one with `teamwire team create NAME`.");
            return Ok(());
        }
        let rows = teams.into_iter().map(|team| {
            vec![team.name, team.lead, team.members.to_string(), show::time(team.created_at.as_ref()), team.description]
        });
        show::table(&["team", "lead", "members", "created", "description"], rows.collect());
        Ok(())
    }
}

impl Show {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = match &self.name {
            Some(team) => context.caller(Who::In(team))?,
            None => context.caller(Who::Current)?,
        };
        super::status::show(&caller, self.name.as_deref(), self.output).await
    }
}

impl Delete {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = match &self.name {
            Some(team) => context.caller_leading(team).await?,
            None => context.caller(Who::Current)?,
        };
        let team = self.name.clone().or(caller.team.clone()).unwrap_or_default();
        let found = caller.client.get_team(v1::GetTeamRequest { team }).await?.team.ok_or_else(show::incomplete)?;
        let team = found.name;
        self.confirm
            .ask(&format!("Team {team} will be deleted, with its messages, tasks and history, for good."), "")?;
        caller.client.delete_team(v1::DeleteTeamRequest { team: team.clone() }).await?;
        context.remove_identities(&caller.address, &team, None)?;
        if self.output.json {
            show::line(&serde_json::json!({ "deleted": team }));
        } else {
            anstream::println!("Deleted team {team} and all its data.");
        }
        Ok(())
    }
}

impl Lead {
    async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller(Who::Current)?;
        successor::confirm(&caller, &self.member, self.confirm).await?;
        let request = v1::SetLeadRequest { member: self.member.clone(), ..v1::SetLeadRequest::default() };
        let team = caller.client.set_lead(request).await?.team.ok_or_else(show::incomplete)?;
        if self.output.json {
            show::line(&show::json("Team", &team));
        } else {
            anstream::println!("{} is now the lead of team {}.", team.lead, team.name);
        }
        Ok(())
    }
}
