//! `teamwire completions`: shell completion scripts.

use clap::{Args, ValueEnum};
use clap_complete::env::Shells;

use super::complete;
use crate::failure::Failure;

/// Print a completion script for your shell
///
/// The script completes commands and options, and asks the coordinator for the names of members, teams, requests and
/// tasks when you press Tab.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n\n    teamwire completions bash > ~/.local/share/bash-completion/completions/teamwire\n    teamwire completions zsh > ~/.zfunc/_teamwire\n    teamwire completions fish > ~/.config/fish/completions/teamwire.fish"
)]
pub(super) struct Completions {
    /// The shell to complete commands in
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Completions {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let name = self.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let shells = Shells::builtins();
        let shell = shells
            .completer(&name)
            .ok_or_else(|| Failure::usage(format!("There is no completion script for {name}.")))?;
        let mut script = Vec::new();
        shell.write_registration(complete::VARIABLE, "teamwire", "teamwire", "teamwire", &mut script)?;
        print!("{}", String::from_utf8_lossy(&script));
        Ok(())
    }
}
