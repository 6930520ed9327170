//! Notices an agent that makes the same tool call again and again.

use teamwire_proto::v1::{self, TranscriptKind};

use super::{Agent, warn};
use crate::{incarnation::Incarnation, transcript::Entry};

/// How many equal calls in a row are a loop.
const CALLS_MAX: u32 = 8;

/// The tool calls in a row that have the same tool and the same input.
#[derive(Debug, Default)]
pub(super) struct Loops {
    tool: String,
    input: String,
    calls: u32,
}

impl Loops {
    /// Counts a tool call. Returns whether it is the one that makes a loop.
    fn called(&mut self, tool: &str, input: &str) -> bool {
        if (self.tool.as_str(), self.input.as_str()) != (tool, input) {
            *self = Self { tool: tool.to_owned(), input: input.to_owned(), calls: 0 };
        }
        self.calls += 1;
        self.calls == CALLS_MAX
    }
}

impl Agent {
    /// Tells the lead if a tool call makes a loop.
    pub(super) fn look_for_loop(&mut self, entry: &Entry, incarnation: &mut Incarnation<'_>) {
        if entry.kind == TranscriptKind::ToolCall && self.loops.called(&entry.tool, &entry.text) {
            let text = format!(
                "The agent has called {} {CALLS_MAX} times in a row with the same input. `teamwire interrupt` ends its turn.",
                entry.tool
            );
            warn(incarnation, &text);
            incarnation.report_failure(v1::WorkFailure { error: text, ..v1::WorkFailure::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_calls_in_a_row_are_a_loop_and_it_is_noticed_once() {
        let mut loops = Loops::default();
        let mut call = |input: &str, times: u32| (0..times).filter(|_| loops.called("Bash", input)).count();
        assert_eq!((call("make", 7), call("ls", 1), call("make", 7)), (0, 0, 0));
        assert_eq!((call("make", 1), call("make", 20)), (1, 0));
    }
}
