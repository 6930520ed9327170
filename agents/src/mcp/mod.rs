//! The MCP server: a team's tools for an agent, over standard input and output, or over HTTP.
//!
//! It acts as one member. Every member gets the tools to send messages, to read its inbox and to work on tasks; the
//! lead also gets those that manage the team, and the others one that submits a plan. If the coordinator refuses a
//! call, the tool returns the coordinator's text, which says what to do next.
//!
//! | module | tools |
//! |---|---|
//! | `send_message` | `SendMessage`, `SubmitPlan` |
//! | `check_inbox` | `CheckInbox` |
//! | `tasks`, `task_update` | `TaskCreate`, `TaskList`, `TaskGet`, `TaskClaim`, `TaskUpdate` |
//! | `teamless` | `TeamCreate`, for a person who is in no team |
//! | `team` | `TeamStatus`, and the lead's `Last`, `Invite`, `ForceStop`, `TeamDelete` |
//! | `work` | `WorkStatus` and `WorkDiff`, and the lead's `WorkMerge` |
//! | `spawn` | the lead's `Task`, which starts a teammate |

mod check_inbox;
mod http;
mod in_reply_to;
mod send_message;
mod spawn;
mod subscribe;
mod task_update;
mod tasks;
mod team;
mod teamless;
mod text;
mod transport;
mod work;

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::unistd::getppid;
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    handler::server::{router::tool::ToolRouter, tool::ToolCallContext},
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
        MetaObject, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use teamwire_client::{Client, v1};
use teamwire_proto::trace_parent;
use tokio::{
    io::{stdin, stdout},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use self::in_reply_to::Shown;
pub use self::{
    http::{HttpAnswer, HttpServer},
    teamless::{CreateTeam, TeamlessServer},
};
use crate::visible::shown_line;

/// The names of all tools of a member.
pub(crate) const TOOLS: [&str; 20] = [
    "CheckInbox",
    "ForceStop",
    "Interrupt",
    "Invite",
    "Last",
    "SendMessage",
    "SubmitPlan",
    "Subscribe",
    "Tag",
    "Task",
    "TaskClaim",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "TeamDelete",
    "TeamStatus",
    "WorkDiff",
    "WorkMerge",
    "WorkStatus",
];

/// The tools that only the lead gets.
const FOR_THE_LEAD: [&str; 8] = ["Task", "Tag", "Invite", "ForceStop", "Last", "Interrupt", "TeamDelete", "WorkMerge"];

/// The tool that the lead does not get, because plans go to the lead.
const FOR_TEAMMATES: &str = "SubmitPlan";

/// The tool that a member under a runner does not get, because the runner hands its messages over.
const CHECK_INBOX: &str = "CheckInbox";

/// The tool that a program does not get over HTTP, because it needs the lead's clone of the repository.
const WORK_MERGE: &str = "WorkMerge";

/// The member of a call's `_meta` with which a program makes the call repeatable: what the call changes, it changes once,
/// however often it is repeated with the same key.
const IDEMPOTENCY_KEY: &str = "teamwire/idempotency-key";

/// How long writing the last answers may take.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// How often to check whether the program that has started the server is still there.
const PARENT_POLL: Duration = Duration::from_secs(2);

/// Why the server stopped.
#[derive(Debug, thiserror::Error)]
#[error("The agent program and this MCP server do not understand each other: {0}.")]
pub struct ServeError(String);

/// A member's tools.
#[derive(Clone, Debug)]
pub struct McpServer {
    client: Client,
    /// The member's name.
    name: Arc<str>,
    tools: ToolRouter<Self>,
    shown: Arc<Mutex<Shown>>,
    /// Whether the member was the lead when the server last asked the coordinator.
    was_lead: Arc<AtomicBool>,
    in_runner: bool,
    /// Where hooks record which messages they have handed over. `None` if there are no hooks.
    hooks_directory: Option<Arc<Path>>,
    /// The file to create once the program has asked for its tools. `None` if no one waits for it.
    loaded_file: Option<Arc<Path>>,
    /// Cancelled when no one waits for the answer any more, or the coordinator ends. `None` if the program has started this process, and shares its files with it.
    over_http: Option<CancellationToken>,
    /// Whether the current call has an idempotency key.
    is_repeatable: bool,
}

impl McpServer {
    /// Creates the tools of the client's member. `in_runner`: a runner hands the member its messages, so that the agent
    /// has no inbox to check.
    pub fn new(client: Client, in_runner: bool) -> Self {
        let mut tools = Self::message_tools()
            + Self::inbox_tools()
            + Self::task_tools()
            + Self::task_update_tools()
            + Self::team_tools()
            + Self::subscription_tools()
            + Self::work_tools()
            + Self::spawn_tools();
        if in_runner {
            tools.disable_route(CHECK_INBOX);
        }
        Self {
            name: client.name().into(),
            client,
            tools,
            shown: Arc::default(),
            was_lead: Arc::default(),
            in_runner,
            hooks_directory: None,
            loaded_file: None,
            over_http: None,
            is_repeatable: false,
        }
    }

    /// Creates the tools for one request over HTTP. `gone`: cancelled when no one waits for the answer any more.
    fn over_http(client: Client, caller: v1::Caller, gone: CancellationToken) -> Self {
        let was_lead = Arc::new(AtomicBool::new(caller.is_lead));
        let mut server =
            Self { name: caller.member.into(), was_lead, over_http: Some(gone), ..Self::new(client, false) };
        server.tools.disable_route(WORK_MERGE);
        server.tools.remove_route(CHECK_INBOX);
        server.tools.merge(Self::http_inbox_tools());
        server
    }

    /// Returns these tools for a call with an idempotency key.
    fn repeatable(&self, key: &str) -> Self {
        Self { client: self.client.with_idempotency_key(key), is_repeatable: true, ..self.clone() }
    }

    /// Sets the directory of [`Hooks`](crate::hooks::Hooks), so that the agent's messages answer those that hooks
    /// handed over.
    pub fn with_hooks(self, directory: &Path) -> Self {
        Self { hooks_directory: Some(directory.into()), ..self }
    }

    /// Sets the file to create once the program has asked for its tools.
    pub fn with_loaded_file(self, file: &Path) -> Self {
        Self { loaded_file: Some(file.into()), ..self }
    }

    /// Serves an agent program over this process's standard input and output, until the program closes them.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        serve_stdio(self).await
    }

    /// Returns the tools that the member may use now.
    async fn offered(&self) -> Vec<Tool> {
        let leads = self.leads().await;
        let tools = self.tools.list_all().into_iter();
        let offered = tools.filter(|tool| role_for(&tool.name).is_none_or(|must| must == leads)).map(always_loaded);
        if leads { offered.map(send_message::for_the_lead).collect() } else { offered.collect() }
    }

    /// Returns whether the member may use a tool now. Asks for its role only if the answer depends on it.
    async fn may_use(&self, name: &str) -> bool {
        let must_lead = role_for(name);
        self.tools.has_route(name) && (must_lead.is_none() || must_lead == Some(self.leads().await))
    }

    /// Returns whether the member is the lead. If the coordinator cannot be reached, the member keeps its role.
    async fn leads(&self) -> bool {
        // A request over HTTP has asked already.
        if self.over_http.is_none()
            && let Ok(reply) = self.client.get_team(v1::GetTeamRequest::default()).await
        {
            let leads = reply.team.is_some_and(|team| team.lead.eq_ignore_ascii_case(&self.name));
            self.was_lead.store(leads, Ordering::Relaxed);
        }
        self.was_lead.load(Ordering::Relaxed)
    }
}

