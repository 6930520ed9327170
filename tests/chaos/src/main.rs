//! Breaks teamwire while it works, and says which promises were kept.

mod table;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_chaos::{
    check::{self, Counts, Promise, Violation},
    cluster::{Scene, Stage, Store},
    faults::{FAULTS, Fault},
    history::{self, Recorder, What},
    lead::{self, LEAD},
    stock, worker,
};
use teamwire_client::{Error, v1};
use tokio::{task::JoinSet, time::sleep};

/// How long everything may take to be done once nothing is broken any more.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often the lead gives work, and looks for plans.
const OFTEN: Duration = Duration::from_millis(100);

/// Break teamwire while it works, and say which promises were kept
///
/// Starts a store, coordinators and a team of members, which are processes that send, acknowledge, claim and plan at random;
/// breaks things, one after the other; lets everything heal, has all members end, and checks what all of them have written
/// down. Prints a table of faults and promises. Exits with 1 if one was not kept.
#[derive(Parser, Debug)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Break things and check
    Run(Run),
    /// Check the histories of a directory again
    Check {
        /// Where they are
        directory: PathBuf,
    },
    /// List the faults
    List,
    /// Work as a member; started by `run`
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Args, Debug)]
struct Run {
    /// Which fault: a name of `list`, `mix` (another one each time), or `all` (each alone, one run after the other)
    #[arg(long, default_value = "mix")]
    fault: String,
    /// How long things are broken in each run, in seconds
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The same in minutes
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// Decides what is broken when, and what members do. Every run prints its own [default: a random one]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which store
    #[arg(long, value_enum, default_value = "all")]
    store: StoreArg,
    /// How many members there are
    #[arg(long, default_value_t = 4, value_name = "N")]
    members: usize,
    /// The program to test [default: the one beside this]
    #[arg(long, value_name = "FILE")]
    teamwire: Option<PathBuf>,
    /// Keep histories and logs in this directory, that of failed runs included [default: only those of failed runs]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Put what comes of each fault into the table of this file, in the place of what stands there of the same fault and store
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreArg {
    All,
    Embedded,
    Redis,
}

#[derive(Args, Debug)]
struct WorkerArgs {
    directory: PathBuf,
    member: String,
    process: u32,
    seed: u64,
    address: String,
    others: Vec<String>,
}

/// What came of one run.
struct Outcome {
    fault: String,
    store: Store,
    seed: u64,
    seconds: u64,
    strikes: usize,
    counts: Counts,
    tried: Vec<Promise>,
    violations: Vec<Violation>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::List => {
            for fault in FAULTS {
                let alone = if fault.mixes { "" } else { " (not in a mix)" };
                println!("{:30} {}{alone}", fault.name, fault.what);
            }
            ExitCode::SUCCESS
        }
        Command::Check { directory } => match history::read(&directory) {
            Ok(events) => {
                let violations = check::check(&events);
                println!("{:?}", check::count(&events));
                violations.iter().for_each(|violation| println!("{violation}"));
                if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => fail(&format!("the histories cannot be read: {error}")),
        },
        Command::Worker(worker) => work(worker).await,
        // Whatever was started or mounted goes with the run.
        Command::Run(run) => tokio::select! {
            code = run.all() => code,
            _ = tokio::signal::ctrl_c() => fail("interrupted"),
        },
    }
}

fn fail(what: &str) -> ExitCode {
    eprintln!("proof: {what}");
    ExitCode::FAILURE
}

async fn work(worker: WorkerArgs) -> ExitCode {
    let WorkerArgs { directory, member, process, seed, address, others } = worker;
    let credential = env::var("TEAMWIRE_CREDENTIAL").unwrap_or_default();
    let config = worker::Config { directory, member, process, seed, address, credential, others };
    match worker::run(config).await {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("{error}");
            worker::OTHERWISE.into()
        }
    }
}

