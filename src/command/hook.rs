//! `teamwire hook`: answers the hooks of an agent program.

use std::io::{Write as _, stdin, stdout};

use clap::Args;
use teamwire_agents::{
    hooks::{HookAnswer, HookCall, Hooks},
    setup::AgentProgram,
};

use super::setup::program_with_hooks_parser;
use crate::{
    context::{ContextArgs, Who, is_within_runner},
    failure::Failure,
};

/// The exit code that wakes an idle session of Claude Code.
const WAKES: u8 = 2;

/// Answer a hook of an agent program: hand over the messages that have arrived
///
/// `teamwire setup` writes this command into the settings of a program. The program writes a JSON object to the
/// command's standard input and reads one from the command's standard output. The command never makes the program fail:
/// if it cannot hand over messages, it tells the user so in one line and exits with 0.
///
/// In a program that `teamwire run` started, the command does nothing: the runner hands the messages over.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire hook claude --as lead@acme")]
pub(super) struct Hook {
    /// The agent program that runs this command
    #[arg(value_parser = program_with_hooks_parser())]
    program: AgentProgram,
    /// Wait until a message arrives, then exit with 2. This wakes an idle session of Claude Code. Does nothing in
    /// `claude -p`
    #[arg(long)]
    wake: bool,
}

impl Hook {
    pub(super) async fn run(&self, context: &ContextArgs) -> Result<u8, Failure> {
        if is_within_runner() || (self.wake && is_one_off_session()) {
            return Ok(0);
        }
        let input = std::io::read_to_string(stdin())?;
        let call = HookCall::parse(self.program, &input).map_err(|error| Failure::usage(error.to_string()))?;
        let hooks = context.hooks();
        if self.wake {
            let Ok(hooks) = hooks else { return Ok(0) };
            let text = hooks.wait_to_wake(&call).await?;
            return Ok(text.map_or(0, |text| {
                anstream::eprintln!("{text}");
                WAKES
            }));
        }
        match hooks {
            Ok(hooks) => {
                let answer = hooks.answer(&call).await?;
                print(&answer)?;
                hooks.printed(&call, &answer)?;
            }
            Err(failure) if call.is_for_a_person() => {
                let undo = format!("To stop this: teamwire setup {} --undo", self.program.name());
                print(&HookAnswer::note(&format!("teamwire: no messages arrive. {} {undo}", failure.message())))?;
            }
            Err(_) => {}
        }
        Ok(0)
    }
}

/// Returns whether Claude Code runs a single prompt (`claude -p`). It waits for its hooks to end, so none may wait for
/// messages.
fn is_one_off_session() -> bool {
    std::env::var_os("CLAUDE_CODE_ENTRYPOINT").is_some_and(|entry| entry == "sdk-cli")
}

impl ContextArgs {
    /// Returns the hooks of the member that the settings name.
    fn hooks(&self) -> Result<Hooks, Failure> {
        let caller = self.caller(Who::Pinned)?;
        caller.member()?;
        Ok(Hooks::new(caller.client, &self.hooks_directory()?))
    }
}

/// Prints an answer. Returns once the program can read it.
fn print(answer: &HookAnswer) -> Result<(), Failure> {
    if let Some(line) = answer.line() {
        let mut stdout = stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()?;
    }
    Ok(())
}
