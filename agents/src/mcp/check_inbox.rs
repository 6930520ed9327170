//! `CheckInbox`.

use std::time::Duration;

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::{Error, v1};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{McpServer, text};
use crate::agent_text::{AnswerWith, teammate_message};

/// How many messages one call returns.
const MESSAGES_MAX: u32 = 20;

/// How long a call may wait. Codex ends a tool call after 300 seconds.
const WAIT_MAX: Duration = Duration::from_secs(240);

/// How long a call over HTTP may wait: programs and proxies end requests that take longer.
const HTTP_WAIT_MAX: Duration = Duration::from_secs(60);

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
        let wait_max = if self.over_http.is_some() { HTTP_WAIT_MAX } else { WAIT_MAX };
        self.read_inbox(Duration::from_secs(check.wait_seconds).min(wait_max)).await.map_err(text::failure)
    }
}

impl McpServer {
    async fn read_inbox(&self, patience: Duration) -> Result<String, Error> {
        let processed = self.shown.lock().unacknowledged.clone();
        if !processed.is_empty() {
            self.acknowledge(processed).await?;
        }
        let began = Instant::now();
        loop {
            let request = v1::ListInboxRequest { page_size: MESSAGES_MAX, ..v1::ListInboxRequest::default() };
            let inbox = self.client.list_inbox(request).await?;
            if !inbox.deliveries.is_empty() {
                return Ok(self.show(&inbox));
            }
            let left = patience.saturating_sub(began.elapsed());
            let is_ending = self.over_http.as_ref().is_some_and(CancellationToken::is_cancelled);
            if left.is_zero() || is_ending {
                return Ok("You have no new messages.".to_owned());
            }
            sleep(left.min(PAUSE)).await;
        }
    }

    fn show(&self, inbox: &v1::ListInboxResponse) -> String {
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
