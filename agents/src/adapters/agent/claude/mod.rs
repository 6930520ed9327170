//! Claude Code: `claude -p` with streams of JSON on its input and output.
//!
//! Each prompt is a frame with a UUID. The program reports its progress in `command_lifecycle` lines: `completed` when
//! the turn that took it has ended, `cancelled` when that turn failed. The program remembers UUIDs, even across
//! `--resume`, and answers `completed` at once to one that it has seen. So a prompt that is handed over again gets a
//! new one.
//!
//! Older versions, such as 2.1.197, report no progress, and do not repeat every prompt either. They get one prompt at a
//! time, which ends with the turn.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, mem, path::Path};

use serde_json::{Value, json};
use teamwire_proto::v1::ToolUse;
use uuid::Uuid;

use super::{
    describe::{self, telling_part},
    protocol::{
        Change, Decision, Event, Outbox, PermissionRequest, Prompt, PromptId, Protocol, Setup, TurnEnd, Usage, list,
        text, texts,
    },
    tool_use,
};
use crate::{incarnation::Additions, programs};

/// The name of our MCP server, as the program prefixes it to the names of tools.
const OUR_TOOLS: &str = "mcp__teamwire";

/// The program's own tools for messages, which would reach its other sessions and bypass the team, and the tool that
/// asks a person at the terminal, where there is no one.
const FOREIGN_TOOLS: &str = "SendMessage,ListAgents,AskUserQuestion";

/// The tool with which the program leaves its plan mode.
const EXIT_PLAN_MODE: &str = "ExitPlanMode";

/// The tools that change a file.
const FILE_TOOLS: [&str; 4] = ["Edit", "MultiEdit", "Write", "NotebookEdit"];

/// The state of one process of Claude Code.
pub(super) struct Claude {
    setup: Setup,
    /// From a frame's UUID to its prompt.
    frames: HashMap<String, PromptId>,
    reports_lifecycle: bool,
    session_id: String,
    /// What the program asked permission for, by the id of its request: the input that it would use.
    permission_requests: HashMap<String, Value>,
    turns: u64,
    /// What the program counted before this process, which it includes in its own count. `None` if it has not reported
    /// any yet.
    counted_before: Option<Usage>,
    /// What was reported at the end of the last turn.
    reported: Usage,
    /// What each reply of the model in this turn has used, by the reply's id. Its parts come one by one, with what was
    /// known when it began.
    replies: HashMap<String, Usage>,
    /// The reply that is coming, for the agent and for each subagent, by the tool call that has started it.
    coming: HashMap<String, String>,
    /// Why the last turn failed. Empty if it did not.
    last_error: String,
    /// What the model wrote since its last tool call.
    last_text: String,
}

