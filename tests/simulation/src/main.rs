//! Simulates teams from seeds.
//!
//! The coordinators, the client and the members are the real ones, on one thread of one process. [`world`] puts them on
//! turmoil's simulated network and on one store in memory, which they reach through a [`faulty_store`]. [`chaos`]
//! injects faults, and [`lead`] plays the lead. [`determinism`] controls randomness and time, so that a seed reproduces
//! a run to the last byte. The checkers of `teamwire-chaos` examine the histories.
//!
//! Each seed runs in its own process, since some libraries keep counters per process.

mod chaos;
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod determinism;
mod faulty_store;
mod fleet;
mod lead;
mod net;
mod world;

use std::{
    env, panic,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Instant,
};

use clap::{Parser, ValueEnum};
use parking_lot::Mutex;
use teamwire_chaos::{buggy_store::Bug, check::Counts};

/// Whether any thread panicked.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Simulate teams from seeds and report broken promises
///
/// Prints a line per seed. Exits with 1 if a promise was broken. The same seed always gives the same run and
/// fingerprint. Set RUST_LOG=teamwire_server=debug (or similar) for logs on standard error.
#[derive(Parser, Clone, Debug)]
#[command(version)]
struct Cli {
    /// The seed, or the first of several [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of seeds [default: 1 with --seed, otherwise 20]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Order members from many hosts instead, while hosts are killed, cut off, lost and added
    #[arg(long)]
    fleet: bool,
    /// Plant a bug into the coordinators' store
    #[arg(long, value_enum, default_value = "none")]
    bug: Bug,
    /// Keep the histories of each seed in a subdirectory of this directory [default: keep those of failed runs in a new
    /// one]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run the one seed in this process
    #[arg(long, hide = true)]
    here: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let seed = cli.seed.unwrap_or_else(|| rand::random_range(0..1_000_000));
    let outcome = if cli.here { run(&cli, seed) } else { run_all(&cli, seed) };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each seed in its own process, as many at a time as there are processors. Returns whether every promise was
/// kept.
fn run_all(cli: &Cli, first: u64) -> Result<bool, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let seeds = cli.seeds.unwrap_or(if cli.seed.is_some() { 1 } else { 20 });
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let began = Instant::now();
    let bug = cli.bug.to_possible_value().map_or_else(String::new, |bug| bug.get_name().to_owned());
    let run_some = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= seeds {
                break;
            }
            let seed = first + place;
            let mut command = Command::new(&program);
            command.args(["--here", "--seed", &seed.to_string(), "--bug", &bug]);
            command.args(cli.fleet.then_some("--fleet"));
            if let Some(directory) = &cli.keep {
                command.arg("--keep").arg(directory);
            }
            let status = command.stdin(Stdio::null()).status();
            if !status.is_ok_and(|status| status.success()) {
                failed.lock().push(seed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(run_some);
        }
    });
    let mut failed = failed.into_inner();
    failed.sort_unstable();
    eprintln!("simulation: {seeds} seeds in {} s, {} failed", began.elapsed().as_secs(), failed.len());
    let fleet = if cli.fleet { " --fleet" } else { "" };
    let with_bug = if cli.bug == Bug::None { String::new() } else { format!(" --bug {bug}") };
    for seed in &failed {
        eprintln!("simulation: reproduce it with `cargo xtask simulate --seed {seed}{fleet}{with_bug}`");
    }
    Ok(failed.is_empty())
}

/// Runs a seed. Returns whether every promise was kept.
fn run(cli: &Cli, seed: u64) -> Result<bool, String> {
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        HAS_PANICKED.store(true, Ordering::Relaxed);
        shown(panic);
    }));
    // Without timestamps: reading a clock would change the run.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();

    if cli.fleet {
        return run_fleet(cli, seed);
    }
    let histories = tempfile::Builder::new().prefix("teamwire-simulation-").tempdir();
    let histories = histories.map_err(|error| format!("cannot create a directory for histories: {error}"))?;
    let (directory, bug) = (histories.path().to_owned(), cli.bug);
    // On a fresh thread, without thread-local state from this one.
    let mut outcome = thread::scope(|scope| scope.spawn(|| world::run(seed, bug, &directory)).join())
        .map_err(|_| format!("seed {seed} panicked"))?;
    if HAS_PANICKED.load(Ordering::Relaxed) {
        outcome.failures.push("a thread panicked".to_owned());
    }
    let is_kept = outcome.violations.is_empty() && outcome.failures.is_empty();
    let Counts { sent, unknown, delivered, redelivered, claimed, decided, sessions, processes, .. } = outcome.counts;
    println!(
        "seed {seed}: {}, fingerprint {:016x}, {} s, {} faults; {sent} sent, {unknown} of unknown outcome, {delivered} \
         delivered, {redelivered} of them redelivered, {claimed} claims, {decided} decisions, {sessions} sessions, {processes} processes",
        if is_kept { "kept" } else { "BROKEN" },
        outcome.fingerprint,
        outcome.took.as_secs(),
        outcome.faults,
    );
    for failure in &outcome.failures {
        println!("seed {seed}: {failure}");
    }
    for violation in outcome.violations.iter().take(20) {
        println!("seed {seed}: BROKEN: {violation}");
    }
    if let Some(kept) = &cli.keep {
        let to = kept.join(seed.to_string());
        copy(&directory, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    } else if !is_kept && bug == Bug::None {
        println!("seed {seed}: its histories are in {}", histories.keep().display());
    }
    Ok(is_kept)
}

/// Runs a seed of the fleet. Returns whether every promise was kept.
fn run_fleet(cli: &Cli, seed: u64) -> Result<bool, String> {
    let bug = cli.bug;
    let mut outcome = thread::scope(|scope| scope.spawn(|| fleet::run(seed, bug)).join())
        .map_err(|_| format!("seed {seed} panicked"))?;
    if HAS_PANICKED.load(Ordering::Relaxed) {
        outcome.broken.push("a thread panicked".to_owned());
    }
    let is_kept = outcome.broken.is_empty();
    println!(
        "seed {seed}: {}, fingerprint {:016x}, {} s, {} faults; {}",
        if is_kept { "kept" } else { "BROKEN" },
        outcome.fingerprint,
        outcome.took.as_secs(),
        outcome.faults,
        outcome.summary,
    );
    for broken in outcome.broken.iter().take(20) {
        println!("seed {seed}: BROKEN: {broken}");
    }
    Ok(is_kept)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
