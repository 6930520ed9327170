//! `teamwire completions`: shell completion scripts.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use crate::failure::Failure;

/// Print a completion script for your shell
#[derive(Args, Debug)]
#[command(
    after_long_help = "Example:\n\n    teamwire completions bash > ~/.local/share/bash-completion/completions/teamwire"
)]
pub struct Completions {
    /// The shell to complete commands in
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "teamwire", &mut script);
        print!("{}", String::from_utf8_lossy(&script));
        Ok(())
    }
}
