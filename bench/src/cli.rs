//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::{
    Store,
    fetch::Program,
    measure::Pace,
    quiet::Quiet,
    scenario::{Scenario, scale::Sizes},
};

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
  floors    what acknowledgements cost: with 100 inboxes, with 998 subscribers of a broadcast, and in
            a backlog, beside baselines that store acknowledgements
  joins     joins of one team, broadcasts to it and sends in it, as its roster grows to 1,000
  scale     what teams, members, idle streams and messages cost with several coordinators on a
            Redis Cluster

By default all but the last three run. Each run of each candidate starts new processes with an empty store, after a wait \
until other programs leave the machine alone. Tables show the median of the runs, the minimum and the \
maximum; a ratio compares adjacent runs. The coordinator's rates and the limits of inboxes, teams and \
connections are raised, because they exist to prevent such load. Everything else has its default, so \
an OK means what it means in production.

--markdown publishes: it measures longer, refuses to measure a busy machine, records the commit, and \
writes three things beside FILE after each scenario: the figures of every run (data/SCENARIO.json), \
plots, and the page itself, from all figures in data. The page says if they come from different \
commits or machines.

Examples, in the folder bench/:
  cargo run --profile dist -- --fetch --quick
  cargo run --profile dist -- send --store embedded
  cargo run --profile dist -- idle --streams 10000
  cargo run --profile dist -- drain --backlog 100000 --json drain.json
  cargo run --profile dist -- watch --members 200 --messages 20000
  cargo run --profile dist -- scale --runs 1 --scale-teams 10000 --scale-members 2
  cargo run --profile dist -- --fetch --markdown ../docs/benchmarks/results.md
  cargo run -- --render ../docs/benchmarks/results.md";

/// The number of runs, and the seconds of a run, if nothing else is said: of a check, of a look, and of what is
/// published.
const RUNS: [u32; 3] = [1, 3, 5];
const SECONDS: [f64; 3] = [0.3, 1.0, 5.0];
const WARM_UP: [f64; 3] = [0.1, 0.5, 1.0];
const PATIENCE: [u64; 3] = [0, 5, 60];

/// The least seconds at low rates, unless it is only a check.
const SECONDS_AT_LOW_RATES: f64 = 3.0;

/// Measure teamwire against its baselines and its peers.
#[derive(Debug, Parser)]
#[command(name = "teamwire-bench", after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The scenarios to run. [default: all but floors, joins and scale]
    #[arg(value_enum)]
    pub(crate) scenarios: Vec<Scenario>,
    /// The stores to measure with; "redis" means both of its fsync settings.
    #[arg(long, value_enum, default_value_t = Stores::All)]
    store: Stores,
    /// Check in a few minutes that everything works: less of everything, once. Other options take precedence.
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) quick: bool,
    /// The seconds that each run is measured for, after a warm-up that isn't; at least 3 at low rates. [default: 1;
    /// with --markdown: 5; quick: 0.3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// The number of runs of each candidate. [default: 3; with --markdown: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// The seconds to wait, before each run, until other programs use less than 5% of the processors and hardly wait
    /// for the disk. After that, --markdown fails; otherwise the run takes place anyway. [default: 5; with --markdown:
    /// 60; quick: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    patience: Option<u64>,
    /// Publish even if the machine is busy. The page says how busy it was.
    #[arg(long, requires = "markdown")]
    allow_load: bool,
    /// The number of idle subscribers. [default: 1000; quick: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(50..=15_000))]
    pub(crate) streams: Option<u64>,
    /// The number of messages to drain. [default: 20000; quick: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) backlog: Option<u64>,
    /// The number of messages queued in start and recovery. [default: 10000; quick: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) queued: Option<u64>,
    /// The larger number of teams in growth. [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=100_000))]
    pub(crate) teams: Option<u64>,
    /// The larger number of queued messages in growth. [default: 100000; quick: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(11..=900_000))]
    pub(crate) waiting: Option<u64>,
    /// The number of members in watch. [default: 1000; quick: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=1000))]
    pub(crate) members: Option<u64>,
    /// The number of messages in watch. [default: 100000; quick: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000))]
    pub(crate) messages: Option<u64>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// First install missing peers below the target directory; RabbitMQ by apt-get, which needs root.
    #[arg(long)]
    pub(crate) fetch: bool,
    /// Publish: after each scenario, write its figures and plots beside this page, and render the page.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Measure nothing. Render this page from the figures beside it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["markdown", "scenarios"])]
    pub(crate) render: Option<PathBuf>,
    /// After each scenario, write plots as SVG files to this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "markdown")]
    pub(crate) plots: Option<PathBuf>,
    /// After each scenario, write the figures of all runs to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The binary to measure. [default: the build of the profile `dist`, which cargo brings up to date]
    #[arg(long, value_name = "PATH")]
    pub(crate) teamwire: Option<PathBuf>,
    /// The commit that --teamwire was built from. [default: that of this source tree, if cargo has built it]
    #[arg(long, value_name = "ID")]
    pub(crate) commit: Option<String>,
    /// The directory for the stores, on the disk of interest. [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stores {
    Embedded,
    Redis,
    All,
}

