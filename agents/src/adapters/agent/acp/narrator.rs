//! Describes in single lines what the program does, and remembers details that a permission request does not repeat.

use std::{
    collections::HashMap,
    mem,
    path::{Path, PathBuf},
};

use agent_client_protocol_schema::v1::{ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind};

use super::{
    super::{
        describe::tool_call,
        protocol::{Change, Event, Outbox},
    },
    program::Program,
};

/// How much of a message without a line break is read before the narrator reports its beginning, in bytes.
const LINE_BYTES_MAX: usize = 500;

/// How much of what the model wrote at the end of a turn is kept, in bytes.
const FINAL_TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A tool call.
#[derive(Debug, Default)]
struct Call {
    first_title: String,
    title: String,
    /// The command that it runs, if the program says so.
    command: Option<String>,
    kind: ToolKind,
    is_reported: bool,
}

/// What the program has reported in this turn.
#[derive(Debug)]
pub(super) struct Narrator {
    program: Program,
    /// The beginning of the message that the model is writing.
    text: String,
    is_text_reported: bool,
    /// That message, up to [`FINAL_TEXT_BYTES_MAX`] bytes.
    message: String,
    /// What the model wrote since its last tool call, up to [`FINAL_TEXT_BYTES_MAX`] bytes.
    final_text: String,
    calls: HashMap<String, Call>,
    /// The text of each plan that was written, by its file. They outlive the turn.
    plans: HashMap<PathBuf, String>,
}

impl Narrator {
    pub(super) fn new(program: Program) -> Self {
        Self {
            program,
            text: String::new(),
            is_text_reported: false,
            message: String::new(),
            final_text: String::new(),
            calls: HashMap::new(),
            plans: HashMap::new(),
        }
    }

    /// Handles a part of a message of the model.
    pub(super) fn message(&mut self, part: &ContentBlock, out: &mut Outbox) {
        let ContentBlock::Text(part) = part else { return };
        if self.program.is_notice(&part.text) {
            return;
        }
        if self.final_text.len() + part.text.len() <= FINAL_TEXT_BYTES_MAX {
            self.final_text.push_str(&part.text);
        }
        if self.message.len() + part.text.len() <= FINAL_TEXT_BYTES_MAX {
            self.message.push_str(&part.text);
        }
        if self.is_text_reported {
            return;
        }
        self.text.push_str(&part.text);
        if self.text.trim_start().contains('\n') || self.text.len() > LINE_BYTES_MAX {
            self.tell_text(out);
            self.is_text_reported = true;
        }
    }

    /// Handles a tool call, or its progress.
    pub(super) fn call(&mut self, update: &ToolCallUpdate, out: &mut Outbox) {
        self.end_message(out);
        self.final_text.clear();
        self.note_plans(update);
        let call = self.calls.entry(update.tool_call_id.0.to_string()).or_default();
        if let Some(title) = &update.fields.title {
            if call.first_title.is_empty() {
                call.first_title.clone_from(title);
            }
            call.title.clone_from(title);
        }
        call.kind = update.fields.kind.unwrap_or(call.kind);
        call.command = command_of(update).or(call.command.take());
        // While a call is pending, some programs do not know its input yet.
        let has_begun = update.fields.status.is_some_and(|status| status != ToolCallStatus::Pending);
        if has_begun && !mem::replace(&mut call.is_reported, true) {
            let tool = self.program.tool_name(update, Some(&call.first_title));
            let line = match tool.and_then(|tool| self.program.our_tool(tool)) {
                Some(tool) => line_of_ours(tool, update),
                None => line_of(call),
            };
            out.begin_call(&update.tool_call_id.0, line);
            let name = tool.unwrap_or(&call.title);
            let name = self.program.our_tool(name).unwrap_or(name);
            out.called(
                &update.tool_call_id.0,
                name,
                update.fields.raw_input.as_ref().map_or_else(|| call.title.clone(), ToString::to_string),
            );
        }
        if update.fields.status == Some(ToolCallStatus::Completed) {
            for content in update.fields.content.iter().flatten() {
                if let ToolCallContent::Diff(diff) = content {
                    out.note(Change::FileChanged(diff.path.display().to_string()));
                }
            }
        }
        if matches!(update.fields.status, Some(ToolCallStatus::Completed | ToolCallStatus::Failed)) {
            let failed = update.fields.status == Some(ToolCallStatus::Failed);
            out.end_call(&update.tool_call_id.0);
            out.returned(&update.tool_call_id.0, result_of(update), failed);
        }
    }

