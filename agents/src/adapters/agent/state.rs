//! What the program is and does at the moment, for people who watch.

use tokio::time::Instant;

use super::{
    describe::{ACTIVITY_CHARS_MAX, first_line},
    protocol::Change,
};
use crate::incarnation::ProgramState;

/// Follows what the program does.
#[derive(Debug, Default)]
pub(super) struct AgentState {
    state: ProgramState,
    /// The tool calls that are running, the oldest first: the key, the line and the beginning of each.
    calls: Vec<(String, String, Instant)>,
    /// What is wrong with the program itself, whatever it does.
    defect: String,
    /// Why it gets no prompts. Empty if it does.
    pause: String,
}

impl AgentState {
    /// Takes a change into account.
    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Model(model) => self.state.model = first_line(&model, ACTIVITY_CHARS_MAX),
            Change::Version(version) => self.state.version = first_line(&version, ACTIVITY_CHARS_MAX),
            Change::CallBegan { key, line } => {
                self.calls.retain(|(known, ..)| *known != key);
                self.calls.push((key, first_line(&line, ACTIVITY_CHARS_MAX), Instant::now()));
            }
            Change::CallEnded { key } => self.calls.retain(|(known, ..)| *known != key),
            Change::FileChanged(_) => {}
            Change::Trouble(trouble) => self.state.trouble = first_line(&trouble, ACTIVITY_CHARS_MAX),
        }
    }

    /// Sets what is wrong with the program itself. Empty means nothing.
    pub(super) fn set_defect(&mut self, defect: &str) {
        defect.clone_into(&mut self.defect);
    }

    /// Sets why the program gets no prompts. Empty means that it does.
    pub(super) fn set_pause(&mut self, why: &str) {
        why.clone_into(&mut self.pause);
    }

    /// Returns what to report. `is_in_turn`: whether the program has a prompt in hand.
    pub(super) fn report(&mut self, is_in_turn: bool) -> ProgramState {
        if is_in_turn {
            self.state.turn_since.get_or_insert_with(Instant::now);
        } else {
            self.state.turn_since = None;
            self.state.trouble.clear();
            self.calls.clear();
        }
        self.state.tool = self.calls.last().map(|(_, line, since)| (line.clone(), *since));
        let troubles = [&self.pause, &self.state.trouble, &self.defect];
        let trouble = troubles.into_iter().find(|trouble| !trouble.is_empty()).cloned().unwrap_or_default();
        ProgramState { trouble, ..self.state.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(key: &str) -> Change {
        Change::CallBegan { key: key.to_owned(), line: format!("Bash: {key}") }
    }

    #[test]
    fn the_latest_call_that_runs_is_shown_until_it_or_the_turn_has_ended() {
        let mut state = AgentState::default();
        let tool = |state: &mut AgentState, is_in_turn| state.report(is_in_turn).tool.map(|(line, _)| line);
        assert_eq!(state.report(false), ProgramState::default());
        [began("a"), began("b")].into_iter().for_each(|change| state.change(change));
        assert_eq!(tool(&mut state, true).as_deref(), Some("Bash: b"));
        let since = state.report(true).turn_since;
        state.change(Change::CallEnded { key: "b".to_owned() });
        assert_eq!(tool(&mut state, true).as_deref(), Some("Bash: a"));
        assert!(since.is_some() && state.report(true).turn_since == since);
        state.change(Change::Trouble("The model does not answer.".to_owned()));
        state.set_defect("no tools");
        assert_eq!(state.report(true).trouble, "The model does not answer.");
        assert_eq!(state.report(false), ProgramState { trouble: "no tools".to_owned(), ..ProgramState::default() });
        assert_eq!(tool(&mut state, true), None, "it was of the last turn");
        state.set_pause("paused: the budget is used up");
        state.set_defect("");
        assert_eq!(state.report(false).trouble, "paused: the budget is used up");
    }
}
