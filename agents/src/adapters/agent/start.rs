//! What a protocol needs before its program starts.

use std::time::Duration;

use teamwire_proto::v1::{self, RunnerAction};
use tokio::time::timeout;

use super::{
    Agent,
    describe::SUMMARY_CHARS_MAX,
    protocol::{McpCommand, Setup},
    tools::Tools,
    warn,
};
use crate::{
    config::Permissions,
    exit::Exit,
    incarnation::{Incarnation, Next, ProgramSession},
    line_protocol::input_lines::Welcome,
    process::find_program,
};

/// How long it may take to start the member's tools.
const TOOLS_DEADLINE: Duration = Duration::from_secs(10);

/// How many processes in a row may be killed before they have resumed the program's session.
const KILLS_MAX: u32 = 3;

/// Returns what the protocol of the program needs to know.
pub(super) fn setup(incarnation: &Incarnation<'_>, welcome: &Welcome) -> Setup {
    let config = incarnation.config;
    let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
    let mcp = config.agent.mcp_command.split_first().map(|(program, arguments)| McpCommand {
        program: lossy(program),
        arguments: arguments.iter().map(lossy).collect(),
        environment: incarnation.environment(),
    });
    let program = config.command.first();
    let resume = incarnation.carried.session.id.clone();
    Setup {
        program: program.and_then(|program| find_program(program, config.path(), config.directory.as_deref())),
        arguments: config.command.iter().skip(1).map(lossy).collect(),
        directory: config.working_directory(),
        used_before: resume.as_ref().map(|_| incarnation.carried.session.usage.into()).unwrap_or_default(),
        resume,
        mcp,
        tools: Vec::new(),
        plan_first: welcome.plan_required,
        identity: welcome.identity.clone(),
        permits_all: config.agent.permissions == Permissions::Allow,
    }
}

/// Gives the program's session up, if its process has ended by itself before it was ready: it may be unable to resume
/// the session. A kill says nothing about the session, unless there are too many.
pub(super) fn not_resumed(incarnation: &mut Incarnation<'_>, exit: &Exit) {
    let session = &mut incarnation.carried.session;
    session.kills += 1;
    if was_killed(exit) && session.kills < KILLS_MAX {
        return;
    }
    *session = ProgramSession::default();
    incarnation.keep_program_session();
    warn(
        incarnation,
        "The program ended before it had resumed its session. It starts a new one and remembers nothing.",
    );
}

/// Returns whether someone other than the runner has killed a program.
fn was_killed(exit: &Exit) -> bool {
    exit.signal != 0 && exit.action == RunnerAction::None
}

/// Starts the member's tools, for a program that calls them over its own protocol.
pub(super) async fn start_tools(setup: &mut Setup, incarnation: &Incarnation<'_>) -> Option<Tools> {
    let starting = async {
        let tools = Tools::start(incarnation.client()).await?;
        let list = tools.list().await?;
        Ok::<_, String>((tools, list))
    };
    let started = tokio::select! {
        started = timeout(TOOLS_DEADLINE, starting) => {
            started.unwrap_or_else(|_| Err("The coordinator does not answer.".to_owned()))
        }
        () = incarnation.stop.cancelled() => Err("The runner was asked to stop.".to_owned()),
    };
    match started {
        Ok((tools, list)) => {
            setup.tools = list;
            Some(tools)
        }
        Err(why) => {
            warn(incarnation, &format!("The agent has no tools of the team: {why}"));
            None
        }
    }
}

impl Agent {
    /// Gives up a session that the model's API refuses, and tells the lead.
    pub(super) fn start_over(&mut self, next: Next, error: &str, incarnation: &mut Incarnation<'_>) {
        let error: String = error.chars().take(SUMMARY_CHARS_MAX / 2).collect();
        let (what, failing) = match next {
            Next::Stop => ("and new ones as well, so the program is stopped", v1::WorkFailure::default()),
            _ => ("so the program begins a new session", self.prompts.failing()),
        };
        let text = format!("The model's API refuses the session, {what}: {error}");
        warn(incarnation, &text);
        incarnation.report_failure(v1::WorkFailure { error: text, ..failing });
        self.is_starting_over = true;
        self.is_broken |= next == Next::Stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_by_others_says_nothing_about_the_session() {
        let killed = Exit { signal: 9, action: RunnerAction::None, ..Exit::default() };
        assert!(was_killed(&killed));
        assert!(!was_killed(&Exit { action: RunnerAction::Sigkill, ..killed }), "the runner gave up waiting for it");
        assert!(!was_killed(&Exit { code: Some(1), action: RunnerAction::None, ..Exit::default() }));
    }
}
