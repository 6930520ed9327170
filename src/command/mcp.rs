//! `teamwire mcp`: a member's tools for an agent program.

use clap::Args;
use teamwire_agents::mcp::McpServer;

use crate::{context::ContextArgs, failure::Failure};

/// Give an agent program the tools of a member, as an MCP server over standard input and output
///
/// Add this command to the settings of a program that speaks the Model Context Protocol. It acts as your current identity,
/// or as the one given with --as; in a program that `teamwire run` started, as the runner's member. Every member gets
/// SendMessage, SubmitPlan, TeamStatus and the task board; outside of a runner also CheckInbox; the lead also Invite,
/// ForceStop and TeamDelete.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire mcp\n    teamwire mcp --as lead@acme")]
pub struct Mcp {}

impl Mcp {
    pub async fn run(&self, context: &ContextArgs) -> Result<(), Failure> {
        let caller = context.caller()?;
        caller.member()?;
        let server = McpServer::new(caller.client, crate::context::is_within_runner());
        server.serve_stdio().await.map_err(|error| Failure::local("The MCP server stopped", error))
    }
}
