//! `CheckInbox`.

use std::time::Duration;

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use serde_json::json;
use teamwire_client::{Error, v1};
use tokio::time::{Instant, sleep};

use super::{McpServer, text};
use crate::agent_text::{AnswerWith, teammate_message};

/// How many messages one call returns.
const MESSAGES_MAX: u32 = 20;

/// How long a call may wait. Codex ends a tool call after 300 seconds.
const WAIT_MAX: Duration = Duration::from_secs(240);

/// How long a call over HTTP may wait: programs and proxies end requests that take longer.
const HTTP_WAIT_MAX: Duration = Duration::from_secs(60);

/// How many messages one call acknowledges: the protocol's limit.
const PROCESSED_MAX: usize = 1_000;

/// How often a call that waits looks again.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct CheckInbox {
    /// How long to wait for a message if there is none, up to 240. Default: 0, which does not wait.
    #[serde(default)]
    wait_seconds: u64,
}

#[tool_router(router = inbox_tools, vis = "pub(super)")]
impl McpServer {
    /// Read new messages from your teammates. Messages that this tool has returned count as processed at its next call:
    /// act on them before. A message whose processing was interrupted is returned again.
    #[tool(
        name = "CheckInbox",
        annotations(
            title = "Check the inbox",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn check_inbox(&self, Parameters(check): Parameters<CheckInbox>) -> Result<String, String> {
        self.read_inbox(Duration::from_secs(check.wait_seconds).min(WAIT_MAX)).await.map_err(text::failure)
    }
}

/// Over HTTP, where an answer may get lost on its way.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct CheckInboxOverHttp {
    /// The message_id of each message that you have processed. The others are returned again.
    #[serde(default)]
    processed: Vec<String>,
    /// How long to wait for a message if there is none, up to 60. Default: 0, which does not wait.
    #[serde(default)]
    wait_seconds: u64,
}

#[tool_router(router = http_inbox_tools, vis = "pub(super)")]
impl McpServer {
    /// Read messages from your teammates. A message is returned until you name it in processed: act on it, and name it the
    /// next time that you call this tool.
    #[tool(
        name = "CheckInbox",
        annotations(
            title = "Check the inbox",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn check_inbox_over_http(&self, Parameters(check): Parameters<CheckInboxOverHttp>) -> Result<String, String> {
        for processed in check.processed.chunks(PROCESSED_MAX) {
            self.acknowledge(processed.to_vec()).await.map_err(text::failure)?;
        }
        let patience = Duration::from_secs(check.wait_seconds).min(HTTP_WAIT_MAX);
        let inbox = self.await_inbox(patience).await.map_err(text::failure)?;
        let mut says = self.show(&inbox);
        let ids: Vec<&str> =
            inbox.deliveries.iter().filter_map(|delivery| Some(delivery.message.as_ref()?.id.as_str())).collect();
        if !ids.is_empty() {
            let processed = json!({ "processed": ids });
            says = format!("{says}\n\nWhen you have processed them, call CheckInbox with {processed}.");
        }
        Ok(says)
    }
}

impl McpServer {
    async fn read_inbox(&self, patience: Duration) -> Result<String, Error> {
        let processed = self.shown.lock().unacknowledged.clone();
        if !processed.is_empty() {
            self.acknowledge(processed).await?;
        }
        Ok(self.show(&self.await_inbox(patience).await?))
    }

    /// Waits for messages. Returns an empty inbox if none come, or no one waits any more.
    async fn await_inbox(&self, patience: Duration) -> Result<v1::ListInboxResponse, Error> {
        let began = Instant::now();
        let gone = self.over_http.clone().unwrap_or_default();
        loop {
            let request = v1::ListInboxRequest { page_size: MESSAGES_MAX, ..v1::ListInboxRequest::default() };
            let Some(inbox) = gone.run_until_cancelled(self.client.list_inbox(request)).await else {
                return Ok(v1::ListInboxResponse::default());
            };
            let inbox = inbox?;
            let left = patience.saturating_sub(began.elapsed());
            if !inbox.deliveries.is_empty() || left.is_zero() {
                return Ok(inbox);
            }
            _ = gone.run_until_cancelled(sleep(left.min(PAUSE))).await;
        }
    }

    fn show(&self, inbox: &v1::ListInboxResponse) -> String {
        if inbox.deliveries.is_empty() {
            return "You have no new messages.".to_owned();
        }
        let mut shown = self.shown.lock();
        let mut texts: Vec<String> = Vec::new();
        for message in inbox.deliveries.iter().filter_map(|delivery| delivery.message.as_ref()) {
            shown.show(message);
            texts.push(teammate_message(message, AnswerWith::Tool));
        }
        let more = inbox.total.saturating_sub(texts.len() as u64);
        if more > 0 {
            texts.push(format!("{more} more: check again when you have processed these."));
        }
        texts.join("\n")
    }
}
