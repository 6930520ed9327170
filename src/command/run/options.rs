//! What the options of `teamwire run` accept.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Via {
    /// Write each message as a line of JSON to the program's standard input
    Stdin,
    /// Start the program for each batch of messages
    Exec,
    /// Drive Claude Code (`claude`): it gets messages as prompts, and the member's tools over MCP
    Claude,
    /// Drive Codex (`codex app-server`): it gets messages as prompts, and the member's tools over Codex's own protocol
    Codex,
    /// Drive any command that speaks the Agent Client Protocol, such as `gemini` or `opencode`: it gets messages as
    /// prompts, and the member's tools over MCP
    Acp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PromptAs {
    /// On standard input
    Stdin,
    /// As the last argument
    Argument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Permit {
    /// The lead, or the member that --approver names. A person answers with `teamwire approve` or `teamwire reject`,
    /// and an agent with SendMessage
    Ask,
    /// Permit everything
    Allow,
    /// Reject everything that the program asks permission for
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Ack {
    /// The program acknowledges the message, or replies to it and says so with `in_reply_to`
    Reply,
    /// The runner wrote the message to the program's standard input
    Written,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Answer {
    /// Ask the program
    Ask,
    /// Approve without asking the program
    Approve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Containing {
    /// In a cgroup if the runner may create one, else as with `watchdog`
    Auto,
    /// In a cgroup (Linux 5.14 or later), which no descendant can leave by detaching itself; fail if the runner cannot
    /// create one
    Cgroup,
    /// Recognize descendants by parent, process group and environment
    Watchdog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RestartWhen {
    /// Never
    Never,
    /// After a failure
    OnFailure,
    /// Whenever it has ended, unless the member was asked to shut down
    Always,
}
