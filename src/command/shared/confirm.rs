//! Asks before something that cannot be undone.

use std::io::{IsTerminal as _, stderr, stdin};

use clap::Args;

use crate::failure::{Failure, REFUSED};

/// The option that skips the question.
#[derive(Args, Clone, Copy, Debug)]
pub(in crate::command) struct Confirm {
    /// Do not ask for confirmation; required where no one can answer, as in a script
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    /// Asks for confirmation if there is a terminal. `what` says what is about to happen, as a sentence; `instead` says
    /// what else to do.
    pub(in crate::command) fn ask_at_terminal(self, what: &str, instead: &str) -> Result<(), Failure> {
        match self.yes || !has_terminal() {
            true => Ok(()),
            false => self.ask(what, instead),
        }
    }

    /// Asks for confirmation at the terminal. `what` says what is about to happen, as a sentence.
    ///
    /// Fails if the answer is not yes. Without a terminal, fails unless `--yes` is given; `instead` says what else to
    /// do.
    pub(in crate::command) fn ask(self, what: &str, instead: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !has_terminal() {
            return Err(Failure::usage(format!("{what} To confirm, add --yes.{instead}")));
        }
        ask(&format!("{what}{instead} Continue?"))
    }
}

/// Returns whether a person can be asked.
pub(in crate::command) fn has_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks a question at the terminal. Fails if the answer is not yes.
pub(in crate::command) fn ask(question: &str) -> Result<(), Failure> {
    anstream::eprint!("{question} [y/N] ");
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::with_code(REFUSED, "Not confirmed, so nothing was done.")),
    }
}
