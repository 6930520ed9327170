//! The load generator of teamwire, and its comparisons.
//!
//! Whatever is measured runs as real processes beside each other on this machine: the release build of the coordinator, Redis
//! with its log flushed always or every second, and, with the same messages, what they stand on and what is used in their
//! place. A figure alone says more of the machine than of teamwire, so the runs of all who are compared are interleaved, and
//! what counts is the ratio of neighbours.
//!
//! [`scenario`] has a module for each thing that is measured, [`candidate`] one for each that is compared; [`process`] owns the
//! processes, [`fetch`] gets the programs of others, [`measure`] has the loops and clocks, [`report`] the tables, [`plot`] the
//! pictures, and [`page`] the file that shows both.

mod candidate;
mod fetch;
mod machine;
mod measure;
mod page;
mod plot;
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

use self::{fetch::Program, machine::Machine, measure::Pace, page::Page, report::Report, scenario::Scenario};

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
  growth    what a send costs with few and with many teams, and messages that wait
  peers     sending and receiving with 1 and 100 inboxes, beside Redis streams by hand, NATS
            JetStream, RabbitMQ and files of JSON
  python    64 sends at once with teamwire's client for Python, beside AutoGen's gRPC runtime and
            AGNTCY SLIM with theirs

Without a scenario all are measured, which takes about 25 minutes. Each run of each candidate has \
new processes and an empty store. Every table shows the median over the runs, with the least and \
the greatest; ratios are those of runs beside each other. The coordinator's rates and the bounds of \
inboxes, teams and connections are raised, since they are there to keep agents from just this; \
everything else is as it comes, so an OK means what it means in production.

Examples:
  cargo run --release --package teamwire-bench -- --fetch --quick
  cargo run --release --package teamwire-bench -- send --store embedded
  cargo run --release --package teamwire-bench -- idle --streams 10000
  cargo run --release --package teamwire-bench -- drain --backlog 100000 --json drain.json
  cargo run --release --package teamwire-bench -- --markdown docs/benchmarks.md --plots docs/benchmarks";

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
    /// See whether all works, in a few minutes: less of everything, once. What else is said goes before.
    #[arg(long)]
    quick: bool,
    /// How many seconds each run is measured for, after half a second that is not counted; at least 3 where there are but
    /// a few messages a second. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// How many runs there are of each. [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// How many idle subscribers there are. [default: 1000; quick: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(50..=15_000))]
    streams: Option<u64>,
    /// How many messages are to be drained. [default: 20000; quick: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    backlog: Option<u64>,
    /// How many messages are queued at a start and a recovery. [default: 10000; quick: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    queued: Option<u64>,
    /// How many teams are many, in growth. [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=100_000))]
    teams: Option<u64>,
    /// How many messages that wait are many, in growth. [default: 100000; quick: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=900_000))]
    waiting: Option<u64>,
    /// First fetch the programs of others that are not here: into the directory of builds, and RabbitMQ, which needs root,
    /// with apt-get.
    #[arg(long)]
    fetch: bool,
    /// Draw what was found into SVG files there.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Show what was found in a file of Markdown, in the places that it has for it, after each scenario.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
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
    teams: usize,
    waiting: u64,
    is_quick: bool,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        // What is measured as a process of its own.
        [mode, store] if mode == "null-server" => {
            runtime().and_then(|runtime| runtime.block_on(candidate::null_server::serve(store)))
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
    process::raise_file_limit()?;
    let scenarios = if cli.scenarios.is_empty() { Scenario::value_variants().to_vec() } else { cli.scenarios };
    let page = cli.markdown.as_ref().map(|path| Page::open(path, scenarios.iter().map(|scenario| scenario.name())));
    let page = page.transpose()?;
    let teamwire = match cli.teamwire {
        Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
        None => {
            build()?;
            beside.join("teamwire")
        }
    };
    if cli.fetch {
        fetch::all();
    }
    let mut stores = match cli.store {
        Stores::Embedded => vec![Store::Embedded],
        Stores::Redis => vec![Store::RedisAlways, Store::RedisEverysec],
        Stores::All => vec![Store::Embedded, Store::RedisAlways, Store::RedisEverysec],
    };
    let no_redis = Program::Redis.find().err();
    if no_redis.is_some() {
        stores.retain(|store| *store == Store::Embedded);
    }
    let or = |said: Option<u64>, full, quick| said.unwrap_or(if cli.quick { quick } else { full });
    let seconds = cli.seconds.unwrap_or(1);
    let bench = Bench {
        teamwire,
        stores,
        pace: Pace { warm_up: Duration::from_millis(500), length: Duration::from_secs(seconds) },
        runs: u32::try_from(or(cli.runs, 3, 1))?,
        streams: usize::try_from(or(cli.streams, 1_000, 200))?,
        backlog: or(cli.backlog, 20_000, 2_000),
        queued: or(cli.queued, 10_000, 1_000),
        teams: usize::try_from(or(cli.teams, 1_000, 100))?,
        waiting: or(cli.waiting, 100_000, 5_000),
        is_quick: cli.quick,
        directory: directory.to_owned(),
    };
    let machine = Machine::inspect(&bench.directory)?;
    println!("{}\n", machine.describe());
    let mut report = Report::new(machine);
    for scenario in scenarios {
        let name = scenario.name();
        if let Some(why) = &no_redis {
            report.add_absent(name, "everything with Redis", why);
        }
        let before = machine::load();
        scenario.run(&bench, &mut report).await?;
        let after = machine::load();
        let how = format!("Runs: {}, of {seconds} s. Load: {before} before, {after} after.", bench.runs);
        println!("{}{how}\n", report.tables(name));
        let pictures = cli.plots.as_ref().map(|plots| plot::draw(&report, name, plots)).transpose()?;
        if let Some(page) = &page {
            let shown = match (&cli.plots, &pictures) {
                (Some(plots), Some(pictures)) => page.refer(plots, pictures)?,
                _ => String::new(),
            };
            let described = report.machine().describe();
            page.show(name, &format!("{}{shown}{} {how} {described}", report.markdown(name), machine::today()))?;
        }
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