impl Claude {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            frames: HashMap::new(),
            reports_lifecycle: false,
            session_id: String::new(),
            permission_requests: HashMap::new(),
            turns: 0,
            counted_before: None,
            reported: Usage::default(),
            replies: HashMap::new(),
            coming: HashMap::new(),
            last_error: String::new(),
            last_text: String::new(),
        }
    }

    fn has_argument(&self, name: &str) -> bool {
        self.setup
            .arguments
            .iter()
            .any(|argument| argument.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    }

    /// Returns the options with which the program has the member's tools.
    fn tools(&self) -> Vec<String> {
        let Some(mcp) = &self.setup.mcp else { return Vec::new() };
        // Without `env`: the server inherits the program's environment, and every user can read arguments.
        let server = json!({
            "type": "stdio",
            "command": mcp.program,
            "args": mcp.arguments,
            "alwaysLoad": true,
        });
        let config = json!({ "mcpServers": { "teamwire": server } });
        ["--mcp-config", &config.to_string(), "--allowedTools", OUR_TOOLS].map(str::to_owned).to_vec()
    }

    fn lifecycle(&mut self, line: &Value, out: &mut Outbox) {
        self.reports_lifecycle = true;
        let (uuid, state) = (text(line, "command_uuid"), text(line, "state"));
        match state {
            "completed" => {
                if let Some(id) = self.frames.remove(uuid) {
                    out.tell(Event::Processed(id));
                }
            }
            "cancelled" | "failed" => {
                if let Some(id) = self.frames.remove(uuid) {
                    out.tell(Event::Failed(id, self.last_error.clone()));
                }
            }
            _ => {}
        }
    }

    fn system(&mut self, line: &Value, out: &mut Outbox) {
        match text(line, "subtype") {
            "init" => {
                let session_id = text(line, "session_id");
                if self.session_id != session_id {
                    session_id.clone_into(&mut self.session_id);
                    out.tell(Event::Ready { session_id: Some(session_id.to_owned()) });
                    out.changes.extend(line["model"].as_str().map(|model| Change::Model(model.to_owned())));
                    if let Some(version) = line["claude_code_version"].as_str() {
                        out.note(Change::Version(programs::version("claude", "Claude Code", version)));
                    }
                    self.check_tools(line, out);
                }
            }
            "compact_boundary" => out.tell(Event::Compacted),
            "api_retry" => {
                let error = text(line, "error");
                let trouble = format!("The model does not answer ({error}); trying again.");
                out.tell(Event::Activity(trouble.clone()));
                out.note(Change::Trouble(trouble));
            }
            _ => {}
        }
    }

    /// Warns if the program could not start our MCP server.
    fn check_tools(&self, line: &Value, out: &mut Outbox) {
        let servers = list(&line["mcp_servers"]);
        let ours = servers.iter().find(|server| text(server, "name") == "teamwire");
        if self.setup.mcp.is_some() && ours.is_none_or(|server| text(server, "status") == "failed") {
            out.tell(Event::Warning(
                "Claude Code could not start `teamwire mcp`, so the agent has no tools of the team.".to_owned(),
            ));
        }
    }

    fn user(&mut self, line: &Value, out: &mut Outbox) {
        if line["parent_tool_use_id"].is_null() {
            for block in list(&line["message"]["content"]).iter().filter(|block| text(block, "type") == "tool_result") {
                let key = text(block, "tool_use_id");
                out.end_call(key);
                out.returned(key, texts(&block["content"]), block["is_error"] == json!(true));
            }
        }
        if line["isReplay"] != json!(true) {
            return;
        }
        let uuid = text(line, "uuid");
        if let Some(id) = self.frames.get(uuid) {
            out.tell(Event::Taken(*id));
        }
    }

    fn assistant(&mut self, line: &Value, out: &mut Outbox) {
        let message = &line["message"];
        self.count_reply(text(message, "id").to_owned(), &message["usage"], out);
        // The lines of subagents are not the member's own.
        if !line["parent_tool_use_id"].is_null() {
            return;
        }
        out.note(Change::Trouble(String::new()));
        for block in list(&line["message"]["content"]) {
            match text(block, "type") {
                "text" => {
                    text(block, "text").clone_into(&mut self.last_text);
                    out.wrote(text(block, "text"));
                    out.tell(Event::Activity(text(block, "text").to_owned()));
                }
                "tool_use" => {
                    self.last_text.clear();
                    let (key, tool) = (text(block, "id"), own_name(text(block, "name")));
                    out.begin_call(key, describe::tool_call(tool, &block["input"]));
                    out.called(key, tool, detail_of(tool, &block["input"]));
                    if FILE_TOOLS.contains(&text(block, "name")) {
                        let path = ["file_path", "notebook_path"].map(|field| text(&block["input"], field)).concat();
                        out.note(Change::FileChanged(path));
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles a part of a reply as the model's provider sends it. Only these say how much the model has written, before
    /// the turn ends.
    fn stream_event(&mut self, line: &Value, out: &mut Outbox) {
        let (by, event) = (text(line, "parent_tool_use_id"), &line["event"]);
        match text(event, "type") {
            "message_start" => {
                let message = &event["message"];
                self.coming.insert(by.to_owned(), text(message, "id").to_owned());
                self.count_reply(text(message, "id").to_owned(), &message["usage"], out);
            }
            "message_delta" => {
                let id = self.coming.get(by).cloned().unwrap_or_default();
                self.count_reply(id, &event["usage"], out);
            }
            _ => {}
        }
    }

    /// Reports what the turn has used so far. The cost follows when the turn ends.
    fn count_reply(&mut self, id: String, usage: &Value, out: &mut Outbox) {
        let count = |field: &str| usage[field].as_u64().unwrap_or_default();
        let cached_tokens = count("cache_read_input_tokens");
        let used = Usage {
            input_tokens: count("input_tokens") + cached_tokens + count("cache_creation_input_tokens"),
            cached_tokens,
            output_tokens: count("output_tokens"),
            ..Usage::default()
        };
        let known = self.replies.entry(id).or_default();
        let used = Usage {
            input_tokens: used.input_tokens.max(known.input_tokens),
            cached_tokens: used.cached_tokens.max(known.cached_tokens),
            output_tokens: used.output_tokens.max(known.output_tokens),
            ..used
        };
        if mem::replace(known, used) == used {
            return;
        }
        out.tell(Event::Usage(self.reported.plus(self.used_in_turn())));
    }

    fn used_in_turn(&self) -> Usage {
        self.replies.values().fold(Usage::default(), |sum, used| sum.plus(*used))
    }

    /// Returns what the program counted before this process, as its first count shows. It counts for its whole session,
    /// but forgets what a process counted that was killed, or the last part of it.
    fn counted_before(&self, in_session: Usage) -> Usage {
        let (used_before, in_turn) = (self.setup.used_before, self.used_in_turn());
        if in_turn == Usage::default() {
            return if in_session.is_below(used_before) { Usage::default() } else { used_before };
        }
        let remembered = in_session.minus(in_turn);
        // The cost of a turn is known only at its end, so what was lost of it is not in the earlier cost.
        let has_cost = remembered.input_tokens > 0
            && in_session.cost_usd.zip(used_before.cost_usd).is_some_and(|(cost, before)| cost >= before);
        Usage {
            turns: 0,
            input_tokens: remembered.input_tokens.min(used_before.input_tokens),
            cached_tokens: remembered.cached_tokens.min(used_before.cached_tokens),
            output_tokens: remembered.output_tokens.min(used_before.output_tokens),
            cost_usd: used_before.cost_usd.filter(|_| has_cost),
        }
    }

    fn result(&mut self, line: &Value, out: &mut Outbox) {
        let usage = &line["modelUsage"];
        let sum =
            |field: &str| usage.as_object().into_iter().flatten().filter_map(|(_, each)| each[field].as_u64()).sum();
        let in_session = Usage {
            turns: 0,
            input_tokens: sum("inputTokens") + sum("cacheReadInputTokens") + sum("cacheCreationInputTokens"),
            cached_tokens: sum("cacheReadInputTokens"),
            output_tokens: sum("outputTokens"),
            cost_usd: line["total_cost_usd"].as_f64(),
        };
        self.turns += 1;
        let counted_before = self.counted_before.unwrap_or_else(|| self.counted_before(in_session));
        self.counted_before = Some(counted_before);
        self.reported = Usage { turns: self.turns, ..in_session.minus(counted_before) };
        self.replies.clear();
        self.coming.clear();
        out.tell(Event::Usage(self.reported));
        let is_error = line["is_error"] == json!(true);
        let said = text(line, "result");
        if !is_error && !said.is_empty() {
            said.clone_into(&mut self.last_text);
        }
        self.end_turn(is_error.then(|| said.to_owned()), out);
    }

    /// Ends a turn. `error`: why it failed. Without a lifecycle, the prompt ends with it.
    fn end_turn(&mut self, error: Option<String>, out: &mut Outbox) {
        self.last_error = error.clone().unwrap_or_default();
        out.tell(Event::TurnEnded(TurnEnd {
            final_text: mem::take(&mut self.last_text),
            cut_short: self.last_error.clone(),
        }));
        if self.reports_lifecycle {
            return;
        }
        for (_, id) in mem::take(&mut self.frames) {
            out.tell(Event::Taken(id));
            out.tell(error.clone().map_or(Event::Processed(id), |error| Event::Failed(id, error)));
        }
    }

    fn control_request(&mut self, line: &Value, out: &mut Outbox) {
        let (key, request) = (text(line, "request_id").to_owned(), &line["request"]);
        if text(request, "subtype") != "can_use_tool" {
            let error = format!("teamwire does not answer {}", text(request, "subtype"));
            out.write(json!({
                "type": "control_response",
                "response": { "subtype": "error", "request_id": key, "error": error },
            }));
            return;
        }
        let (tool, input) = (text(request, "tool_name"), &request["input"]);
        self.permission_requests.insert(key.clone(), input.clone());
        if tool != EXIT_PLAN_MODE {
            out.tell(Event::PermissionWanted(PermissionRequest {
                key,
                tool: tool.to_owned(),
                summary: match text(input, "description") {
                    "" => telling_part(input).to_owned(),
                    description => description.to_owned(),
                },
                detail: detail_of(tool, input),
                tool_use: use_of(tool, input, &self.setup.directory),
            }));
            return;
        }
        match text(input, "plan") {
            "" => self.decide(&key, Decision::Deny("Write your plan into the plan file first.".to_owned()), out),
            plan => out.tell(Event::PlanReady { key, plan: plan.to_owned() }),
        }
    }
}

impl Protocol for Claude {
    fn launch(&self) -> Additions {
        let mut before: Vec<String> = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--include-partial-messages",
            "--replay-user-messages",
            "--permission-prompt-tool",
            "stdio",
        ]
        .map(str::to_owned)
        .to_vec();
        before.extend(["--disallowedTools".to_owned(), FOREIGN_TOOLS.to_owned()]);
        before.extend(self.tools());
        // A compaction drops the welcome, and the model is asked again before a prompt could repeat it.
        let taken = ["--append-system-prompt", "--append-system-prompt-file"];
        if !self.setup.identity.is_empty() && !taken.iter().any(|option| self.has_argument(option)) {
            before.extend(["--append-system-prompt".to_owned(), self.setup.identity.clone()]);
        }
        if let Some(session_id) = &self.setup.resume {
            before.extend(["--resume".to_owned(), session_id.clone()]);
        }
        if self.setup.plan_first && !self.has_argument("--permission-mode") {
            before.extend(["--permission-mode".to_owned(), "plan".to_owned()]);
        }
        // Behind options that take several values, so that the user's first argument is not one of them.
        before.push("--verbose".to_owned());
        Additions { before: before.into_iter().map(Into::into).collect(), ..Additions::default() }
    }

    fn start(&mut self, out: &mut Outbox) {
        // The program writes nothing before its first frame, so its session id comes later.
        out.tell(Event::Ready { session_id: None });
    }

    fn read(&mut self, line: Value, out: &mut Outbox) {
        match text(&line, "type") {
            "command_lifecycle" => self.lifecycle(&line, out),
            "system" => self.system(&line, out),
            "user" => self.user(&line, out),
            "assistant" => self.assistant(&line, out),
            "stream_event" => self.stream_event(&line, out),
            "result" => self.result(&line, out),
            "control_request" => self.control_request(&line, out),
            "control_cancel_request" => {
                let key = text(&line, "request_id").to_owned();
                self.permission_requests.remove(&key);
                out.tell(Event::WishWithdrawn { key });
            }
            _ => {}
        }
    }

    fn unreadable(&mut self, gist: &Value, out: &mut Outbox) {
        match text(gist, "type") {
            "control_request" => {
                let key = text(gist, "request_id");
                self.permission_requests.insert(key.to_owned(), Value::Null);
                let why = "The request could not be read: it is longer than 1 MiB, or damaged. Ask for less at a time.";
                self.decide(key, Decision::Deny(why.to_owned()), out);
            }
            "result" => {
                let has_failed = text(gist, "subtype").starts_with("error");
                self.end_turn(has_failed.then(|| "the program's report could not be read".to_owned()), out);
            }
            _ => {}
        }
    }

    fn accepts_prompt(&self) -> bool {
        self.reports_lifecycle || self.frames.is_empty()
    }

    fn prompt(&mut self, prompt: Prompt, out: &mut Outbox) {
        let uuid = Uuid::new_v4().to_string();
        out.write(json!({
            "type": "user",
            "message": { "role": "user", "content": prompt.text },
            "parent_tool_use_id": null,
            "uuid": uuid,
        }));
        self.frames.insert(uuid, prompt.id);
    }

    fn attach(&self, session_id: &str) -> Option<Additions> {
        let mut before = vec!["--disallowedTools".to_owned(), FOREIGN_TOOLS.to_owned()];
        before.extend(self.tools());
        // Behind options that take several values, so that the user's first argument is not one of them.
        before.extend(["--resume".to_owned(), session_id.to_owned()]);
        Some(Additions { before: before.into_iter().map(Into::into).collect(), ..Additions::default() })
    }

    fn interrupt(&mut self, out: &mut Outbox) {
        out.write(json!({
            "type": "control_request",
            "request_id": Uuid::new_v4().to_string(),
            "request": { "subtype": "interrupt" },
        }));
    }

    fn decide(&mut self, key: &str, decision: Decision, out: &mut Outbox) {
        let Some(input) = self.permission_requests.remove(key) else { return };
        let response = match decision {
            Decision::Allow => json!({ "behavior": "allow", "updatedInput": input }),
            Decision::Deny(why) => json!({ "behavior": "deny", "message": why }),
        };
        out.write(json!({
            "type": "control_response",
            "response": { "subtype": "success", "request_id": key, "response": response },
        }));
    }
}

/// Returns a tool's name, without what marks it as ours.
fn own_name(tool: &str) -> &str {
    tool.strip_prefix(OUR_TOOLS).map_or(tool, |tool| tool.trim_start_matches('_'))
}

/// Returns what a tool would do. `None` if that is not sure.
fn use_of(tool: &str, input: &Value, directory: &Path) -> Option<ToolUse> {
    match tool {
        "Bash" if is_plain_command(input) => tool_use::command(text(input, "command"), directory),
        "Bash" => None,
        "Edit" | "MultiEdit" | "Read" | "Write" => file_use(input, "file_path", directory),
        "NotebookEdit" => file_use(input, "notebook_path", directory),
        "WebFetch" | "WebSearch" => tool_use::other(directory),
        _ if tool.starts_with("mcp__") => tool_use::other(directory),
        _ => None,
    }
}

fn file_use(input: &Value, field: &str, directory: &Path) -> Option<ToolUse> {
    input[field].as_str().filter(|path| !path.is_empty()).and_then(|path| tool_use::files([path], directory))
}

/// Returns whether the input of a shell call is a command, and nothing that changes how it runs.
fn is_plain_command(input: &Value) -> bool {
    let is_known = |key: &String| matches!(key.as_str(), "command" | "description" | "timeout");
    input.as_object().is_some_and(|input| input.keys().all(is_known))
}

/// Returns a tool's input in full: the command of a plain shell call unchanged, and everything else as JSON.
fn detail_of(tool: &str, input: &Value) -> String {
    match input["command"].as_str() {
        Some(command) if tool == "Bash" && is_plain_command(input) => command.to_owned(),
        _ => serde_json::to_string_pretty(input).unwrap_or_default(),
    }
}
