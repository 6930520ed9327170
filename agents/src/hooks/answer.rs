//! Writes what a program reads from a hook.

use serde_json::{Value, json};

use super::call::HookCall;
use crate::{setup::AgentProgram, visible::json_line};

/// What a hook prints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookAnswer {
    /// `None` means nothing.
    output: Option<Value>,
    /// The messages in it.
    messages: Vec<String>,
}

impl HookAnswer {
    /// Creates an answer that changes nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Creates an answer that shows a line to the person and nothing to the model.
    pub fn note(text: &str) -> Self {
        Self::printing(json!({ "systemMessage": text }))
    }

    /// Creates an answer that shows the model a text.
    pub(super) fn context(call: &HookCall, text: String) -> Self {
        // Gemini CLI escapes angle brackets, but not ampersands. Without this, its model could not distinguish
        // teamwire's own tags from those that a member wrote, which are already escaped.
        let text = if call.program == AgentProgram::Gemini { text.replace('&', "&amp;") } else { text };
        let output = json!({ "hookEventName": call.event_name, "additionalContext": text });
        Self::printing(json!({ "hookSpecificOutput": output }))
    }

    /// Creates an answer to the end of a turn that makes the model continue with a text.
    pub(super) fn go_on(call: &HookCall, text: String) -> Self {
        match call.program {
            // Blocking Stop would show the text twice, and as an error.
            AgentProgram::Claude => Self::context(call, text),
            AgentProgram::Codex => Self::printing(json!({ "decision": "block", "reason": text })),
            AgentProgram::Gemini => Self::printing(json!({ "decision": "deny", "reason": text })),
        }
    }

    /// Returns the line to print.
    pub fn line(&self) -> Option<String> {
        self.output.as_ref().map(json_line)
    }

    /// Returns the ids of the messages in it.
    pub(super) fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Records which messages are in it.
    pub(super) fn with_messages(self, messages: Vec<String>) -> Self {
        Self { messages, ..self }
    }

    fn printing(output: Value) -> Self {
        Self { output: Some(output), messages: Vec::new() }
    }
}

impl AgentProgram {
    /// Returns whether a continued turn begins with a prompt, for which the program calls the prompt's hook.
    pub(super) fn prompts_itself(self) -> bool {
        self == Self::Gemini
    }
}
