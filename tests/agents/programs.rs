// The agent programs that teamwire is tested with: the one list that `xtask/src/agents.rs`, its tests and
// `tests/agents/` include.
//
// A row names the program's command, its npm package, the version, and whether CI must test it.

programs! {
    claude: "@anthropic-ai/claude-code", "2.1.330", true;
    codex: "@openai/codex", "0.169.0", false;
    gemini: "@google/gemini-cli", "0.61.0", false;
    opencode: "opencode-ai", "1.18.33", false;
}
