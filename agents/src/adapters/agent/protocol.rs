//! What every protocol of an agent program has in common.
//!
//! A [`Protocol`] is a state machine without I/O: it reads the lines of JSON that the program writes, and puts the
//! lines for the program and the events for the loop into an [`Outbox`]. The loop in `agent` owns the pipes, the inbox,
//! acknowledgements and retries; a protocol knows only its program.

use std::{collections::VecDeque, ffi::OsString, path::PathBuf};

use serde_json::Value;
use teamwire_proto::v1::{self, TranscriptKind};

use crate::{
    incarnation::Additions,
    line_protocol::{json, output_parser::micros},
    transcript::Entry,
};

/// A prompt's number, unique within one process of the program.
pub(super) type PromptId = u64;

/// The state machine of one program's protocol, for one process of the program.
///
/// After [`Event::Ready`], the loop calls [`Protocol::prompt`] as long as [`Protocol::accepts_prompt`] says so. Each
/// prompt ends in exactly one [`Event::Processed`] or [`Event::Failed`].
pub(super) trait Protocol: Send {
    /// Returns what to add to the command line and to the environment.
    fn launch(&self) -> Additions;

    /// Begins the conversation once the program runs.
    fn start(&mut self, out: &mut Outbox);

    /// Handles a line that the program has written.
    fn read(&mut self, line: Value, out: &mut Outbox);

    /// Handles a line that cannot be read. `gist`: its known fields. If the line wants an answer, answers that it was
    /// not carried out; if it is an answer, counts it as a failure.
    fn unreadable(&mut self, gist: &Value, out: &mut Outbox);

    /// Returns whether the program takes a prompt now, which may be in the middle of a turn.
    fn accepts_prompt(&self) -> bool;

    /// Hands the program a prompt.
    fn prompt(&mut self, prompt: Prompt, out: &mut Outbox);

    /// Answers [`Event::PermissionWanted`] or [`Event::PlanReady`].
    fn decide(&mut self, key: &str, decision: Decision, out: &mut Outbox);

    /// Answers [`Event::ToolCalled`].
    fn tool_result(&mut self, _key: &str, _result: ToolResult, _out: &mut Outbox) {}

    /// Returns whether the program's input must stay open for now, because closing it would make the program abandon
    /// the current turn.
    fn is_in_turn(&self) -> bool {
        false
    }

    /// Prepares the files of a session that the program is about to resume. `environment`: the variables that it gets in
    /// addition to the runner's.
    fn prepare_session(&self, _session_id: &str, _environment: &[(OsString, OsString)]) {}

    /// Returns what continues a session at a terminal: the arguments, and additional variables. `None` if that is not
    /// known.
    fn attach(&self, session_id: &str) -> Option<Additions>;

    /// Asks the program to end its turn. The prompts in it then fail.
    fn interrupt(&mut self, out: &mut Outbox);

    /// Asks the program to end, before its input is closed.
    fn close(&mut self, _out: &mut Outbox) {}

    /// Returns whether the program keeps running when its input is closed, so that only a signal ends it.
    fn ignores_end_of_input(&self) -> bool {
        false
    }
}

/// What a protocol is created with.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    /// The program's file. `None` means unknown.
    pub(super) program: Option<PathBuf>,
    /// The program's arguments, as the user gave them, without the program.
    pub(super) arguments: Vec<String>,
    /// The program's working directory.
    pub(super) directory: PathBuf,
    /// The program's own session to resume. If `None`, it starts a new one.
    pub(super) resume: Option<String>,
    /// What that session had used before. A program may count it again.
    pub(super) used_before: Usage,
    /// The command of the MCP server with the member's tools, and the variables that it needs.
    pub(super) mcp: Option<McpCommand>,
    /// The member's tools, for a program that takes them without an MCP server.
    pub(super) tools: Vec<Tool>,
    /// `true` if the program begins in its plan mode, if it has one.
    pub(super) plan_first: bool,
    /// Who the agent is, for programs whose system prompt can say so.
    pub(super) identity: String,
    /// `true` if the runner permits whatever the program asks.
    pub(super) permits_all: bool,
}

