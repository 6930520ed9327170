//! `teamwire mcp`: a member's tools for an agent program.

use std::{env, time::Duration};

use clap::Args;
use teamwire_agents::{
    TOOLS_LOADED_VARIABLE,
    mcp::{CreateTeam, McpServer, TeamlessServer},
};
use teamwire_client::{Reason, Retry, v1};
use tokio::time::timeout;

use super::team;
use crate::{
    context::{Caller, ContextArgs, Who, is_within_runner},
    failure::Failure,
};

/// The name of a lead that TeamCreate makes, unless --as names another.
const LEAD: &str = "lead";

/// Within a runner: how long a tool call waits for a coordinator that is unreachable. Agent programs wait for at least
/// 300 s.
const OUTAGE_MAX: Duration = Duration::from_secs(240);

/// How long the server waits at its start for the coordinator to say what the caller is. Agent programs wait for at
/// least 10 s.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Give an agent program the tools of a member, as an MCP server over standard input and output
///
/// Add this command to the settings of a program that speaks the Model Context Protocol. The command acts as your
/// current identity, or as the one given with --as. In a program that `teamwire run` started, the command acts as the
/// runner's member. Every member gets SendMessage, TeamStatus and the task board. Outside of a runner, members also get
/// CheckInbox. The lead also gets Task, Invite, ForceStop and TeamDelete; the others also get SubmitPlan.
///
/// If you are in no team, or the identity that --as names is gone, the command tells the agent so. On the coordinator's
/// machine, the agent then has only TeamCreate, and gets the other tools once it has created a team. With --as
/// NAME@TEAM, the agent can create only that team.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire mcp\n    teamwire mcp --as lead@acme")]
pub(super) struct Mcp {}

impl Mcp {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let served = match member(context) {
            Ok(caller) => {
                refuse_host(&caller).await?;
                server(context, caller)?.serve_stdio().await
            }
            Err(failure) if is_within_runner() => return Err(failure),
            Err(failure) => teamless(context, &failure).serve_stdio().await,
        };
        served.map_err(|error| Failure::local("The MCP server stopped", error))
    }
}

fn member(context: &ContextArgs) -> Result<Caller, Failure> {
    let caller = context.caller(Who::Pinned)?;
    caller.member()?;
    Ok(caller)
}

/// Fails if the caller is a host, which has no tools. A coordinator that does not answer soon proves nothing: the
/// server starts, and its tools wait.
async fn refuse_host(caller: &Caller) -> Result<(), Failure> {
    let client = caller.client.clone().with_retry(Retry::none());
    match timeout(ANSWER_MAX, client.get_team(v1::GetTeamRequest::default())).await {
        // Every other member may see its team.
        Ok(Err(error)) if error.reason() == Some(Reason::NotPermitted) => Err(error.into()),
        _ => Ok(()),
    }
}

fn server(context: &ContextArgs, caller: Caller) -> Result<McpServer, Failure> {
    let in_runner = is_within_runner();
    let client = if in_runner { caller.client.with_retry(Retry::within(OUTAGE_MAX)) } else { caller.client };
    let server = McpServer::new(client, in_runner).with_hooks(&context.hooks_directory()?);
    Ok(match env::var_os(TOOLS_LOADED_VARIABLE).filter(|_| in_runner) {
        Some(file) => server.with_loaded_file(file.as_ref()),
        None => server,
    })
}

fn teamless(context: &ContextArgs, failure: &Failure) -> TeamlessServer {
    let why = match failure {
        Failure::NotAMember => "You are in no team yet.".to_owned(),
        other => format!("You are in no team. {}", other.message()),
    };
    if context.caller(Who::Operator).is_err() {
        return TeamlessServer::new(why, None);
    }
    let context = context.clone();
    let create: CreateTeam = Box::new(move |name, description| {
        let context = context.clone();
        Box::pin(async move { create(&context, &name, &description).await.map_err(|failure| failure.message()) })
    });
    TeamlessServer::new(format!("{why} TeamCreate creates one, which you lead."), Some(create))
}

/// Creates a team for the agent. If --as names an identity, only that one's.
async fn create(context: &ContextArgs, name: &str, description: &str) -> Result<McpServer, Failure> {
    let (lead, team) = context.named().unwrap_or((LEAD, None));
    if let Some(team) = team.filter(|team| !team.eq_ignore_ascii_case(name)) {
        return Err(Failure::usage(format!(
            "This session may only be {lead}@{team}, so the team's name must be {team}. To use another name, the user runs \
             `teamwire team create` and then `teamwire setup`."
        )));
    }
    let (_, credential) = team::create(context, name, lead, description, String::new()).await?;
    server(context, context.caller(Who::SavedWith(&credential))?)
}
