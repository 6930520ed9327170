//! `teamwire demo`: a whole team at work, start to end, on this machine.
//!
//! It starts a real coordinator on the embedded store and real teammate processes, each under its own runner, plays the
//! scenarios of a team's life as their lead, and prints what was said as the lead's record. It checks what it shows: the
//! exit code says whether everything happened as it must.

mod scenario;
mod stage;
pub(super) mod teammate;

use std::time::Duration;

use clap::Args;

use self::{scenario::play, stage::Stage};
use crate::{failure::Failure, show};

/// How long each step may take before the demo is taken to have failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// See a whole team at work, start to end, on this machine
///
/// Starts a coordinator and three teammates as processes of their own, and plays what teams do: a request for data, news
/// to everybody, a plan rejected and then approved, a shutdown refused and then approved, a deletion refused and then
/// done. Prints the lead's record, checks it, and leaves nothing behind.
#[derive(Args, Debug)]
pub struct Demo {
    /// Keep the demo's files and say where they are
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub async fn run(&self) -> Result<(), Failure> {
        let mut directory = tempfile::Builder::new().prefix("teamwire-demo-").tempdir()?;
        directory.disable_cleanup(self.keep);
        let stage = Stage::set_up(directory.path()).await?;
        let played = Box::pin(play(&stage)).await;
        stage.tear_down().await;
        if self.keep {
            anstream::eprintln!("The demo's files are in {}.", directory.path().display());
        }
        played?;
        anstream::println!(
            "\n{}",
            show::paint(anstyle::AnsiColor::Green.on_default().bold(), "Everything happened as it must.")
        );
        Ok(())
    }
}

fn heading(text: &str) {
    anstream::println!("\n{}", show::paint(show::bold(), text));
}

fn failed(what: String) -> Failure {
    Failure::with_code(1, format!("The demo went wrong: {what}."))
}

async fn in_time<T>(what: &str, step: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(PATIENCE, step)
        .await
        .map_err(|_| failed(format!("{what} did not come within {} s", PATIENCE.as_secs())))?
}