/// The command of an MCP server over standard input and output.
#[derive(Clone, Debug)]
pub(super) struct McpCommand {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// Environment variables, for programs that do not pass on theirs.
    pub(super) environment: Vec<(String, String)>,
}

/// A tool of the member.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    /// The JSON Schema of its input.
    pub(super) input_schema: Value,
}

/// A prompt: messages and tasks as the agent reads them.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) id: PromptId,
    pub(super) text: String,
}

/// What a program may do, or why it may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It may.
    Allow,
    /// It may not, for this reason, which the agent reads. Text from others is escaped in it.
    Deny(String),
}

/// What a tool has returned.
#[derive(Clone, Debug)]
pub(super) struct ToolResult {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// What a program does, as its protocol tells the loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// The program takes prompts. Emitted again when the session id changes.
    Ready {
        /// The value of [`Setup::resume`] that resumes this session.
        session_id: Option<String>,
    },
    /// A prompt has reached the model's context. Emitted at most once for each prompt; for some programs, never.
    Taken(PromptId),
    /// The turn that took the prompt has succeeded: its messages are processed.
    Processed(PromptId),
    /// The prompt was not processed: the turn failed, or the program dropped it. It must be handed over again.
    Failed(PromptId, String),
    /// A turn has ended. What it took is reported as processed or failed after this.
    TurnEnded(TurnEnd),
    /// One line about what the program does: a tool call, or the first line of a text.
    Activity(String),
    /// What the program has used since its process started.
    Usage(Usage),
    /// The program asks for permission.
    PermissionWanted(PermissionRequest),
    /// The program asks whether it may leave its plan mode.
    PlanReady {
        /// For [`Protocol::decide`].
        key: String,
        /// The plan.
        plan: String,
    },
    /// The program no longer waits for a decision.
    WishWithdrawn {
        /// The key of the request or the plan.
        key: String,
    },
    /// The program calls one of [`Setup::tools`].
    ToolCalled {
        /// For [`Protocol::tool_result`].
        key: String,
        /// The tool's name.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// The program has compacted its context, which no longer contains the welcome.
    Compacted,
    /// The program could not resume its session, and has a new one.
    StartedOver,
    /// Something that the person who runs the program should know.
    Warning(String),
    /// The protocol cannot continue. The runner ends the program and does not restart it, because it would fail in the
    /// same way.
    Broken(String),
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnEnd {
    /// What the model wrote after its last tool call. Empty if nothing.
    pub(super) final_text: String,
    /// Why it ended early. Empty if it did not.
    pub(super) cut_short: String,
}

#[cfg(test)]
impl Event {
    /// Returns the event of a turn that has ended with a text.
    pub(super) fn ended(final_text: &str) -> Self {
        Self::TurnEnded(TurnEnd { final_text: final_text.to_owned(), ..TurnEnd::default() })
    }
}

/// What a program asks permission for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PermissionRequest {
    /// For [`Protocol::decide`].
    pub(super) key: String,
    /// The program's name for what it wants to use, such as `Bash`.
    pub(super) tool: String,
    /// One line about it.
    pub(super) summary: String,
    /// The command or the edit, in full.
    pub(super) detail: String,
    /// The same for permission rules. `None` if no rule may permit it.
    pub(super) tool_use: Option<v1::ToolUse>,
}

/// By how much a cost may change when it is stored, in US dollars.
const COST_ROUNDING: f64 = 2e-6;

/// What a program has used since its process started, as far as it reports that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) turns: u64,
    pub(super) input_tokens: u64,
    /// The part of the input tokens that came from the provider's cache.
    pub(super) cached_tokens: u64,
    pub(super) output_tokens: u64,
    /// In US dollars. `None` if the program does not say.
    pub(super) cost_usd: Option<f64>,
}

impl From<Usage> for v1::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { turns, input_tokens, cached_tokens: cached_input_tokens, output_tokens, cost_usd } = usage;
        let cost_usd_micros = micros(cost_usd.unwrap_or_default());
        Self { turns, input_tokens, cached_input_tokens, output_tokens, cost_usd_micros }
    }
}

