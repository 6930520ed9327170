//! Counts what a process of Codex uses. Codex counts for the whole life of a thread.

use serde_json::Value;

use super::super::protocol::Usage;

/// Counts tokens and turns.
#[derive(Debug, Default)]
pub(super) struct Counter {
    usage: Usage,
    /// What earlier processes have counted of the thread.
    used_before: [u64; 3],
    /// The thread's tokens before this process: input, cached, output.
    before: Option<[u64; 3]>,
    /// A turn of this process.
    turn: String,
}

impl Counter {
    pub(super) fn new(used_before: Usage) -> Self {
        let Usage { input_tokens, cached_tokens, output_tokens, .. } = used_before;
        Self { used_before: [input_tokens, cached_tokens, output_tokens], ..Self::default() }
    }

    /// Forgets the thread: another one begins.
    pub(super) fn begin_thread(&mut self) {
        self.used_before = [0; 3];
    }

    /// Records that a turn of this process runs.
    pub(super) fn begin(&mut self, turn: &str) {
        turn.clone_into(&mut self.turn);
    }

    /// Handles a report about the thread. A report about a turn of an earlier process comes when a thread is resumed. What
    /// that process has used, but was killed before it reported, counts for this one. Returns what the process has used
    /// until now.
    pub(super) fn update(&mut self, report: &Value, turn: &str) -> Usage {
        let total = tokens(&report["total"]);
        let last = if turn == self.turn { tokens(&report["last"]) } else { [0; 3] };
        let has_all = (0..total.len()).all(|at| total[at] >= self.used_before[at]);
        // A thread that does not remember all of it says only what its last turn has used.
        let before = if has_all { self.used_before } else { difference(total, last) };
        let before = *self.before.get_or_insert(before);
        let [input, cached, output] = difference(total, before);
        self.usage = Usage { input_tokens: input, cached_tokens: cached, output_tokens: output, ..self.usage };
        self.usage
    }

    /// Records that a turn has ended. Returns what the process has used until now.
    pub(super) fn end_turn(&mut self) -> Usage {
        self.usage.turns += 1;
        self.usage
    }
}

fn tokens(report: &Value) -> [u64; 3] {
    ["inputTokens", "cachedInputTokens", "outputTokens"].map(|field| report[field].as_u64().unwrap_or_default())
}

fn difference(all: [u64; 3], part: [u64; 3]) -> [u64; 3] {
    std::array::from_fn(|at| all[at].saturating_sub(part[at]))
}
