//! Programs that speak version 1 of the Agent Client Protocol, such as Gemini CLI and opencode.
//!
//! They take one prompt at a time: a message that arrives in the middle of a turn waits for the end of the turn. A
//! prompt is processed when the program has answered it ([`Acp::turn_ended`]).
//!
//! The protocol has no field for the reason of a refusal, and opencode ends its turn at one. So the reason follows as
//! another prompt, and only when that is answered is the first prompt processed.

mod gemini;
mod narrator;
mod permissions;
mod program;
mod session;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, env, ffi::OsString, mem, path};

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        ClientCapabilities, ClientSessionCapabilities, CompactionCapabilities, CompactionStatus, Error, ErrorCode,
        Implementation, InitializeRequest, PromptRequest, PromptResponse, RequestPermissionRequest, SessionId,
        SessionNotification, SessionUpdate, StopReason, ToolCallStatus, ToolCallUpdate,
    },
};
use serde::Serialize;
use serde_json::{Value, json};

use self::{
    narrator::Narrator,
    permissions::{OptionChoice, Permissions, allowing, permission_request, use_of},
    program::Program,
};
use super::protocol::{
    Change, Decision, Event, Outbox, Prompt, PromptId, Protocol, Setup, TurnEnd, Usage, unreadable_rpc,
};
use crate::{agent_text::escaped, incarnation::Additions};

/// What the program was asked and has not answered yet.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Initialize,
    NewSession,
    /// To resume its session.
    Resume,
    PlanMode,
    Prompt,
}

/// A turn.
#[derive(Debug)]
struct Turn {
    prompt: PromptId,
    /// What was refused in it, as texts for the agent.
    refusals: Vec<String>,
    /// How many prompts with refusals the agent has read in it.
    follow_ups: u32,
}

/// The most prompts with refusals that follow one prompt. Bounded, because an agent may insist forever.
const FOLLOW_UPS_MAX: u32 = 20;

/// The protocol of one process of a program.
#[derive(Debug)]
pub(super) struct Acp {
    setup: Setup,
    /// What starts the program.
    command: String,
    program: Program,
    asked: HashMap<i64, Asked>,
    last_id: i64,
    session: Option<SessionId>,
    is_ready: bool,
    turn: Option<Turn>,
    /// Whether the program must end after its turn.
    is_closing: bool,
    /// Whether updates may replay the session that the program resumes. Some programs continue the replay after they
    /// have answered that the session is loaded.
    is_replaying: bool,
    permissions: Permissions,
    narrator: Narrator,
    usage: Usage,
    /// What the session had cost before this process, which the program counts, too. `None` means unknown.
    cost_before: Option<f64>,
    /// How many tokens the context held, as the program last reported.
    context_tokens: u64,
}

