//! `teamwire completions`: scripts for shells.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::failure::Failure;

/// Print a script that completes commands in your shell
///
/// For bash: `teamwire completions bash > ~/.local/share/bash-completion/completions/teamwire`
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Result<(), Failure> {
        clap_complete::generate(self.shell, &mut Cli::command(), "teamwire", &mut std::io::stdout());
        Ok(())
    }
}
