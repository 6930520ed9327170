//! `teamwire demo`: plays a team's whole life on this machine.
//!
//! It starts a real coordinator on the embedded store and real teammate processes, each under its own runner, plays the
//! scenarios as the team's lead, and prints the team's history. It checks every step, so its exit code is a smoke test of
//! an installation.

mod processes;
mod scenario;
pub(super) mod teammate;

use std::time::Duration;

use clap::Args;

use self::{processes::Processes, scenario::play};
use crate::{failure::Failure, show};

/// How long each step can take before the demo fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Watch a whole team work, from creation to deletion, on this machine
///
/// Starts a coordinator and three teammates as separate processes and plays typical scenarios: a request for data, a
/// broadcast, a plan rejected and then approved, a shutdown rejected and then approved, a deletion refused and then done.
/// Prints the lead's view of the history, checks every step, and leaves nothing behind.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n\n    teamwire demo")]
pub struct Demo {
    /// Keep the demo's files and print their directory
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub async fn run(&self) -> Result<(), Failure> {
        let mut directory = tempfile::Builder::new().prefix("teamwire-demo-").tempdir()?;
        directory.disable_cleanup(self.keep);
        let processes = Processes::start(directory.path()).await?;
        let played = Box::pin(play(&processes)).await;
        processes.stop().await;
        if self.keep {
            anstream::eprintln!("The demo's files are in {}.", directory.path().display());
        }
        played?;
        anstream::println!("\n{}", show::paint(anstyle::AnsiColor::Green.on_default().bold(), "Every step succeeded."));
        Ok(())
    }
}

fn heading(text: &str) {
    anstream::println!("\n{}", show::paint(show::bold(), text));
}

fn failed(what: String) -> Failure {
    Failure::with_code(1, format!("The demo failed: {what}."))
}

async fn in_time<T>(what: &str, step: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(PATIENCE, step)
        .await
        .map_err(|_| failed(format!("{what} did not happen within {} s", PATIENCE.as_secs())))?
}
