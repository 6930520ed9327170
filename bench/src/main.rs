//! Teamwire's load generator and benchmarks.
//!
//! Every candidate runs as real processes on this machine, with the same messages: the release build of the coordinator over
//! an embedded store or Redis, the baselines that it builds on, and the peers that could replace it. An absolute figure says
//! more about the machine than about teamwire, so the runs of all candidates are interleaved, and what counts is the ratio of
//! adjacent runs.
//!
//! [`scenario`] has a module per measurement, [`candidate`] one per candidate. [`process`] owns the processes, [`fetch`]
//! installs peers, [`measure`] has the load loops and clocks, [`report`] writes tables, [`plot`] draws them, and [`page`]
//! updates the file that shows both.

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

use self::{
    fetch::Program,
    machine::Machine,
    measure::Pace,
    page::Page,
    report::Report,
    scenario::{Scenario, scale::Sizes},
};

/// A result whose error is a message for the user.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const EXAMPLES: &str = "\
Scenarios:
  send      throughput and latency of sends by 1, 8, 64 and 512 callers; then latency at half that
            rate, in an open loop
  latency   from the call to the subscriber, at 50 messages a second
  fanout    from the call of a broadcast to the first and the last of 10, 100 and 998 subscribers
  idle      memory and CPU time of a coordinator per waiting subscriber
  drain     how fast one subscriber receives and acknowledges a backlog
  claim     100 workers that empty a task board
  start     how long a coordinator takes to serve, empty and with queued messages
  recovery  from the restart after kill -9 to the first delivery
  growth    what a send costs with few and with many teams, and with few and many queued messages
  watch     what displays of a large team cost: snapshots and changes, the history, and searching it
  peers     sending and receiving with 1 and 100 inboxes, compared with Redis streams by hand, NATS
            JetStream, RabbitMQ and JSON files
  python    64 concurrent sends with the Python client, compared with AutoGen's gRPC runtime and
            AGNTCY SLIM
  joins     joins of one team, broadcasts to it and sends in it, as its roster grows to 1,000
  scale     what teams, members, idle streams and messages cost with several coordinators on a
            Redis Cluster

By default all but the last two run, which takes about 25 minutes. Each run of each candidate starts new processes \
with an empty store. Tables show the median of the runs, the minimum and the maximum; a ratio \
compares adjacent runs. The coordinator's rates and the limits of inboxes, teams and connections \
are raised, because they exist to prevent such load. Everything else has its default, so an OK \
means what it means in production.

Examples:
  cargo run --release --package teamwire-bench -- --fetch --quick
  cargo run --release --package teamwire-bench -- send --store embedded
  cargo run --release --package teamwire-bench -- idle --streams 10000
  cargo run --release --package teamwire-bench -- drain --backlog 100000 --json drain.json
  cargo run --release --package teamwire-bench -- watch --members 200 --messages 20000
  cargo run --release --package teamwire-bench -- scale --runs 1 --scale-teams 10000 --scale-members 2
  cargo run --release --package teamwire-bench -- --markdown docs/benchmarks/results.md --plots docs/benchmarks";

/// Measure teamwire against its baselines and its peers.
#[derive(Debug, Parser)]
#[command(name = "teamwire-bench", after_help = EXAMPLES)]
struct Cli {
    /// The scenarios to run. [default: all but joins and scale]
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// The stores to measure with; "redis" means both of its fsync settings.
    #[arg(long, value_enum, default_value_t = Stores::All)]
    store: Stores,
    /// Check in a few minutes that everything works: less of everything, once. Other options take precedence.
    #[arg(long)]
    quick: bool,
    /// The seconds that each run is measured for, after half a second of warm-up; at least 3 at low rates. [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// The number of runs of each candidate. [default: 3; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// The number of idle subscribers. [default: 1000; quick: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(50..=15_000))]
    streams: Option<u64>,
    /// The number of messages to drain. [default: 20000; quick: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    backlog: Option<u64>,
    /// The number of messages queued in start and recovery. [default: 10000; quick: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    queued: Option<u64>,
    /// The larger number of teams in growth. [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=100_000))]
    teams: Option<u64>,
    /// The larger number of queued messages in growth. [default: 100000; quick: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=900_000))]
    waiting: Option<u64>,
    /// The number of members in watch. [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=1000))]
    members: Option<u64>,
    /// The number of messages in watch. [default: 100000; quick: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    messages: Option<u64>,
    #[command(flatten)]
    sizes: Sizes,
    /// First install missing peers below the target directory; RabbitMQ by apt-get, which needs root.
    #[arg(long)]
    fetch: bool,
    /// Write plots as SVG files to this directory.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// After each scenario, replace its section of this Markdown file.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// After each scenario, write the figures of all runs to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The binary to measure. [default: the release build, which cargo brings up to date]
    #[arg(long, value_name = "PATH")]
    teamwire: Option<PathBuf>,
    /// The directory for the stores, on the disk of interest. [default: beside this program]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// A store of teamwire, with its setting of fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A redb file.
    Embedded,
    /// Redis, which flushes its log before it answers.
    RedisAlways,
    /// Redis, which flushes its log every second.
    RedisEverysec,
}

impl Store {
    /// Returns Redis' `appendfsync`. `None`: it is not Redis.
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

/// The settings of all scenarios.
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
    members: usize,
    messages: usize,
    sizes: Sizes,
    is_quick: bool,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        // The null server runs in its own process.
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

/// Runs the scenarios. However it ends, it ends the processes that it started, and removes their files.
fn start(cli: Cli) -> Result<()> {
    let executable = env::current_exe()?;
    let beside = executable.parent().ok_or("the executable has no directory")?;
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
    let by_default = || Scenario::value_variants().iter().copied().filter(|scenario| scenario.is_default()).collect();
    let scenarios = if cli.scenarios.is_empty() { by_default() } else { cli.scenarios };
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
        members: usize::try_from(or(cli.members, 1_000, 100))?,
        messages: usize::try_from(or(cli.messages, 100_000, 5_000))?,
        sizes: cli.sizes,
        is_quick: cli.quick,
        directory: directory.to_owned(),
    };
    let machine = Machine::inspect(&bench.directory)?;
    println!("{}\n", machine.describe());
    let mut report = Report::new(machine);
    for scenario in scenarios {
        let name = scenario.name();
        if let Some(why) = &no_redis {
            report.add_absent(name, "all candidates with Redis", why);
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

/// Builds teamwire's release binary with the cargo that runs this program, into the same directory.
fn build() -> Result<()> {
    let Some(cargo) = env::var_os("CARGO") else { return Ok(()) };
    let status = Command::new(cargo).args(["build", "--release", "--package", "teamwire"]).status()?;
    if status.success() {
        Ok(())
    } else {
        Err("teamwire does not build; fix it, or name a binary with --teamwire".into())
    }
}