impl Acp {
    /// Creates the protocol of a program. `command`: what starts it.
    pub(super) fn new(command: &str, setup: Setup) -> Self {
        let program = Program::of(command);
        Self {
            command: command.to_owned(),
            program,
            asked: HashMap::new(),
            last_id: 0,
            session: None,
            is_ready: false,
            turn: None,
            is_closing: false,
            is_replaying: false,
            permissions: Permissions::default(),
            narrator: Narrator::new(program),
            usage: Usage::default(),
            cost_before: setup.resume.is_none().then_some(0.0),
            context_tokens: 0,
            setup,
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: impl Serialize, out: &mut Outbox) {
        self.last_id += 1;
        self.asked.insert(self.last_id, asked);
        out.write(json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }));
    }

    /// Handles the answer to one of our requests.
    fn answered(&mut self, asked: Asked, answer: Result<Value, Error>, out: &mut Outbox) {
        match (asked, answer) {
            (Asked::Initialize, Ok(answer)) => self.initialized(answer, out),
            (Asked::NewSession, Ok(answer)) => {
                let session = answer["sessionId"].as_str().map(|id| SessionId::new(id.to_owned()));
                self.opened(session, out);
            }
            (Asked::Resume, Ok(_)) => self.opened(self.setup.resume.clone().map(SessionId::new), out),
            (Asked::Resume, Err(error)) => self.start_over(&text_of(&error), out),
            (Asked::PlanMode, Ok(_)) => self.ready(out),
            (Asked::Prompt, answer) => self.turn_ended(answer, out),
            (Asked::NewSession, Err(error)) if error.code == ErrorCode::AuthRequired => {
                out.tell(Event::Broken(format!(
                    "The program is not signed in: {} Start it once without teamwire and sign in, or set its API key.",
                    sentence(&text_of(&error))
                )))
            }
            (Asked::Initialize | Asked::NewSession | Asked::PlanMode, Err(error)) => {
                out.tell(Event::Broken(format!("The program cannot start a session: {}", text_of(&error))));
            }
        }
    }

    fn ask_prompt(&mut self, text: String, out: &mut Outbox) {
        if let Some(session) = self.session.clone() {
            self.ask(Asked::Prompt, "session/prompt", PromptRequest::new(session, vec![text.into()]), out);
        }
    }

    /// Handles the answer to a prompt, which means that the prompt is processed.
    ///
    /// A turn that was cut short counts, too: its effects remain, and if the prompt were handed over again, the agent
    /// would repeat them and be cut short again.
    fn turn_ended(&mut self, answer: Result<Value, Error>, out: &mut Outbox) {
        let Some(mut turn) = self.turn.take() else { return };
        let final_text = self.narrator.end_turn(out);
        let end = |cut_short: &str| {
            Event::TurnEnded(TurnEnd { final_text: final_text.clone(), cut_short: cut_short.to_owned() })
        };
        self.is_replaying = false;
        self.cancel_permissions(out);
        let answer = answer
            .map_err(|error| text_of(&error))
            .and_then(|answer| serde_json::from_value::<PromptResponse>(answer).map_err(|error| error.to_string()));
        let ended = match answer {
            Ok(ended) => ended,
            Err(error) => {
                out.tell(end(&error));
                return out.tell(Event::Failed(turn.prompt, error));
            }
        };
        self.add_usage(&ended, out);
        let cut_short = match ended.stop_reason {
            StopReason::Cancelled => {
                let why = "the turn was cancelled";
                out.tell(end(why));
                return out.tell(Event::Failed(turn.prompt, why.to_owned()));
            }
            StopReason::MaxTokens => Some("the model reached its token limit"),
            StopReason::MaxTurnRequests => Some("the program allows no more requests in a turn"),
            StopReason::Refusal => Some("the model refused to continue; it does not remember the turn"),
            _ => None,
        };
        if let Some(why) = cut_short {
            out.tell(Event::Warning(format!("A turn ended early: {why}. Its messages count as processed.")));
        } else if !turn.refusals.is_empty() && turn.follow_ups < FOLLOW_UPS_MAX && !self.is_closing {
            turn.follow_ups += 1;
            let refusals = mem::take(&mut turn.refusals).join("\n");
            self.turn = Some(turn);
            return self.ask_prompt(refusals, out);
        }
        out.tell(end(cut_short.unwrap_or_default()));
        out.tell(Event::Processed(turn.prompt));
    }

    /// Answers every request for permission that waits, because no decision will come.
    fn cancel_permissions(&mut self, out: &mut Outbox) {
        for (key, answer) in self.permissions.cancel_all() {
            write_answer(answer, out);
            out.tell(Event::WishWithdrawn { key });
        }
    }

    /// Adds what a turn has used. Gemini CLI reports it in a nonstandard field.
    fn add_usage(&mut self, ended: &PromptResponse, out: &mut Outbox) {
        let quota = ended.meta.as_ref().and_then(|meta| meta.get("quota"));
        if let Some(model) = quota.and_then(|quota| quota["model_usage"][0]["model"].as_str()) {
            out.note(Change::Model(model.to_owned()));
        }
        let gemini = quota.map(|quota| &quota["token_count"]);
        let gemini = |field: &str| gemini.and_then(|count| count[field].as_u64()).unwrap_or_default();
        let (input, cached, output) = match &ended.usage {
            Some(usage) => (usage.input_tokens, usage.cached_read_tokens.unwrap_or_default(), usage.output_tokens),
            None => (gemini("input_tokens"), 0, gemini("output_tokens")),
        };
        self.usage.turns += 1;
        self.usage.input_tokens += input;
        self.usage.cached_tokens += cached;
        self.usage.output_tokens += output;
        out.tell(Event::Usage(self.usage));
    }

    /// Handles what the program reports about its session.
    fn update(&mut self, update: SessionUpdate, out: &mut Outbox) {
        let call = match &update {
            SessionUpdate::ToolCall(call) => Some(ToolCallUpdate::from(call.clone())),
            SessionUpdate::ToolCallUpdate(call) => Some(call.clone()),
            _ => None,
        };
        // A call in a replay has ended.
        let is_live = call.as_ref().is_some_and(|call| call.fields.status == Some(ToolCallStatus::InProgress));
        self.is_replaying &= !(is_live && self.turn.is_some());
        match update {
            SessionUpdate::UsageUpdate(usage) => {
                // opencode does not report that it has compacted its context, but the context has shrunk.
                if usage.used < self.context_tokens / 2 {
                    out.tell(Event::Compacted);
                }
                self.context_tokens = usage.used;
                if let Some(cost) = usage.cost.filter(|cost| cost.currency == "USD") {
                    let before = *self.cost_before.get_or_insert(cost.amount);
                    self.usage.cost_usd = Some(cost.amount - before);
                }
            }
            SessionUpdate::CompactionUpdate(update) if update.status == CompactionStatus::Completed => {
                out.tell(Event::Compacted);
            }
            // Gemini CLI sends it when its replay is complete.
            SessionUpdate::AvailableCommandsUpdate(_) => self.is_replaying = false,
            _ if self.is_replaying => {}
            SessionUpdate::AgentMessageChunk(chunk) => self.narrator.message(&chunk.content, out),
            _ => {
                if let Some(call) = call {
                    self.narrator.call(&call, out);
                }
            }
        }
    }

    /// Handles a request of the program. It is always answered.
    fn asked_by_program(&mut self, id: Value, method: &str, params: Value, out: &mut Outbox) {
        let error = match method {
            "session/request_permission" => match serde_json::from_value::<RequestPermissionRequest>(params) {
                Ok(request) => return self.permission_wanted(id, request, out),
                Err(error) => Error::invalid_params().data(json!(error.to_string())),
            },
            // opencode asks an editor to write the files that it has edited, and continues whatever the answer is.
            _ => Error::method_not_found(),
        };
        out.write(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    fn permission_wanted(&mut self, id: Value, request: RequestPermissionRequest, out: &mut Outbox) {
        self.is_replaying = false;
        self.narrator.end_message(out);
        let call = request.tool_call.clone();
        let first_title = self.narrator.first_title(&call.tool_call_id.0);
        let tool = self.program.tool_name(&call, first_title).map(str::to_owned);
        let name = tool.as_deref().unwrap_or_default();
        let options = request.options.clone();
        let key = self.permissions.insert(id, request);
        let is_ours = self.setup.mcp.is_some() && self.program.our_tool(name).is_some();
        if is_ours || self.program.is_harmless(name) {
            return self.decide(&key, Decision::Allow, out);
        }
        if self.is_closing {
            return self.cancel_permissions(out);
        }
        if allowing(&options).is_none() {
            let why = "The program offers no answer that permits it, so no one was asked.".to_owned();
            return self.decide(&key, Decision::Deny(why), out);
        }
        let title = call.fields.title.as_deref().unwrap_or_default();
        let Some(file) = self.program.plan_to_approve(name, title) else {
            let mut wanted = permission_request(key, tool.as_deref(), &call, &options);
            wanted.tool_use = use_of(self.program, tool.as_deref(), &call, &options, &self.setup.directory);
            return out.tell(Event::PermissionWanted(wanted));
        };
        match self.narrator.plan(file) {
            Some(plan) => out.tell(Event::PlanReady { key, plan: plan.to_owned() }),
            None => {
                let why = format!("Write the whole plan to {} again, and then ask again.", file.display());
                self.decide(&key, Decision::Deny(why), out);
            }
        }
    }
}

impl Protocol for Acp {
    fn launch(&self) -> Additions {
        self.program.additions(&self.command, &self.setup.arguments)
    }

    fn start(&mut self, out: &mut Outbox) {
        self.program.warnings(&self.setup).into_iter().for_each(|warning| out.tell(Event::Warning(warning)));
        // The protocol wants the whole path.
        self.setup.directory = path::absolute(&self.setup.directory).unwrap_or_default();
        // We offer no files and no terminals: the program has its own.
        let session = ClientSessionCapabilities::new().compaction(CompactionCapabilities::new());
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new().session(session))
            .client_info(Implementation::new("teamwire", env!("CARGO_PKG_VERSION")));
        self.ask(Asked::Initialize, "initialize", request, out);
    }

    fn read(&mut self, mut line: Value, out: &mut Outbox) {
        let (id, params) = (line["id"].take(), line["params"].take());
        match line["method"].as_str() {
            Some(method) if !id.is_null() => self.asked_by_program(id, method, params, out),
            Some("session/update") => match serde_json::from_value::<SessionNotification>(params) {
                Ok(notification) if self.is_own(&notification.session_id) => self.update(notification.update, out),
                Ok(_) => {}
                // A later version of the protocol may have more kinds of updates.
                Err(error) => tracing::debug!(%error, "unknown update"),
            },
            Some("$/cancel_request") => {
                let key = params["requestId"].to_string();
                if let Some(answer) = self.permissions.cancel(&key) {
                    write_answer(answer, out);
                    out.tell(Event::WishWithdrawn { key });
                }
            }
            Some(_) => {}
            None => {
                let Some(asked) = id.as_i64().and_then(|id| self.asked.remove(&id)) else { return };
                let answer = match line["error"].take() {
                    Value::Null => Ok(line["result"].take()),
                    error => Err(serde_json::from_value(error).unwrap_or_else(|_| Error::internal_error())),
                };
                self.answered(asked, answer, out);
            }
        }
    }

    fn unreadable(&mut self, gist: &Value, out: &mut Outbox) {
        unreadable_rpc(gist, self, out);
    }

    fn accepts_prompt(&self) -> bool {
        self.is_ready && self.turn.is_none()
    }

    fn prompt(&mut self, prompt: Prompt, out: &mut Outbox) {
        out.tell(Event::Taken(prompt.id));
        self.turn = Some(Turn { prompt: prompt.id, refusals: Vec::new(), follow_ups: 0 });
        self.ask_prompt(prompt.text, out);
    }

    fn prepare_session(&self, session_id: &str, environment: &[(OsString, OsString)]) {
        let variable = |name: &str| {
            let given = environment.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone());
            given.or_else(|| env::var_os(name)).filter(|value| !value.is_empty())
        };
        let home = variable("GEMINI_CLI_HOME").or_else(|| variable("HOME"));
        if let (Program::Gemini, Some(home)) = (self.program, home) {
            gemini::keep_one(home.as_ref(), session_id);
        }
    }

    fn attach(&self, session_id: &str) -> Option<Additions> {
        self.program.at_terminal(session_id)
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        if let (Some(session), Some(turn)) = (&self.session, &mut self.turn) {
            turn.refusals.clear();
            out.write(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
            self.cancel_permissions(out);
        }
    }

    fn close(&mut self, out: &mut Outbox) {
        self.is_closing = true;
        self.cancel_permissions(out);
    }

    fn is_in_turn(&self) -> bool {
        self.turn.is_some()
    }

    fn ignores_end_of_input(&self) -> bool {
        self.program.ignores_end_of_input()
    }

    fn decide(&mut self, key: &str, decision: Decision, out: &mut Outbox) {
        let Some(answer) = self.permissions.decide(key, &decision) else { return };
        match (decision, &mut self.turn) {
            (Decision::Deny(why), Some(turn)) => turn.refusals.push(refusal(answer.what(), &why)),
            (Decision::Allow, _) if answer.response["outcome"]["outcome"] == json!("cancelled") => {
                let what = answer.what();
                out.tell(Event::Warning(format!("The program offers no answer that permits this: {what}")));
            }
            (Decision::Allow, _) => self.narrator.permitted(&answer.call, out),
            _ => {}
        }
        write_answer(answer, out);
    }
}

impl Acp {
    /// Returns whether an update is about the member's session, and not about one that the program has started beside
    /// it.
    fn is_own(&self, session: &SessionId) -> bool {
        self.session.as_ref().is_none_or(|own| own == session)
    }
}

fn write_answer(answer: OptionChoice, out: &mut Outbox) {
    out.write(json!({ "jsonrpc": "2.0", "id": answer.id, "result": answer.response }));
}

/// Returns the text that tells the agent why it may not do something. `why` is escaped where others have written it.
fn refusal(what: &str, why: &str) -> String {
    let what = escaped(what);
    format!(
        "<teammate-message teammate_id=\"coordinator\" summary=\"Refused\">You may not do this: {what}\n{why}</teammate-message>"
    )
}

fn text_of(error: &Error) -> String {
    match error.data.as_ref().and_then(|data| data["details"].as_str()) {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    }
}

/// Ends a text with a full stop.
fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}
