//! The server of an agent whose person is in no team, or has lost the identity that the settings name.
//!
//! It says so, and offers to create a team. From then on, it has the tools of that team's lead.

use std::{fmt, future::Future, pin::Pin, sync::OnceLock};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::tool::schema_for_type,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    schemars::JsonSchema,
    service::RequestContext,
};
use serde::Deserialize;

use super::{McpServer, ServeError, always_loaded, implementation, serve_stdio};

/// The only tool.
const TEAM_CREATE: &str = "TeamCreate";

/// Creates a team, given its name and its description, and returns the tools of its lead, or why that is not possible.
pub type CreateTeam =
    Box<dyn Fn(String, String) -> Pin<Box<dyn Future<Output = Result<McpServer, String>> + Send>> + Send + Sync>;

/// The tools of an agent without a team.
pub struct TeamlessServer {
    why: String,
    /// `None` if this person may not create teams.
    create: Option<CreateTeam>,
    created: OnceLock<McpServer>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct TeamCreate {
    /// The team's name: letters, digits, '.', '_' and '-'.
    #[serde(alias = "name")]
    team_name: String,
    /// What the team is for.
    #[serde(default)]
    description: String,
}

impl TeamlessServer {
    /// Creates the tools. `why` says to the agent why it is in no team, as a sentence.
    pub fn new(why: String, create: Option<CreateTeam>) -> Self {
        Self { why, create, created: OnceLock::new() }
    }

    /// Serves an agent program as [`McpServer::serve_stdio`] does.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        serve_stdio(self).await
    }

    fn tools(&self) -> Vec<Tool> {
        let annotations = ToolAnnotations::with_title("Create a team").read_only(false).destructive(false);
        let tool = Tool::new(
            TEAM_CREATE,
            "Create a team, and become its lead. You then have the tools to talk to teammates and to share tasks with them.",
            schema_for_type::<TeamCreate>(),
        );
        let tool = always_loaded(tool.with_annotations(annotations.open_world(false)));
        self.create.is_some().then_some(tool).into_iter().collect()
    }

    /// Creates the team that a call asks for. Returns the text for the agent.
    async fn create(&self, request: CallToolRequestParams) -> Result<String, String> {
        let create = self.create.as_ref().filter(|_| request.name == TEAM_CREATE);
        let create = create.ok_or_else(|| format!("You have no tool {}. {}", request.name, self.why))?;
        let arguments = request.arguments.unwrap_or_default().into();
        let TeamCreate { team_name, description } = serde_json::from_value(arguments)
            .map_err(|error| format!("The input of {TEAM_CREATE} is wrong: {error}."))?;
        let server = create(team_name, description).await?;
        let (name, team) = (server.name.to_string(), server.client.team().to_owned());
        _ = self.created.set(server);
        Ok(format!("Created team {team}. You are its lead, {name}, and have the tools of a lead from now on."))
    }
}

impl ServerHandler for TeamlessServer {
    fn get_info(&self) -> ServerConfig {
        match self.created.get() {
            Some(server) => server.get_info(),
            None => {
                let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
                ServerConfig::new(capabilities).with_server_info(implementation()).with_instructions(self.why.clone())
            }
        }
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        match self.created.get() {
            Some(server) => server.list_tools(page, context).await,
            None => Ok(ListToolsResult::with_all_items(self.tools())),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(server) = self.created.get() {
            return server.call_tool(request, context).await;
        }
        let result = match self.create(request).await {
            Ok(text) => {
                // A program that does not listen shows the new tools in its next session.
                _ = context.peer.notify_tool_list_changed().await;
                CallToolResult::success(vec![ContentBlock::text(text)])
            }
            Err(text) => CallToolResult::error(vec![ContentBlock::text(text)]),
        };
        Ok(result.into())
    }
}

impl fmt::Debug for TeamlessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamlessServer").field("why", &self.why).finish_non_exhaustive()
    }
}