    /// Handles a permission: the call begins, which some programs do not report before it has ended.
    pub(super) fn permitted(&mut self, call: &ToolCallUpdate, out: &mut Outbox) {
        let first_title = self.first_title(&call.tool_call_id.0);
        let tool = self.program.tool_name(call, first_title);
        // The line of our tools has what the tool returned.
        if tool.is_none_or(|tool| self.program.our_tool(tool).is_none()) {
            let mut begins = call.clone();
            begins.fields.status = Some(ToolCallStatus::InProgress);
            self.call(&begins, out);
        }
    }

    /// Returns the first title that the program gave a call.
    pub(super) fn first_title(&self, call_id: &str) -> Option<&str> {
        self.calls.get(call_id).map(|call| call.first_title.as_str())
    }

    /// Returns the text of a plan.
    pub(super) fn plan(&self, file: &Path) -> Option<&str> {
        self.plans.get(file).map(String::as_str)
    }

    /// Records that the turn has ended. Returns what the model wrote since its last tool call.
    pub(super) fn end_turn(&mut self, out: &mut Outbox) -> String {
        self.end_message(out);
        self.calls.clear();
        mem::take(&mut self.final_text)
    }

    /// Records that the next text is a new message.
    pub(super) fn end_message(&mut self, out: &mut Outbox) {
        if !self.is_text_reported {
            self.tell_text(out);
        }
        out.wrote(&mem::take(&mut self.message));
        self.text.clear();
        self.is_text_reported = false;
    }

    fn tell_text(&self, out: &mut Outbox) {
        if !self.text.trim().is_empty() {
            out.tell(Event::Activity(self.text.trim().to_owned()));
        }
    }

    /// Keeps the plans that the call has written: a request to approve one names only its file.
    fn note_plans(&mut self, update: &ToolCallUpdate) {
        if update.fields.status != Some(ToolCallStatus::Completed) {
            return;
        }
        for content in update.fields.content.iter().flatten() {
            if let ToolCallContent::Diff(diff) = content
                && diff.path.parent().is_some_and(|parent| parent.ends_with("plans"))
            {
                self.plans.insert(diff.path.clone(), diff.new_text.clone());
            }
        }
    }
}

/// Returns what a call has returned: its texts and edits, or else its output as JSON.
fn result_of(update: &ToolCallUpdate) -> String {
    let parts = update.fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        ToolCallContent::Diff(diff) => {
            let old = diff.old_text.as_deref().unwrap_or_default();
            Some(format!("{}\n--- before\n{old}\n+++ after\n{}", diff.path.display(), diff.new_text))
        }
        _ => None,
    });
    let parts: Vec<_> = parts.collect();
    match (&update.fields.raw_output, parts.is_empty()) {
        (Some(output), true) => output.as_str().map_or_else(|| output.to_string(), str::to_owned),
        _ => parts.join("\n"),
    }
}

/// Returns the shell command of a call, if the program says so.
fn command_of(update: &ToolCallUpdate) -> Option<String> {
    Some(update.fields.raw_input.as_ref()?.get("command")?.as_str()?.to_owned())
}

/// Returns one line about a call.
fn line_of(call: &Call) -> String {
    let verb = match call.kind {
        ToolKind::Execute => return format!("Runs: {}", call.command.as_ref().unwrap_or(&call.title)),
        ToolKind::Read => "Reads: ",
        ToolKind::Edit => "Edits: ",
        ToolKind::Delete => "Deletes: ",
        ToolKind::Search => "Searches: ",
        ToolKind::Fetch => "Fetches: ",
        _ => "",
    };
    format!("{verb}{}", call.title)
}

/// Returns one line about a call of one of our tools. Gemini CLI does not tell the input, so the line has what the tool
/// returned.
fn line_of_ours(tool: &str, update: &ToolCallUpdate) -> String {
    let returned = update.fields.content.iter().flatten().find_map(|content| match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => text.text.lines().next(),
            _ => None,
        },
        _ => None,
    });
    match (&update.fields.raw_input, returned) {
        (Some(input), _) => tool_call(tool, input),
        (None, Some(returned)) => format!("{tool}: {returned}"),
        (None, None) => tool.to_owned(),
    }
}
