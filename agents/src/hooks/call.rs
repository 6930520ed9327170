//! Reads what a program says about an event.

use serde::Deserialize;

use crate::setup::AgentProgram;

/// What happened in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A session began, was resumed or was compacted.
    SessionStart,
    /// A prompt was submitted.
    Prompt,
    /// A tool call ended.
    AfterTool,
    /// The model has nothing more to do.
    TurnEnd,
    /// The session ended.
    SessionEnd,
}

/// One call of a hook.
#[derive(Clone, Debug)]
pub struct HookCall {
    pub(super) program: AgentProgram,
    pub(super) event: Event,
    /// The event's name in the program.
    pub(super) event_name: String,
    pub(super) session_id: String,
    /// The turn. Empty if the program does not name it.
    pub(super) turn_id: String,
    /// Whether the turn continues because of a hook.
    pub(super) is_continued: bool,
    /// Whether the event is about a subagent within the session, which has its own model context.
    pub(super) is_subagent: bool,
}

/// Why the input of a hook was not understood.
#[derive(Debug, thiserror::Error)]
pub enum BadCall {
    /// An agent program does not write such input.
    #[error("The input of this hook is not an event of {0}: {1}. Only agent programs call this command.")]
    Unreadable(&'static str, serde_json::Error),
    /// teamwire does not handle this event.
    #[error("teamwire has no answer for the event {0}. `teamwire setup` adds only those that it answers.")]
    UnknownEvent(String),
}

#[derive(Deserialize)]
struct Input {
    session_id: String,
    hook_event_name: String,
    /// Of Claude Code.
    #[serde(default)]
    prompt_id: String,
    /// Of Codex.
    #[serde(default)]
    turn_id: String,
    #[serde(default)]
    stop_hook_active: bool,
    /// Of Claude Code.
    #[serde(default)]
    agent_id: String,
}

impl HookCall {
    /// Reads what a program writes to the standard input of a hook.
    pub fn parse(program: AgentProgram, input: &str) -> Result<Self, BadCall> {
        let input: Input = serde_json::from_str(input).map_err(|error| BadCall::Unreadable(program.title(), error))?;
        let event = match input.hook_event_name.as_str() {
            "SessionStart" => Event::SessionStart,
            "UserPromptSubmit" | "BeforeAgent" => Event::Prompt,
            "PostToolUse" | "AfterTool" => Event::AfterTool,
            "Stop" | "AfterAgent" => Event::TurnEnd,
            "SessionEnd" => Event::SessionEnd,
            _ => return Err(BadCall::UnknownEvent(input.hook_event_name)),
        };
        Ok(Self {
            program,
            event,
            event_name: input.hook_event_name,
            session_id: input.session_id,
            turn_id: if input.prompt_id.is_empty() { input.turn_id } else { input.prompt_id },
            is_continued: input.stop_hook_active,
            is_subagent: !input.agent_id.is_empty(),
        })
    }

    /// Returns whether a hook may tell the person at this event that no messages arrive.
    pub fn is_for_a_person(&self) -> bool {
        matches!(self.event, Event::SessionStart | Event::Prompt)
    }
}