impl Run {
    async fn all(self) -> ExitCode {
        let stores = match self.store {
            StoreArg::All => vec![Store::Embedded, Store::Redis],
            StoreArg::Embedded => vec![Store::Embedded],
            StoreArg::Redis => vec![Store::Redis],
        };
        let (mut outcomes, mut broken) = (Vec::new(), None);
        'all: for store in stores {
            let possible: Vec<_> = FAULTS.into_iter().filter(|fault| fault.is_of(store)).collect();
            let runs: Vec<(String, Vec<Fault>)> = match self.fault.as_str() {
                "all" => possible.iter().map(|fault| (fault.name.to_owned(), vec![*fault])).collect(),
                "mix" => vec![("mix".to_owned(), possible.into_iter().filter(|fault| fault.mixes).collect())],
                name => match Fault::named(name) {
                    Some(fault) if fault.is_of(store) => vec![(name.to_owned(), vec![fault])],
                    Some(_) => continue,
                    None => return fail(&format!("there is no fault \"{name}\"; `list` names them")),
                },
            };
            for (name, faults) in runs {
                match self.one(&name, &faults, store).await {
                    Ok(outcome) => {
                        outcome.print();
                        outcomes.push(outcome);
                    }
                    Err(error) => {
                        broken = Some(format!("{name} on {store:?} could not be run: {error}"));
                        break 'all;
                    }
                }
            }
        }
        table::rows(&outcomes).iter().for_each(|row| println!("{row}"));
        if let Some(file) = &self.markdown
            && let Err(error) = table::put(file, &outcomes)
        {
            return fail(&format!("{} cannot be written: {error}", file.display()));
        }
        if let Some(broken) = broken {
            return fail(&broken);
        }
        match outcomes.iter().all(|outcome| outcome.violations.is_empty()) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.minutes.map_or(self.seconds, |minutes| minutes * 60))
    }

    /// Runs one fault, or a mix of them, on one store.
    async fn one(&self, name: &str, faults: &[Fault], store: Store) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let seed = self.seed.unwrap_or_else(|| rand::rng().random_range(0..1_000_000));
        eprintln!("proof: {name} on {store:?}, --seed {seed}, {} s", self.duration().as_secs());
        let place = tempfile::Builder::new().prefix("teamwire-chaos-").tempdir().map_err(failed)?;
        let outcome = self.in_place(place.path(), name, faults, store, seed).await;
        if self.keep.is_some() || !outcome.as_ref().is_ok_and(|outcome| outcome.violations.is_empty()) {
            let kept = place.keep();
            let shown = match &self.keep {
                Some(directory) => {
                    let to = directory.join(format!("{name}-{store:?}-{seed}").to_lowercase());
                    copy(&kept, &to).map_err(failed)?;
                    fs::remove_dir_all(kept).map_err(failed)?;
                    to
                }
                None => kept,
            };
            eprintln!("proof: histories and logs are in {}", shown.display());
        }
        outcome
    }

    async fn in_place(
        &self,
        place: &Path,
        name: &str,
        faults: &[Fault],
        store: Store,
        seed: u64,
    ) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let beside = env::current_exe().map_err(failed)?.with_file_name("teamwire");
        let teamwire = self.teamwire.clone().unwrap_or(beside);
        // What mixes needs proxies, or nothing.
        let scene = if let [fault] = faults { fault.scene } else { Scene::Proxied };
        let mut stage = Stage::set(place, &teamwire, store, scene, self.members, seed).await?;
        let strikes = self.play(&mut stage, faults, seed).await?;
        let events = history::read(&stage.history()).map_err(failed)?;
        let violations = check::check(&events);
        let tried = Promise::ALL.into_iter().filter(|promise| promise.was_tried(&events)).collect();
        Ok(Outcome {
            fault: name.to_owned(),
            store,
            seed,
            seconds: self.duration().as_secs(),
            strikes,
            counts: check::count(&events),
            tried,
            violations,
        })
    }

    async fn play(&self, stage: &mut Stage, faults: &[Fault], seed: u64) -> Result<usize, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let mut random = StdRng::seed_from_u64(seed);
        let history = stage.history();
        let mut office = JoinSet::new();
        let inbox = stage.lead.with_credential(&stage.lead_credential)?;
        office.spawn(lead::read_all(inbox));
        office.spawn(lead::give_work(stage.lead.clone(), history.clone(), OFTEN));
        for (process, approve) in [(1, true), (2, false)] {
            let recorder = Recorder::open(&history, LEAD, process).map_err(failed)?;
            office.spawn(lead::decide(stage.lead.clone(), recorder, history.clone(), OFTEN, approve));
        }
        stage.look_after(true).map_err(failed)?;
        let (began, mut strikes) = (Instant::now(), 0);
        while began.elapsed() < self.duration() {
            sleep(Duration::from_millis(random.random_range(200..3_000))).await;
            let Some(fault) = faults.choose(&mut random) else { break };
            stage.note_memory().map_err(failed)?;
            fault.strike(stage, &mut random).await.map_err(failed)?;
            strikes += 1;
            stage.look_after(true).map_err(failed)?;
        }
        stage.note_memory().map_err(failed)?;
        // From here on nothing is broken: what is under way comes to its end.
        fs::write(history.join(worker::QUIET), "").map_err(failed)?;
        let note = Recorder::open(&history, LEAD, 3).map_err(failed)?;
        let names: Vec<_> = stage.members.keys().cloned().collect();
        settle(stage, &note).await?;
        for name in &names {
            stage.lead.request_shutdown(name, "That is all.").await?;
        }
        let began = Instant::now();
        while stage.members.values().any(|member| !member.processes.is_empty()) && began.elapsed() < PATIENCE {
            stage.look_after(false).map_err(failed)?;
            sleep(Duration::from_millis(50)).await;
        }
        for (name, member) in &stage.members {
            for process in member.processes.keys() {
                let detail = format!("process {process} does not end");
                Recorder::open(&history, name, *process).map_err(failed)?.note(What::Stuck { detail });
            }
        }
        office.shutdown().await;
        stock::take(&stage.lead, &note).await?;
        Ok(strikes)
    }
}

