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
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "teamwire", &mut script);
        print!("{}", String::from_utf8_lossy(&script));
        Ok(())
    }
}
