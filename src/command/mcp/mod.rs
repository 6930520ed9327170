//! `teamwire mcp`: a member's tools for an agent program.

mod http;

use std::{env, time::Duration};

use clap::Args;
use teamwire_agents::{
    TOOLS_LOADED_VARIABLE,
    mcp::{CreateTeam, McpServer, TeamlessServer},
};
use teamwire_client::{Reason, Retry, v1};
use tokio::time::timeout;

use self::http::Program;
use super::{Output, team};
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

/// Give an agent program the tools of a member, by MCP
///
/// Without --http, the command is an MCP server over standard input and output.
/// Add this command to the settings of a program that speaks the Model Context Protocol. The command acts as your
/// current identity, or as the one given with --as. In a program that `teamwire run` started, the command acts as the
/// runner's member. Every member gets SendMessage, TeamStatus and the task board. Outside of a runner, members also get
/// CheckInbox. The lead also gets Task, Invite, ForceStop and TeamDelete; the others also get SubmitPlan.
///
/// If you are in no team, or the identity that --as names is gone, the command tells the agent so. On the coordinator's
/// machine, the agent then has only TeamCreate, and gets the other tools once it has created a team. With --as
/// NAME@TEAM, the agent can create only that team.
///
/// With --http, a program that runs anywhere gets the tools from the coordinator, and needs nothing of teamwire. The
/// command creates a tool credential and prints a setting for the program. The setting names an environment variable
/// instead of the credential, so you can commit it. The program acts as your member: it checks its inbox with
/// CheckInbox, and does not keep the member alive. A lead's program may do all that a lead may, which takes --lead.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire mcp\n    teamwire mcp --as lead@acme\n    teamwire mcp --http\n    teamwire mcp --http --lead --for codex"
)]
pub(super) struct Mcp {
    /// Create a tool credential, and print the setting with which a program reaches the tools by URL
    #[arg(long)]
    http: bool,
    /// Give the program a lead's tools; you must be the lead
    #[arg(long, requires = "http")]
    lead: bool,
    /// The program that the setting is for [default: claude]
    #[arg(long = "for", value_name = "PROGRAM", requires = "http")]
    program: Option<Program>,
    #[command(flatten)]
    pub output: Output,
}

impl Mcp {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        if self.http {
            let caller = context.caller(Who::Current)?;
            caller.member()?;
            return http::print(&caller, self.program.unwrap_or_default(), self.lead, self.output.json).await;
        }
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
