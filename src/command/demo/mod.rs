//! `teamwire demo`: plays a team's whole life on this machine.
//!
//! It starts a real coordinator on the embedded store and real teammate processes, each under its own runner, plays the
//! scenarios as the team's lead, and prints the team's history. It checks every step, so its exit code is a smoke test of
//! an installation.

mod processes;
mod scenario;
mod script;
pub(super) mod teammate;

use std::{io::IsTerminal as _, time::Duration};

use clap::Args;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use self::{processes::Processes, scenario::play, script::Language};
use crate::{failure::Failure, show};

/// How long each step can take before the demo fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the demo pauses after each event on a terminal, in seconds: long enough to read it.
const PAUSE: f32 = 0.7;

/// Watch a whole team work, from creation to deletion, on this machine
///
/// Starts a coordinator and three teammates as separate processes and plays typical scenarios: a request for data, a
/// broadcast, a plan rejected and then approved, a shutdown rejected and then approved, a deletion refused and then done.
/// Prints the lead's view of the history, checks every step, and leaves nothing behind.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n\n    teamwire demo\n    teamwire demo --lang zh --pause 2")]
pub(super) struct Demo {
    /// Keep the demo's files and print their directory
    #[arg(long)]
    keep: bool,
    /// The language that the members speak
    #[arg(long, value_enum, default_value_t)]
    lang: Language,
    /// How long to pause after each event, in seconds [default: 0.7 on a terminal, otherwise 0]
    #[arg(long, value_name = "SECONDS")]
    pause: Option<f32>,
}

impl Demo {
    pub(super) async fn run(&self) -> Result<(), Failure> {
        let pause = self.pause.unwrap_or(if std::io::stdout().is_terminal() { PAUSE } else { 0.0 });
        let pause = Duration::try_from_secs_f32(pause)
            .map_err(|_| Failure::usage("--pause takes a number of seconds that is not negative."))?;
        let interrupted = interrupted()?;
        let mut directory = tempfile::Builder::new().prefix("teamwire-demo-").tempdir()?;
        directory.disable_cleanup(self.keep);
        let processes = Processes::start(directory.path()).await?;
        // An interruption drops the play, and with it kills the teammates.
        let played = tokio::select! {
            played = Box::pin(play(&processes, self.lang, pause)) => played,
            failure = interrupted => Err(failure),
        };
        processes.stop().await;
        if self.keep {
            anstream::eprintln!("The demo's files are in {}.", directory.path().display());
        }
        played?;
        anstream::println!("\n{}", show::paint(anstyle::AnsiColor::Green.on_default().bold(), "Every step succeeded."));
        Ok(())
    }
}

/// Waits for the first SIGINT, SIGTERM or SIGHUP, including one that arrives before the first poll. Returns the failure to
/// end with; its exit code is the one that a shell reports for the signal.
fn interrupted() -> Result<impl Future<Output = Failure>, Failure> {
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let mut hangup = unix::signal(SignalKind::hangup())?;
    Ok(async move {
        let signal = tokio::select! {
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = hangup.recv() => Signal::SIGHUP,
        };
        let code = u8::try_from(128 + signal as i32).unwrap_or(u8::MAX);
        Failure::with_code(code, format!("{signal} ended the demo early."))
    })
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