impl Cli {
    /// Returns the scenarios to run.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        match self.scenarios.is_empty() {
            true => Scenario::value_variants().iter().copied().filter(|scenario| scenario.is_default()).collect(),
            false => self.scenarios.clone(),
        }
    }

    /// Returns the stores to measure with, and why those on Redis are missing if they are.
    pub(crate) fn stores(&self) -> (Vec<Store>, Option<String>) {
        let redis = [Store::RedisAlways, Store::RedisEverysec];
        let stores = match self.store {
            Stores::Embedded => return (vec![Store::Embedded], None),
            Stores::Redis => redis.to_vec(),
            Stores::All => [&[Store::Embedded], &redis[..]].concat(),
        };
        match Program::Redis.find() {
            Ok(_) => (stores, None),
            Err(why) => (stores.into_iter().filter(|store| *store == Store::Embedded).collect(), Some(why)),
        }
    }

    /// Returns the number of runs of each candidate.
    pub(crate) fn runs(&self) -> u32 {
        self.runs.unwrap_or(RUNS[self.purpose()])
    }

    /// Returns how long a run is.
    pub(crate) fn pace(&self) -> Pace {
        let length = self.seconds.map_or(Duration::from_secs_f64(SECONDS[self.purpose()]), Duration::from_secs);
        let at_low_rates = if self.quick { 0.0 } else { SECONDS_AT_LOW_RATES };
        Pace {
            warm_up: Duration::from_secs_f64(WARM_UP[self.purpose()]),
            length,
            length_at_low_rates: Duration::from_secs_f64(at_low_rates),
        }
    }

    /// Returns what waits for a quiet machine.
    pub(crate) fn quiet(&self) -> Quiet {
        let patience = Duration::from_secs(self.patience.unwrap_or(PATIENCE[self.purpose()]));
        Quiet::new(patience, self.markdown.is_some() && !self.allow_load)
    }

    /// Returns the index of its purpose: a check, a look, or to publish.
    fn purpose(&self) -> usize {
        if self.quick { 0 } else { 1 + usize::from(self.markdown.is_some()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Cli {
        Cli::try_parse_from([&["teamwire-bench"], arguments].concat()).expect("valid arguments")
    }

    #[test]
    fn published_figures_take_longer_runs_and_a_quiet_machine() {
        let of = |arguments: &[&str]| {
            let cli = parse(arguments);
            (cli.runs(), cli.pace().length.as_millis(), cli.quiet().patience.as_secs(), cli.quiet().is_required)
        };
        assert_eq!(of(&["--markdown", "page.md"]), (5, 5_000, 60, true));
        assert_eq!(of(&[]), (3, 1_000, 5, false));
        assert_eq!(of(&["--quick"]), (1, 300, 0, false));
        assert_eq!(
            of(&["--markdown", "page.md", "--runs", "7", "--seconds", "9", "--allow-load"]),
            (7, 9_000, 60, false)
        );
    }

    #[test]
    fn every_run_warms_up() {
        for arguments in [&["--quick"][..], &[], &["--markdown", "page.md"]] {
            assert!(!parse(arguments).pace().warm_up.is_zero());
        }
    }

    #[test]
    fn figures_of_a_check_cannot_be_published() {
        let refused = Cli::try_parse_from(["teamwire-bench", "--quick", "--markdown", "page.md"]);
        assert!(refused.expect_err("a contradiction").to_string().contains("--quick"));
    }
}