/// Waits until nothing is left in the members' inboxes, the lead's included.
async fn settle(stage: &mut Stage, note: &Recorder) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        // Whoever was killed or replaced last has its successor by now.
        stage.look_after(true).map_err(|error| Error::Context(error.to_string()))?;
        let members = stage.lead.list_members(v1::ListMembersRequest::default()).await?.members;
        let left: Vec<_> = members.iter().filter(|m| m.inbox_depth > 0 || !m.connected).collect();
        let events = history::read(&stage.history()).map_err(|error| Error::Context(error.to_string()))?;
        if left.is_empty() && history::under_way(&events) == 0 {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            for member in left {
                let detail = format!("{} has {} messages left", member.name, member.inbox_depth);
                note.note(What::Stuck { detail });
            }
            return Ok(());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

impl Outcome {
    /// Says what else was seen.
    fn besides(&self) -> String {
        let Counts { lost, damaged, refused, peak_bytes, .. } = self.counts;
        let mut seen = vec![format!("{} MiB", peak_bytes >> 20)];
        if self.tried.contains(&Promise::LossTold) {
            seen.push(format!("{lost} lost"));
        }
        if damaged > 0 {
            seen.push(format!("{damaged} files damaged, {refused} refused"));
        }
        seen.join(", ")
    }

    fn print(&self) {
        let Counts { sent, unknown, delivered, redelivered, claimed, decided, sessions, processes, .. } = self.counts;
        eprintln!(
            "proof: {} strikes; {sent} sent, {unknown} of unknown outcome, {delivered} handed out, {redelivered} of them marked \
             as again, {claimed} claims, {decided} decisions, {sessions} sessions, {processes} processes; {}",
            self.strikes,
            self.besides()
        );
        for violation in self.violations.iter().take(20) {
            eprintln!("proof: NOT KEPT: {violation}");
        }
        if self.violations.len() > 20 {
            eprintln!("proof: and {} more", self.violations.len() - 20);
        }
        // In which nothing has happened nothing is proven.
        if sent == 0 || delivered == 0 || claimed == 0 || decided == 0 {
            eprintln!("proof: this run says little: too little has happened");
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
