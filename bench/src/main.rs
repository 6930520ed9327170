//! The load generator of teamwire, and its comparisons.
//!
//! Whatever is measured runs as real processes beside each other on this machine: the release build of the coordinator, Redis
//! with its log flushed always or every second, and, with the same messages, what they stand on and what is used in their
//! place. A figure alone says more of the machine than of teamwire, so the runs of all who are compared are interleaved, and
//! what counts is the ratio of neighbours.
//!
//! [`scenario`] has a module for each thing that is measured, [`contender`] one for each that is compared; [`process`] owns the
//! processes, [`measure`] has the loops and clocks, [`report`] the tables.

mod contender;
mod machine;
mod measure;
mod process;
mod report;
mod scenario;

use std::{
    env,
    error::Error,
    fmt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use clap::{Parser, ValueEnum};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

use self::{machine::Machine, measure::Pace, report::Report, scenario::Scenario};

/// What went wrong, for a reader.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const EXAMPLES: &str = "\
Scenarios:
  send      how many sends 1, 8, 64 and 512 callers get confirmed, and how long one takes; then at
            half that load, at a fixed rate and timed from when each was due
  latency   from the call to the subscriber, 50 times a second
  fanout    a broadcast, from the call to the first and the last of 10, 100 and 998 subscribers
  idle      memory and processor time of a coordinator for each subscriber that waits
  drain     how fast one subscriber takes and acknowledges a backlog
  claim     100 workers who empty a task board
  start     how long a coordinator takes to serve, empty and with messages queued
  recovery  from the restart after kill -9 to the first delivery
  peers     sending and receiving with 1 and 100 inboxes, beside Redis streams by hand, NATS
            JetStream and files of JSON

Without a scenario all are measured, which takes the better part of an hour. Each run of each \
contender has new processes and an empty store. Every table shows the median over the runs, with \
the least and the greatest; ratios are those of runs beside each other. The coordinator's rates \
and the bounds of inboxes, teams and connections are raised, since they are there to keep agents \
from just this; everything else is as it comes, so an OK means what it means in production.

Examples:
  cargo run --release --package teamwire-bench -- send --store embedded
  cargo run --release --package teamwire-bench -- idle --streams 10000
  cargo run --release --package teamwire-bench -- drain --backlog 100000 --runs 3 --json drain.json";

/// Measure teamwire beside what it stands on and what it could be replaced by.
#[derive(Debug, Parser)]
#[command(name = "teamwire-bench", after_help = EXAMPLES)]
struct Cli {
    /// What to measure. All, if none is named.
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// Which stores to measure with; "redis" is both of its settings.
    #[arg(long, value_enum, default_value_t = Stores::All)]
    store: Stores,
    /// How many seconds each run is measured for, after one second that is not counted.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How many runs there are of each.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How many idle subscribers there are.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(50..=15_000))]
    streams: u64,
    /// How many messages are to be drained.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    backlog: u64,
    /// How many messages are queued at a start and a recovery.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    queued: u64,
    /// Write all figures of all runs there, as JSON, after each scenario.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The binary to measure. Otherwise the release build of this repository, which cargo is asked for.
    #[arg(long, value_name = "PATH")]
    teamwire: Option<PathBuf>,
    /// Where the stores are, best on the disk that is of interest. Otherwise beside the release build.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// What messages are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file of redb.
    Embedded,
    /// Redis that flushes its log before it answers.
    RedisAlways,
    /// Redis that flushes its log every second.
    RedisEverysec,
}

impl Store {
    /// Returns Redis' setting of that name. `None`: it is not Redis.
    pub(crate) fn append_fsync(self) -> Option<&'static str> {
        match self {
            Self::Embedded => None,
            Self::RedisAlways => Some("always"),
            Self::RedisEverysec => Some("everysec"),
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.append_fsync() {
            None => f.write_str("redb"),
            Some(fsync) => write!(f, "Redis {fsync}"),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stores {
    Embedded,
    Redis,
    All,
}

/// What is measured with, and how.
#[derive(Debug)]
pub(crate) struct Bench {
    teamwire: PathBuf,
    stores: Vec<Store>,
    pace: Pace,
    runs: u32,
    streams: usize,
    backlog: u64,
    queued: u64,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        // What is measured as a process of its own.
        [mode, store] if mode == "bare" => {
            runtime().and_then(|runtime| runtime.block_on(contender::bare::serve(store)))
        }
        _ => start(Cli::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Measures what is asked for. Whatever it has started ends with it, and its files go, however it ends.
fn start(cli: Cli) -> Result<()> {
    let executable = env::current_exe()?;
    let beside = executable.parent().ok_or("an executable without a directory")?;
    let directory = cli.directory.as_deref().unwrap_or(beside).canonicalize()?;
    let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(directory)?;
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            done = run(cli, beside, directory.path()) => done,
            _ = interrupt.recv() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
        }
    });
    process::end_all();
    runtime.shutdown_background();
    done
}

async fn run(cli: Cli, beside: &Path, directory: &Path) -> Result<()> {
    measure::start_clock();
    process::allow_many_connections()?;
    let teamwire = match cli.teamwire {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => {
            build()?;
            beside.join("teamwire")
        }
    };
    let mut stores = match cli.store {
        Stores::Embedded => vec![Store::Embedded],
        Stores::Redis => vec![Store::RedisAlways, Store::RedisEverysec],
        Stores::All => vec![Store::Embedded, Store::RedisAlways, Store::RedisEverysec],
    };
    if process::find("redis-server").is_none() {
        eprintln!("skipped: everything with Redis, since there is no redis-server in PATH");
        stores.retain(|store| *store == Store::Embedded);
    }
    let bench = Bench {
        teamwire,
        stores,
        pace: Pace { warm_up: Duration::from_secs(1), length: Duration::from_secs(cli.seconds) },
        runs: cli.runs,
        streams: usize::try_from(cli.streams)?,
        backlog: cli.backlog,
        queued: cli.queued,
        directory: directory.to_owned(),
    };
    let machine = Machine::look(&bench.directory)?;
    println!("{}", machine.describe());
    let mut report = Report::new(machine);
    let scenarios = if cli.scenarios.is_empty() { Scenario::value_variants().to_vec() } else { cli.scenarios };
    for scenario in scenarios {
        let before = machine::load();
        scenario.run(&bench, &mut report).await?;
        print!("{}", report.tables(scenario.name()));
        println!("Load: {before} before, {} after. Runs: {}, of {} s.", machine::load(), bench.runs, cli.seconds);
        if let Some(path) = &cli.json {
            report.write(path)?;
        }
    }
    Ok(())
}

/// Has cargo make the release build of teamwire, beside which this one lies.
fn build() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else { return Ok(()) };
    let status = Command::new(cargo).args(["build", "--release", "--package", "teamwire"]).status()?;
    if status.success() { Ok(()) } else { Err("teamwire cannot be built; or name a binary with --teamwire".into()) }
}
