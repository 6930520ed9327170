//! `SendMessage` and `SubmitPlan`.

use std::sync::{Arc, LazyLock};

use rmcp::{
    handler::server::wrapper::Parameters,
    model::{JsonObject, Tool},
    schemars::JsonSchema,
    tool, tool_router,
};
use serde::Deserialize;
use serde_json::json;
use teamwire_client::{Error, dialect, message, v1};
use teamwire_proto::{
    Kind,
    v1::{RequestState, send_request::Body},
};

use super::{McpServer, in_reply_to, text};
use crate::hooks;

/// The types that only the lead sends.
const FOR_THE_LEAD: [Kind; 2] = [Kind::ShutdownRequest, Kind::PlanApprovalResponse];

/// What the lead reads about them, besides what every member reads about SendMessage.
const FOR_THE_LEAD_TEXT: &str = "As the lead: shutdown_request: recipient, content. plan_approval_response: recipient, request_id, \
    approve, content if you reject.";

/// How many recipients of a message an answer names.
const NAMED_MAX: usize = 20;

/// The schema for a teammate.
static SCHEMA: LazyLock<Arc<JsonObject>> = LazyLock::new(|| Arc::new(schema(false)));

/// Both forms of SendMessage: the classic one and the newer one. The description says which fields belong together.
fn schema(leads: bool) -> JsonObject {
    let types = Kind::SENDABLE.iter().filter(|kind| leads || !FOR_THE_LEAD.contains(kind));
    let string = |description: &str| json!({ "type": "string", "description": description });
    let schema = json!({
        "type": "object",
        "properties": {
            "type": {
                "type": "string",
                "enum": types.map(|kind| kind.name()).collect::<Vec<_>>(),
                "description": "Default: message",
            },
            "recipient": string("A teammate's name, or team-lead; for a message also @TAG or @any:TAG"),
            "content": string("The text; a reason; the feedback on a plan; the whole command of a permission request"),
            "tool": string("What you ask permission to use"),
            "summary": string("5 to 10 words on one line, shown as a preview; required for message and broadcast"),
            "in_reply_to": string("The message_id that you answer"),
            "request_id": string("The id of the request that you answer"),
            "approve": { "type": "boolean", "description": "Your decision on the request" },
            "to": string("The newer spelling of recipient; * for everyone"),
            "message": { "type": ["string", "object"], "description": "The newer spelling of content" },
        },
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// Adds to SendMessage what only the lead sends. Leaves other tools as they are.
pub(super) fn for_the_lead(mut tool: Tool) -> Tool {
    if tool.name == "SendMessage" {
        let text = tool.description.take().unwrap_or_default();
        tool.description = Some(format!("{text} {FOR_THE_LEAD_TEXT}").into());
        tool.input_schema = Arc::new(schema(true));
    }
    tool
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct SubmitPlan {
    /// The plan, in full.
    plan: String,
    /// The plan in 5 to 10 words.
    #[serde(default)]
    summary: String,
}

#[tool_router(router = message_tools, vis = "pub(super)")]
impl McpServer {
    /// Send a message to a teammate, or answer a request. Your teammates see nothing else that you write.
    ///
    /// message: recipient, content, summary; to @TAG it reaches all teammates with that tag, and to @any:TAG an idle one of
    /// them. broadcast: content, summary; reaches everyone, so use it sparingly.
    /// shutdown_response: request_id, approve, content if you refuse; when you approve, your process ends.
    /// plan_approval_request: content is your plan. permission_request: tool, summary, content, and recipient if not the
    /// lead. permission_response: request_id, approve, content if you refuse. review_response: request_id, approve, content
    /// if you refuse.
    #[tool(
        name = "SendMessage",
        input_schema = SCHEMA.clone(),
        // It changes nothing in the agent's environment. Gemini CLI offers no other tools in its plan mode.
        annotations(title = "Send a message", read_only_hint = true, destructive_hint = false, open_world_hint = false)
    )]
    async fn send_message(&self, Parameters(arguments): Parameters<JsonObject>) -> Result<String, String> {
        let request = dialect::read_object(arguments).map_err(text::failure)?;
        self.send(request).await.map_err(text::failure)
    }

    /// Submit your plan to the lead and wait for approval. The answer comes as a message. Start the work only once the
    /// plan is approved; if it is rejected, change it and submit it again.
    #[tool(
        name = "SubmitPlan",
        annotations(
            title = "Submit a plan",
            read_only_hint = false,
            destructive_hint = false,
            open_world_hint = false
        )
    )]
    async fn submit_plan(&self, Parameters(plan): Parameters<SubmitPlan>) -> Result<String, String> {
        self.send(message::plan_approval_request(plan.plan, plan.summary)).await.map_err(text::failure)
    }
}

