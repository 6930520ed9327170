//! `teamwire mcp`: a member's tools for an agent program.

use clap::Args;
use teamwire_agents::mcp::McpServer;

use crate::{
    context::{ContextArgs, is_within_runner},
    failure::Failure,
};

/// Give an agent program the tools of a member, as an MCP server over standard input and output
///
/// Name this command in the settings of a program that speaks the Model Context Protocol. It acts as your current identity,
/// or the one given with --as; in a program that `teamwire run` started, as that member. Every member gets SendMessage,
/// SubmitPlan, TeamStatus and the task board; outside of a runner also CheckInbox; the lead also Invite, ForceStop and
/// TeamDelete.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire mcp\n    teamwire mcp --as lead@acme")]
pub struct Mcp {}

impl Mcp {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.pinned_caller()?;
        caller.member()?;
        let server = McpServer::new(caller.client, is_within_runner()).with_hooks(&context.hooks_directory()?);
        server.serve_stdio().await.map_err(|error| Failure::local("The MCP server stopped", error))
    }
}
