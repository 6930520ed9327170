//! The member's tools for a program that calls them over its own protocol: the MCP server ([`mcp`](crate::mcp)), in
//! this process.

use std::future::pending;

use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResult},
    service::{Peer, RunningService, ServiceError},
};
use serde_json::Value;
use teamwire_client::Client;
use tokio::task::JoinSet;

use super::protocol::{Tool, ToolResult};
use crate::mcp::McpServer;

/// The size of the pipe between the client and the server, each way.
const PIPE_BYTES: usize = 64 * 1024;

/// The tools, and the calls that are under way. When this is dropped, they are abandoned.
#[derive(Debug)]
pub(super) struct Tools {
    client: RunningService<RoleClient, ()>,
    tasks: JoinSet<Option<Called>>,
}

/// The key of a call, and its result.
pub(super) type Called = (String, ToolResult);

impl Tools {
    /// Starts the server for the client's member.
    pub(super) async fn start(client: Client) -> Result<Self, String> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Ok(server) = McpServer::new(client, true).serve(theirs).await {
                let _ = server.waiting().await;
            }
            None
        });
        let client = ().serve(ours).await.map_err(|error| error.to_string())?;
        Ok(Self { client, tasks })
    }

    /// Returns the tools that the member may use.
    pub(super) async fn list(&self) -> Result<Vec<Tool>, String> {
        let listed = self.client.list_all_tools().await.map_err(|error| error.to_string())?;
        let tool = |tool: rmcp::model::Tool| Tool {
            name: tool.name.into_owned(),
            description: tool.description.unwrap_or_default().into_owned(),
            input_schema: Value::Object(tool.input_schema.as_ref().clone()),
        };
        Ok(listed.into_iter().map(tool).collect())
    }

    /// Begins a call.
    pub(super) fn call(&mut self, key: String, tool: String, input: Value) {
        let server = self.client.peer().clone();
        self.tasks.spawn(async move { Some((key, call(&server, tool, input).await)) });
    }

    /// Waits for the next result. Cancel-safe.
    pub(super) async fn next(&mut self) -> Called {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(called))) => return called,
                // The server has ended, or a call has panicked.
                Some(_) => {}
                None => return pending().await,
            }
        }
    }
}

async fn call(server: &Peer<RoleClient>, tool: String, input: Value) -> ToolResult {
    let mut request = CallToolRequestParams::new(tool);
    match input {
        Value::Object(fields) => request = request.with_arguments(fields),
        Value::Null => {}
        other => return failed(format!("The input of a tool is an object of JSON, not {other}.")),
    }
    match server.call_tool(request).await {
        Ok(result) => ToolResult { text: text(&result), is_error: result.is_error == Some(true) },
        Err(ServiceError::McpError(error)) => failed(error.message.into_owned()),
        Err(error) => failed(error.to_string()),
    }
}

fn text(result: &CallToolResult) -> String {
    let blocks = result.content.iter().filter_map(|block| block.as_text());
    blocks.map(|block| block.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn failed(text: String) -> ToolResult {
    ToolResult { text, is_error: true }
}

/// Waits for the next result of a tool, and forever without tools. Cancel-safe.
pub(super) async fn called(tools: &mut Option<Tools>) -> Called {
    match tools {
        Some(tools) => tools.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use teamwire_proto::v1::send_request::Body;
    use teamwire_test_coordinator::Coordinator;
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

    async fn result(tools: &mut Tools, tool: &str, input: Value) -> ToolResult {
        tools.call("k".to_owned(), tool.to_owned(), input);
        let (key, result) = timeout(PATIENCE, tools.next()).await.expect("a result");
        assert_eq!(key, "k");
        result
    }

    #[tokio::test]
    async fn a_tool_is_called_as_the_member() {
        let coordinator = Coordinator::start().await;
        let mut tools = Tools::start(coordinator.client()).await.expect("started");
        let input = json!({"type": "message", "recipient": "lead", "content": "hi", "summary": "greeting"});
        let sent = result(&mut tools, "SendMessage", input).await;
        assert!(!sent.is_error, "{sent:?}");
        let body = coordinator.with(|state| state.sends[0].0.body.clone());
        assert!(matches!(body, Some(Body::Message(message)) if message.content == "hi"));
    }

    #[tokio::test]
    async fn the_tools_are_those_of_a_member_under_a_runner() {
        let coordinator = Coordinator::start().await;
        let tools = Tools::start(coordinator.client()).await.expect("started").list().await.expect("listed");
        let send = tools.iter().find(|tool| tool.name == "SendMessage").expect("SendMessage");
        assert_eq!(send.input_schema["type"], "object");
        assert!(!send.description.is_empty());
        assert!(!tools.iter().any(|tool| tool.name == "CheckInbox"), "messages come by themselves");
    }

    #[tokio::test]
    async fn a_call_that_cannot_be_made_says_why() {
        let coordinator = Coordinator::start().await;
        let mut tools = Tools::start(coordinator.client()).await.expect("started");
        for (tool, input, says) in [
            ("TeamDelete", json!({}), "You have no tool TeamDelete"),
            ("SendMessage", json!("hi"), "an object of JSON"),
            ("TaskGet", json!({}), "task"),
        ] {
            let failed = result(&mut tools, tool, input).await;
            assert!(failed.is_error && failed.text.contains(says), "{tool}: {failed:?}");
        }
    }
}
