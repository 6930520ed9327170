//! `teamwire programs`: lists the agent programs that teamwire knows.

use clap::Args;
use serde_json::json;
use teamwire_agents::programs::{Installed, KnownProgram, installed, known};

use super::Output;
use crate::{failure::Failure, show};

/// List the agent programs on this machine: version, the version that teamwire was tried with, and what to know
///
/// `teamwire run NAME -- PROGRAM` starts each of them with the arguments that it needs. A host without a file offers a
/// profile for each. A program that is not listed works, too: name its protocol with --via, and give it the arguments
/// that make it speak that protocol.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire programs\n    teamwire programs --all --json")]
pub(super) struct Programs {
    /// Also list those that are not installed, and how to install them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub output: Output,
}

impl Programs {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let installed = installed().await;
        let found = |program: &KnownProgram| installed.iter().find(|found| found.program.command == program.command);
        let listed = known().iter().map(|program| (program, found(program)));
        let listed: Vec<_> = listed.filter(|(_, found)| self.all || found.is_some()).collect();
        if self.output.json {
            listed.iter().for_each(|(program, found)| show::line(&json(program, *found)));
        } else if listed.is_empty() {
            anstream::println!(
                "There is no agent program on your PATH. To see which there are: teamwire programs --all"
            );
        } else {
            let rows = listed.iter().map(|(program, found)| row(program, *found)).collect();
            show::table(&["program", "command", "version", "tried", "via", "notes"], rows);
        }
        Ok(())
    }
}

fn row(program: &KnownProgram, found: Option<&Installed>) -> Vec<String> {
    let version = match found {
        Some(found) => found.version.clone().unwrap_or_else(|| "unknown".to_owned()),
        None => "not installed".to_owned(),
    };
    vec![
        program.title.clone(),
        program.command.clone(),
        show::plain(&version),
        program.tried.clone().unwrap_or_else(|| "no".to_owned()),
        program.via.as_str().to_owned(),
        notes(program, found).join(" "),
    ]
}

/// Says what to do before the program can be used, and what to know about it.
fn notes(program: &KnownProgram, found: Option<&Installed>) -> Vec<String> {
    let to_do = match found {
        None => program.install_command().map(|command| format!("To install it: {command}.")),
        Some(found) if found.is_signed_in == Some(false) => Some(format!("To sign in: {}.", program.sign_in)),
        Some(_) => None,
    };
    to_do.into_iter().chain(program.notes.iter().cloned()).collect()
}

fn json(program: &KnownProgram, found: Option<&Installed>) -> serde_json::Value {
    json!({
        "title": program.title, "command": program.command, "is_installed": found.is_some(),
        "version": found.and_then(|found| found.version.as_ref()), "tried": program.tried, "via": program.via.as_str(),
        "arguments": program.arguments, "environment": program.environment,
        "signed_in": found.and_then(|found| found.is_signed_in), "sign_in": program.sign_in,
        "install": program.install_command(), "notes": program.notes,
    })
}
