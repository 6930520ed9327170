// The agent programs that teamwire is tested with: the one list that `xtask/src/agents.rs`, its tests and
// `tests/agents/` include.
//
// A row names the program's command, its npm package, the version, whether CI must test it, and what it can do besides
// what every program must. The tests check that it does, and `docs/agents/tested.md` shows it.

/// What not every program can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Can {
    /// A message joins the turn that runs. Otherwise, it waits for the turn's end.
    TakeMessagesInMidTurn,
    /// It continues its conversation after it was killed.
    Resume,
    /// The runner learns that it has compacted its context, which it does once the model has read too much.
    ReportCompaction,
    /// It says that a tool call runs, and not only that it has ended.
    ReportRunningCalls,
    /// It reports the tokens that it uses, so that budgets bind it.
    ReportTokens,
    /// It compacts its session if the model refuses that as too long, and so answers after all.
    CompactRefusedSessions,
    /// It gets a new session if the model refuses its session for good, or a message on which every session fails becomes
    /// a dead letter.
    FailTurns,
    /// A person can take over its session at a terminal.
    BeAttached,
    /// `teamwire setup` or its settings give its tools to a session that a person starts, which the tests try.
    BeStartedByAPerson,
    /// It ends when its input does. Otherwise, the runner ends it with SIGTERM.
    EndWithItsInput,
}

use Can::*;

programs! {
    claude: "@anthropic-ai/claude-code", "2.1.332", true,
        [TakeMessagesInMidTurn, Resume, ReportCompaction, ReportRunningCalls, ReportTokens, FailTurns, BeAttached,
         BeStartedByAPerson, EndWithItsInput];
    codex: "@openai/codex", "0.171.0", false,
        [TakeMessagesInMidTurn, Resume, ReportCompaction, ReportRunningCalls, ReportTokens, FailTurns, BeAttached,
         BeStartedByAPerson, EndWithItsInput];
    gemini: "@google/gemini-cli", "0.61.0", false,
        [ReportRunningCalls, ReportTokens, FailTurns, BeAttached, BeStartedByAPerson];
    opencode: "opencode-ai", "1.18.33", false,
        [Resume, ReportCompaction, ReportRunningCalls, ReportTokens, CompactRefusedSessions, FailTurns, BeAttached,
         BeStartedByAPerson, EndWithItsInput];
    copilot: "@github/copilot", "1.0.102", false, [Resume, ReportRunningCalls, ReportTokens, EndWithItsInput];
    qwen: "@qwen-code/qwen-code", "0.24.4", false, [Resume, ReportRunningCalls, FailTurns, EndWithItsInput];
    kimi: "@moonshot-ai/kimi-code", "2.1.0", false, [Resume, EndWithItsInput];
}
