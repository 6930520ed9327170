//! Plays teams on simulated time, from seeds.
//!
//! The coordinators, the client and the members at work are the real ones, in one thread of one process: [`world`] puts them
//! onto the simulated network of turmoil and onto one store in memory ([`faulty_store`] is the way to it), [`chaos`] breaks what
//! can break, [`lead`] is what the lead does. [`determinism`] decides what all of them take for chance and time. So a seed is
//! the same play each time, to the last byte. What happened is checked as histories of real processes are
//! (`teamwire-chaos`).
//!
//! Each seed is played in a process of its own, since some libraries count across all that happens in one.

mod chaos;
mod determinism;
mod faulty_store;
mod lead;
mod net;
mod world;

use std::{
    env, panic,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

use clap::{Parser, ValueEnum};
use teamwire_chaos::{buggy_store::Bug, check::Counts};

/// A thread has panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Play teams on simulated time, from seeds, and say which promises were not kept
///
/// Prints a line for each seed. Exits with 1 if a promise was not kept. A seed is always the same play, with the same
/// fingerprint. RUST_LOG=teamwire_server=debug (and so on) says more, on standard error.
#[derive(Parser, Clone, Debug)]
#[command(version)]
struct Cli {
    /// The seed, or the first one [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many seeds to play [default: the one of --seed, or else 20]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Plant a bug into the coordinators
    #[arg(long, value_enum, default_value = "none")]
    bug: Bug,
    /// Keep histories in this directory, each seed's in one of its own [default: those of failed plays, in a new one]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Play the one seed in this process
    #[arg(long, hide = true)]
    here: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(|| rand::random_range(0..1_000_000));
    let outcome = if cli.here { play(&cli, seed) } else { play_all(&cli, seed) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays seeds in processes of their own, as many at a time as there are processors. Returns whether all was well.
fn play_all(cli: &Cli, first: u64) -> Result<bool, String> {
    let program = env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let seeds = cli.seeds.unwrap_or(if cli.seed.is_some() { 1 } else { 20 });
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let began = Instant::now();
    let bug = cli.bug.to_possible_value().map_or_else(String::new, |bug| bug.get_name().to_owned());
    let play_some = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= seeds {
                break;
            }
            let seed = first + place;
            let mut command = Command::new(&program);
            command.args(["--here", "--seed", &seed.to_string(), "--bug", &bug]);
            if let Some(directory) = &cli.keep {
                command.arg("--keep").arg(directory);
            }
            let status = command.stdin(Stdio::null()).status();
            if !status.is_ok_and(|status| status.success()) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(seed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(play_some);
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_unstable();
    eprintln!("simulation: {seeds} played in {} s, {} failed", began.elapsed().as_secs(), failed.len());
    let with_it = if cli.bug == Bug::None { String::new() } else { format!(" --bug {bug}") };
    for seed in &failed {
        eprintln!("simulation: repeat it with `cargo xtask simulate --seed {seed}{with_it}`");
    }
    Ok(failed.is_empty())
}

/// Plays a seed. Returns whether all was well.
fn play(cli: &Cli, seed: u64) -> Result<bool, String> {
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        HAS_PANICKED.store(true, Ordering::Relaxed);
        shown(panic);
    }));
    // Without times: reading a clock would change the play.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();

    let place = tempfile::Builder::new().prefix("teamwire-simulation-").tempdir();
    let place = place.map_err(|error| format!("there is no place for histories: {error}"))?;
    let (directory, bug) = (place.path().to_owned(), cli.bug);
    // On a thread of its own, so that nothing of this one is left over in it.
    let mut outcome = thread::scope(|scope| scope.spawn(|| world::play(seed, bug, &directory)).join())
        .map_err(|_| format!("seed {seed} has panicked"))?;
    if HAS_PANICKED.load(Ordering::Relaxed) {
        outcome.failures.push("something has panicked".to_owned());
    }
    let is_well = outcome.violations.is_empty() && outcome.failures.is_empty();
    let Counts { sent, unknown, delivered, redelivered, claimed, decided, sessions, processes, .. } = outcome.counts;
    println!(
        "seed {seed}: {}, fingerprint {:016x}, {} s, {} strikes; {sent} sent, {unknown} of unknown outcome, {delivered} handed \
         out, {redelivered} of them again, {claimed} claims, {decided} decisions, {sessions} sessions, {processes} processes",
        if is_well { "kept" } else { "NOT KEPT" },
        outcome.fingerprint,
        outcome.took.as_secs(),
        outcome.strikes,
    );
    for failure in &outcome.failures {
        println!("seed {seed}: {failure}");
    }
    for violation in outcome.violations.iter().take(20) {
        println!("seed {seed}: NOT KEPT: {violation}");
    }
    if let Some(kept) = &cli.keep {
        let to = kept.join(seed.to_string());
        copy(&directory, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    } else if !is_well && bug == Bug::None {
        println!("seed {seed}: its histories are in {}", place.keep().display());
    }
    Ok(is_well)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