/// Returns a value of a call's `_meta`.
fn from_meta(request: &CallToolRequestParams, context: &RequestContext<RoleServer>, key: &str) -> Option<Value> {
    request.meta.as_ref().and_then(|meta| meta.get(key)).or_else(|| context.meta.get(key)).cloned()
}

/// Returns the span of a call, which continues the trace in its `_meta`. What the tool sends continues it, too.
fn call_span(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Span {
    let span = tracing::info_span!(
        "tools/call",
        otel.name = format!("tools/call {}", request.name),
        otel.kind = "server",
        mcp.method.name = "tools/call",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = &*request.name,
    );
    if let Some(Value::String(parent)) = from_meta(request, context, trace_parent::METADATA_KEY) {
        trace_parent::adopt(&span, &parent);
    }
    span
}

/// Returns who gets a tool: only the lead (true), only its teammates (false), or every member (None).
fn role_for(name: &str) -> Option<bool> {
    FOR_THE_LEAD.contains(&name).then_some(true).or_else(|| (name == FOR_TEAMMATES).then_some(false))
}

async fn serve_stdio(server: impl ServerHandler) -> Result<(), ServeError> {
    let (ends, written) = transport::connect(stdin(), stdout());
    let running = server.serve(ends).await.map_err(|error| ServeError(error.to_string()))?;
    tokio::select! {
        ended = running.waiting() => drop(ended.map_err(|error| ServeError(error.to_string()))?),
        // Another process of the program may hold our input open after the program has died.
        () = orphaned() => return Ok(()),
    }
    // The last answers are still on their way.
    let _ = timeout(LAST_WRITES, written).await;
    Ok(())
}

/// Waits until the program that has started this process is gone.
async fn orphaned() {
    let program = getppid();
    while getppid() == program {
        sleep(PARENT_POLL).await;
    }
}

fn implementation() -> Implementation {
    Implementation::new("teamwire", env!("CARGO_PKG_VERSION"))
}

/// Marks a tool as one that the agent always sees. Agent programs hide others until the model searches for them.
fn always_loaded(tool: Tool) -> Tool {
    let mut meta = MetaObject::default();
    meta.insert("anthropic/alwaysLoad".to_owned(), json!(true));
    tool.with_meta(meta)
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let (name, team) = (&self.name, self.client.team());
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation())
            .with_instructions(format!(
                "You are {name} of team {team}. Your teammates read only what SendMessage sends."
            ))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = self.offered().await;
        if let Some(file) = &self.loaded_file
            && let Err(error) = fs::write(file, "")
        {
            tracing::debug!(%error, "the runner does not learn that the tools are loaded");
        }
        Ok(ListToolsResult::with_all_items(offered))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if !self.may_use(&request.name).await {
            let offered = self.offered().await;
            let names: Vec<&str> = offered.iter().map(|tool| &*tool.name).collect();
            let says = format!("You have no tool {}. Yours are {}.", shown_line(&request.name), names.join(", "));
            return Ok(CallToolResult::error(vec![ContentBlock::text(says)]).into());
        }
        let span = call_span(&request, &context);
        self.call(request, context).instrument(span).await
    }
}

impl McpServer {
    /// Calls a tool that the member may use.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match from_meta(&request, &context, IDEMPOTENCY_KEY) {
            Some(Value::String(key)) if !key.is_empty() => {
                let repeatable = self.repeatable(&key);
                self.tools.call(ToolCallContext::new(&repeatable, request, context)).await
            }
            Some(_) => {
                let says = format!("{IDEMPOTENCY_KEY} must be a text that is not empty.");
                Ok(CallToolResult::error(vec![ContentBlock::text(says)]).into())
            }
            None => self.tools.call(ToolCallContext::new(self, request, context)).await,
        }
    }
}