impl From<v1::Usage> for Usage {
    fn from(usage: v1::Usage) -> Self {
        let v1::Usage { turns, input_tokens, cached_input_tokens: cached_tokens, output_tokens, cost_usd_micros } =
            usage;
        #[allow(clippy::cast_precision_loss)]
        let cost_usd = Some(cost_usd_micros as f64 / 1e6);
        Self { turns, input_tokens, cached_tokens, output_tokens, cost_usd }
    }
}

impl Usage {
    /// Returns the sum of this usage and another.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_usd: self
                .cost_usd
                .zip(other.cost_usd)
                .map(|(one, two)| one + two)
                .or(self.cost_usd)
                .or(other.cost_usd),
        }
    }

    /// Returns whether a counter is below that of an earlier usage. Then this one does not include it.
    pub(super) fn is_below(self, earlier: Self) -> bool {
        self.input_tokens < earlier.input_tokens
            || self.output_tokens < earlier.output_tokens
            || self.cost_usd.zip(earlier.cost_usd).is_some_and(|(cost, before)| cost + COST_ROUNDING < before)
    }

    /// Returns this usage minus an earlier one.
    pub(super) fn minus(self, earlier: Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(earlier.turns),
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cost_usd: self.cost_usd.map(|cost| (cost - earlier.cost_usd.unwrap_or_default()).max(0.0)),
        }
    }
}

/// What has changed in what the program is and does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Its name and version are known.
    Version(String),
    /// The model that it uses is known.
    Model(String),
    /// A tool call has begun. The line describes it.
    CallBegan { key: String, line: String },
    /// A tool call has ended.
    CallEnded { key: String },
    /// A tool has changed a file, or is about to.
    FileChanged(String),
    /// Something keeps it from its work. Empty if nothing does any longer.
    Trouble(String),
}

/// The output of a protocol, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Lines for the program.
    pub(super) lines: Vec<Value>,
    /// Events for the loop.
    pub(super) events: VecDeque<Event>,
    /// What the loop reports of the program.
    pub(super) changes: Vec<Change>,
    /// What the program has said and done, for the transcript.
    pub(super) entries: Vec<Entry>,
}

impl Outbox {
    /// Adds a line for the program.
    pub(super) fn write(&mut self, line: Value) {
        self.lines.push(line);
    }

    /// Adds an event for the loop.
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Adds a change.
    pub(super) fn note(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds what the model wrote.
    pub(super) fn wrote(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.entries.push(Entry { kind: TranscriptKind::Text, text: text.to_owned(), ..Entry::default() });
        }
    }

    /// Adds a tool call with its input.
    pub(super) fn called(&mut self, key: &str, tool: &str, input: String) {
        let (call_id, tool) = (key.to_owned(), tool.to_owned());
        self.entries.push(Entry { kind: TranscriptKind::ToolCall, call_id, tool, text: input, ..Entry::default() });
    }

    /// Adds the result of a tool call.
    pub(super) fn returned(&mut self, key: &str, result: String, failed: bool) {
        let (kind, call_id) = (TranscriptKind::ToolResult, key.to_owned());
        self.entries.push(Entry { kind, call_id, text: result, failed, ..Entry::default() });
    }

    /// Adds the event and the change of a tool call that begins.
    pub(super) fn begin_call(&mut self, key: &str, line: String) {
        self.tell(Event::Activity(line.clone()));
        self.note(Change::CallBegan { key: key.to_owned(), line });
    }

    /// Adds the change of a tool call that has ended.
    pub(super) fn end_call(&mut self, key: &str) {
        self.note(Change::CallEnded { key: key.to_owned() });
    }
}

/// Handles an unreadable line of JSON-RPC: refuses a request, and fails the request that it answers.
pub(super) fn unreadable_rpc(gist: &Value, protocol: &mut dyn Protocol, out: &mut Outbox) {
    let answer = |id| json::parse_error(id, "The line could not be read.");
    match (&gist["id"], &gist["method"]) {
        (Value::Null, _) => {}
        (id, Value::Null) => protocol.read(answer(id), out),
        (id, _) => out.write(answer(id)),
    }
}

/// Returns a text field of a line. Empty if it has none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns the elements of an array. Anything else has none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the text of a content, which is a text or a list of blocks. Of a block without text, its type.
pub(super) fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| {
                block["text"].as_str().map_or_else(|| format!("[{}]", text(block, "type")), str::to_owned)
            };
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
