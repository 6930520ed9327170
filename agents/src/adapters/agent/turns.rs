//! What the turns of the program do, to be reported when each ends.

use teamwire_proto::{v1, word::cut_middle};
use tokio::time::Instant;

use super::{
    describe::{ACTIVITY_CHARS_MAX, first_line},
    protocol::{Change, TurnEnd, Usage},
};
use crate::incarnation::EndedTurn;

/// How many bytes of the last text of a turn are reported.
const FINAL_TEXT_BYTES_MAX: usize = 16 * 1024;

/// How many files of a turn are reported.
const FILES_MAX: usize = 100;

/// Follows the turns of one process of the program.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// When the turn that runs began. `None` if none runs.
    started: Option<Instant>,
    tool_calls: u32,
    files: Vec<String>,
    /// What the process has used, by its latest report, and when the last turn ended.
    used: Usage,
    used_before: Usage,
}

impl Turns {
    /// Records that a prompt is handed over, which begins a turn unless one runs.
    pub(super) fn begin(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    /// Takes a change into account.
    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::CallBegan { .. } => self.tool_calls += 1,
            Change::FileChanged(file) if self.files.len() < FILES_MAX && !self.files.contains(file) => {
                self.files.push(file.clone());
            }
            _ => {}
        }
    }

    /// Records what the process has used so far.
    pub(super) fn used(&mut self, used: Usage) {
        self.used = used;
    }

    /// Returns what to report of the turn that has ended.
    pub(super) fn end(&mut self, end: &TurnEnd) -> EndedTurn {
        let used = v1::Usage::from(self.used.minus(self.used_before));
        let turn = EndedTurn {
            started: self.started,
            ended: Instant::now(),
            final_text: cut_middle(end.final_text.trim(), FINAL_TEXT_BYTES_MAX),
            tool_calls: self.tool_calls,
            files: std::mem::take(&mut self.files),
            usage: used.nonzero(),
            cut_short: first_line(&end.cut_short, ACTIVITY_CHARS_MAX),
        };
        *self = Self { used: self.used, used_before: self.used, ..Self::default() };
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_reports_what_it_did_and_not_what_turns_before_it_did() {
        let mut turns = Turns::default();
        let used = |input_tokens| Usage { turns: 1, input_tokens, ..Usage::default() };
        turns.begin();
        turns.change(&Change::CallBegan { key: "a".to_owned(), line: "Edit".to_owned() });
        for file in ["a.rs", "a.rs", "b.rs"] {
            turns.change(&Change::FileChanged(file.to_owned()));
        }
        turns.used(used(100));
        let long = format!("first{}last", "\n".repeat(20_000));
        let first = turns.end(&TurnEnd { final_text: long, cut_short: String::new() });
        assert_eq!((first.tool_calls, first.files), (1, vec!["a.rs".to_owned(), "b.rs".to_owned()]));
        assert!(first.final_text.starts_with("first\n") && first.final_text.ends_with("\nlast"));
        assert!(first.final_text.contains(" bytes left out]\n") && first.final_text.len() <= FINAL_TEXT_BYTES_MAX);

        turns.begin();
        turns.used(used(150));
        let second = turns.end(&TurnEnd { final_text: " done \n".to_owned(), cut_short: "limit\nmore".to_owned() });
        assert_eq!((second.final_text.as_str(), second.cut_short.as_str()), ("done", "limit"));
        assert_eq!((second.tool_calls, second.files.len()), (0, 0));
        assert_eq!(second.usage.map(|usage| usage.input_tokens), Some(50));
    }
}