impl McpServer {
    async fn send(&self, mut request: v1::SendRequest) -> Result<String, Error> {
        if request.in_reply_to.is_empty() {
            request.in_reply_to = self.answered_message(&request).await.unwrap_or_default();
        }
        let reply = self.client.send(request.clone()).await?;
        let body = request.body.as_ref();
        if body.is_some_and(|body| body.kind().is_answer()) {
            self.acknowledge_request(&reply.request_id).await;
        } else {
            self.shown.lock().answered(&request.in_reply_to);
        }
        Ok(report(body, &reply))
    }

    async fn answered_message(&self, request: &v1::SendRequest) -> Option<String> {
        // What was read may be forgotten when the call is repeated, which must then say the same.
        if self.is_repeatable {
            return None;
        }
        let answerable = match self.in_runner {
            true => in_reply_to::answered_in_runner(&self.client, request, &self.shown).await,
            // All that is in the inbox may have been read.
            false if self.over_http.is_some() => {
                in_reply_to::handed_over(&self.client, &self.shown, |_| true).await.answerable(request)
            }
            false if self.shown.lock().unacknowledged.is_empty() => {
                let handed = self.handed_by_hooks();
                let is_handed = |delivery: &v1::Delivery| {
                    delivery.message.as_ref().is_some_and(|message| handed.contains(&message.id))
                };
                match handed.is_empty() {
                    true => return None,
                    false => in_reply_to::handed_over(&self.client, &self.shown, is_handed).await.answerable(request),
                }
            }
            false => self.shown.lock().pending.answerable(request),
        };
        answerable.resolve(&self.client).await
    }

    /// Returns the messages that hooks have handed to the agent, and that it has not processed.
    fn handed_by_hooks(&self) -> Vec<String> {
        let directory = self.hooks_directory.as_deref();
        directory.map(|directory| hooks::in_hand(directory, &self.name, self.client.team())).unwrap_or_default()
    }

    /// Acknowledges the message that made a request, which is answered. If that fails, it is only shown again.
    async fn acknowledge_request(&self, request_id: &str) {
        if self.in_runner {
            return;
        }
        let request = v1::GetRequestRequest { request_id: request_id.to_owned(), ..v1::GetRequestRequest::default() };
        if let Ok(v1::GetRequestResponse { request: Some(request) }) = self.client.get_request(request).await
            && request.state() != RequestState::Pending
        {
            _ = self.acknowledge(vec![request.message_id]).await;
        }
    }

    /// Acknowledges messages of the member's inbox.
    pub(super) async fn acknowledge(&self, message_ids: Vec<String>) -> Result<(), Error> {
        let request = v1::AckRequest { session_id: String::new(), message_ids: message_ids.clone() };
        self.client.ack(request).await?;
        self.shown.lock().acknowledged(&message_ids);
        Ok(())
    }
}

fn report(body: Option<&Body>, reply: &v1::SendResponse) -> String {
    let (named, others) = reply.recipients.split_at(reply.recipients.len().min(NAMED_MAX));
    let more = if others.is_empty() { String::new() } else { format!(" and {} others", others.len()) };
    let (to, request) = (named.join(", ") + &more, &reply.request_id);
    let mut report = match body {
        Some(Body::ShutdownRequest(_)) => {
            format!("You asked {to} to shut down (request_id {request}). The answer comes as a message.")
        }
        Some(Body::PlanApprovalRequest(_)) => {
            format!("You submitted your plan to {to} (request_id {request}). The answer comes as a message.")
        }
        Some(Body::PermissionRequest(_)) => {
            format!("You asked {to} for permission (request_id {request}). The answer comes as a message.")
        }
        Some(Body::ShutdownResponse(body)) if body.approve() => {
            "You approved your shutdown. Your process ends now: start nothing new.".to_owned()
        }
        _ if reply.recipients.is_empty() => "Sent. There is no other member in the team.".to_owned(),
        _ => format!("Sent to {to}."),
    };
    for warning in &reply.warnings {
        report.push_str("\nWarning: ");
        report.push_str(warning);
    }
    report
}
