//! `Subscribe`.

use rmcp::{handler::server::wrapper::Parameters, schemars::JsonSchema, tool, tool_router};
use serde::Deserialize;
use teamwire_client::v1::{self, event_subscription::Event};
use teamwire_proto::word;

use super::{McpServer, text::failure};
use crate::agent_text::escaped;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Subscribe {
    /// Idle: a teammate is idle, or its life ends. Exit: it exits. Task: a task is completed or deleted. File: a teammate
    /// edits a file.
    event: Kind,
    /// The teammate; the task's id; or a path or a pattern such as src/*.rs, relative to the root of the repository.
    of: String,
}

// The model reads what the events mean above: a description of each variant would triple the schema.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(rename_all = "snake_case")]
enum Kind {
    Idle,
    Exit,
    Task,
    File,
}

#[tool_router(router = subscription_tools, vis = "pub(super)")]
impl McpServer {
    /// Get one message when something happens, instead of asking again and again. Go on with other work, or end your
    /// turn. It expires after 24 hours.
    #[tool(
        name = "Subscribe",
        annotations(
            title = "Wait for an event",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn subscribe(&self, Parameters(subscribe): Parameters<Subscribe>) -> Result<String, String> {
        let of = subscribe.of;
        let event = match subscribe.event {
            Kind::Idle => Event::MemberIdle(of),
            Kind::Exit => Event::MemberExit(of),
            Kind::Task => match of.trim_start_matches('#').parse() {
                Ok(id) => Event::TaskDone(id),
                Err(_) => return Err(format!("{} is not the id of a task. TaskList shows the ids.", escaped(&of))),
            },
            Kind::File => Event::FileEdited(of),
        };
        let subscription = v1::EventSubscription { event: Some(event), ..v1::EventSubscription::default() };
        let request =
            v1::SubscribeToEventRequest { subscription: Some(subscription), ..v1::SubscribeToEventRequest::default() };
        let reply = self.client.subscribe_to_event(request).await.map_err(failure)?;
        if reply.happened {
            return Ok("It has happened already. The message is in your inbox.".to_owned());
        }
        let event = word::event(&reply.subscription.unwrap_or_default());
        Ok(format!("You get a message when {}.", escaped(&event)))
    }
}
