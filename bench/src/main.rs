//! Teamwire's load generator and benchmarks.
//!
//! Every candidate runs as real processes on this machine, with the same messages: the released build of the
//! coordinator over an embedded store or Redis, the baselines that it builds on, and the peers that could replace it.
//! An absolute figure says more about the machine than about teamwire, so the runs of all candidates are interleaved,
//! and what counts is the ratio of adjacent runs.
//!
//! [`scenario`] has a module per measurement, [`candidate`] one per candidate. [`process`] owns the processes,
//! [`fetch`] installs peers, [`quiet`] waits for other programs, and [`measure`] has the load loops and clocks.
//! [`report`] collects the figures of a scenario, and [`results`] keeps them with their [`provenance`]; [`terminal`]
//! and [`plot`] show them, and [`page`] those of all scenarios.

mod candidate;
mod cli;
mod fetch;
mod machine;
mod measure;
mod page;
mod plot;
mod process;
mod provenance;
mod quiet;
mod report;
mod results;
mod scenario;
mod section;
mod terminal;

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use clap::Parser as _;
use mimalloc::MiMalloc;
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

use self::{
    cli::Cli,
    machine::Machine,
    measure::Pace,
    provenance::Provenance,
    quiet::Quiet,
    report::Report,
    results::Results,
    scenario::{Scenario, scale::Sizes},
};

/// The allocator of teamwire, so that the null server in this program has the same one.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// An error that is a message for the user.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// A store of teamwire, with its setting of fsync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// The embedded store. The baselines write a log in its place.
    Embedded,
    /// Redis, which flushes its log before it answers.
    RedisAlways,
    /// Redis, which flushes its log every second.
    RedisEverysec,
}

impl Store {
    /// Returns Redis' `appendfsync`. `None` if it is not Redis.
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
            None => f.write_str("embedded"),
            Some(fsync) => write!(f, "Redis {fsync}"),
        }
    }
}

/// The settings of all scenarios.
#[derive(Debug)]
pub(crate) struct Bench {
    teamwire: PathBuf,
    stores: Vec<Store>,
    pace: Pace,
    quiet: Quiet,
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
        [mode, store, acks] if mode == "null-server" => {
            let stores_acks = acks == candidate::null_server::STORES_ACKS;
            runtime().and_then(|runtime| runtime.block_on(candidate::null_server::serve(store, stores_acks)))
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

/// Does what the command line says. However it ends, it ends the processes that it started, and removes their files.
fn start(cli: Cli) -> Result<()> {
    if let Some(page) = &cli.render {
        return page::write(page);
    }
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
    let (teamwire, commit) = binary(&cli, beside)?;
    if cli.fetch {
        fetch::all();
    }
    let provenance = Provenance::of(&teamwire, commit, Machine::inspect()?)?;
    println!("{}; {}\n", provenance.built(), provenance.machine.describe());
    let (bench, no_redis) = settings(&cli, teamwire, directory)?;
    let (began, mut all) = (Instant::now(), Vec::new());
    for scenario in cli.scenarios() {
        let mut report = Report::new(scenario.name(), began);
        if let Some(why) = &no_redis {
            report.add_absent("everything on Redis", why);
        }
        let flush_us = machine::flush(&bench.directory)?.as_secs_f64() * 1e6;
        scenario.run(&bench, &mut report).await?;
        let mut results = Results {
            scenario: scenario.name().to_owned(),
            date: machine::today(),
            provenance: provenance.clone(),
            runs: bench.runs,
            seconds: bench.pace.length.as_secs_f64(),
            load: bench.quiet.take_worst(),
            flush_us: results::rounded(flush_us),
            note: None,
            plots: Vec::new(),
            absent: report.absent,
            series: report.series,
        };
        println!("{}", terminal::show(&results));
        publish(&cli, scenario, &mut results)?;
        all.push(results);
        if let Some(path) = &cli.json {
            let texts: Vec<_> = all.iter().map(Results::to_json).collect::<Result<_>>()?;
            fs::write(path, format!("[{}]\n", texts.join(",\n")))?;
        }
    }
    Ok(())
}

/// Writes the plots of a scenario, its figures, and the page, where the command line asks for them.
fn publish(cli: &Cli, scenario: Scenario, results: &mut Results) -> Result<()> {
    if let Some(plots) = &cli.plots {
        plot::draw(results, plots)?;
    }
    if let Some(page) = &cli.markdown
        && scenario.is_default()
    {
        results.plots = plot::draw(results, page::beside(page))?;
        results.write(&page::data(page, scenario)?)?;
        page::write(page)?;
    }
    Ok(())
}

/// Returns the binary to measure, and the commit that it was built from if that is known. Figures of an unknown commit
/// are not published.
fn binary(cli: &Cli, beside: &Path) -> Result<(PathBuf, Option<String>)> {
    let (path, built_from) = match &cli.teamwire {
        Some(path) => (path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?, None),
        None => (beside.join("teamwire"), build()?),
    };
    let commit = cli.commit.clone().or(built_from);
    if cli.markdown.is_some() && commit.is_none() {
        return Err(
            "it is not known which commit the binary was built from: name it with --commit, or run this with cargo in \
                    a clone, which builds it"
                .into(),
        );
    }
    Ok((path, commit))
}

/// Returns the settings, and why there is nothing on Redis if that is so.
fn settings(cli: &Cli, teamwire: PathBuf, directory: &Path) -> Result<(Bench, Option<String>)> {
    let or = |said: Option<u64>, full, quick| said.unwrap_or(if cli.quick { quick } else { full });
    let (stores, no_redis) = cli.stores();
    let bench = Bench {
        teamwire,
        stores,
        pace: cli.pace(),
        quiet: cli.quiet(),
        runs: cli.runs(),
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
    Ok((bench, no_redis))
}

/// Builds teamwire as it is released, with the cargo that runs this program, into the same directory. Returns the
/// commit of the source. `None` if cargo does not run this program, so nothing was built; or the commit is unknown.
fn build() -> Result<Option<String>> {
    let Some(cargo) = env::var_os("CARGO") else { return Ok(None) };
    let product = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let build = ["build", "--profile", "dist", "--package", "teamwire"];
    let status = Command::new(cargo).args(build).current_dir(product).status()?;
    if status.success() {
        Ok(provenance::commit())
    } else {
        Err("teamwire does not build; fix it, or name a binary with --teamwire".into())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Returns settings with a number of runs.
    pub(crate) fn bench(runs: u32) -> Bench {
        let cli = Cli::parse_from(["teamwire-bench", "--store", "embedded", "--runs", &runs.to_string()]);
        settings(&cli, PathBuf::new(), Path::new("")).expect("settings").0
    }

    #[test]
    fn figures_of_an_unknown_commit_are_not_published() {
        let parse = |more: &[&str]| {
            Cli::parse_from([&["teamwire-bench", "--teamwire", "/bin/true", "--markdown", "page.md"], more].concat())
        };
        let refused = binary(&parse(&[]), Path::new("")).expect_err("no commit");
        assert!(refused.to_string().contains("--commit"), "{refused}");
        let (_, commit) = binary(&parse(&["--commit", "1a2b"]), Path::new("")).expect("a commit");
        assert_eq!(commit.as_deref(), Some("1a2b"));
    }
}
