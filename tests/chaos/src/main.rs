//! Injects faults into a running teamwire and reports which promises it kept.

mod report;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_chaos::{
    check::{self, Counts, Latencies, PROMISES, Promise, Violation, porcupine},
    cluster::{Cluster, ClusterSpec, Store},
    faults::{FAULTS, Fault, Mix},
    final_state,
    history::{self, Event, Recorder, What},
    lead::{self, LEAD},
    member, ordered, orders,
};
use teamwire_client::{Client, Error, v1};
use tokio::{task::JoinSet, time::sleep};

/// The longest all work may take to finish once every fault is healed.
const PATIENCE: Duration = Duration::from_secs(90);

/// By how much the time before an attack by hostile members is shorter than the attack.
const CALM: u32 = 4;

/// The interval at which the lead adds tasks and answers plans.
const OFTEN: Duration = Duration::from_millis(100);

/// Inject faults into a running teamwire and report which promises it kept
///
/// Starts a store, coordinators and a team of members: processes that send, acknowledge, claim and plan at random.
/// Injects faults one after the other, heals everything, shuts all members down, and checks what they recorded. Prints
/// a table of faults and promises. Exits with 1 if a promise was broken, or if too little happened to break one.
#[derive(Parser, Debug)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Inject faults and check
    Run(Run),
    /// Check kept histories again
    Check {
        /// The directory of the histories
        directory: PathBuf,
    },
    /// List the faults
    List,
    /// Run as a member; started by `run`
    #[command(hide = true)]
    Member(MemberArgs),
    /// Run as the program of an ordered member; started by its runner
    #[command(hide = true)]
    Ordered { directory: PathBuf },
    /// Order a member as the lead; started by `run`
    #[command(hide = true)]
    Order { directory: PathBuf, op: u64, member: String, address: String },
}

#[derive(Args, Debug)]
struct Run {
    /// The fault: a name from `list`, `mix` (a random one each time), `mix-hosts` (the same while members are ordered
    /// from hosts), `failures` (each that no one causes on purpose, in its own run), `hostile` (each of the others), or
    /// `all`
    #[arg(long, default_value = "mix")]
    fault: String,
    /// How long each run injects faults, in seconds
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u64,
    /// The same, in minutes
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// The seed of all random choices. Every run prints its seed [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The store
    #[arg(long, value_enum, default_value = "all")]
    store: StoreArg,
    /// The number of members
    #[arg(long, default_value_t = 4, value_name = "N")]
    members: usize,
    /// The teamwire binary to test [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    teamwire: Option<PathBuf>,
    /// Keep the histories and logs of every run in this directory [default: keep only those of failed runs]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Update the tables of this Markdown file with the outcome of each fault
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
struct MemberArgs {
    directory: PathBuf,
    member: String,
    process: u32,
    seed: u64,
    address: String,
    others: Vec<String>,
}

/// The outcome of one run.
struct Outcome {
    fault: String,
    store: Store,
    seed: u64,
    seconds: u64,
    injections: usize,
    counts: Counts,
    latencies: Option<Latencies>,
    tried: Vec<Promise>,
    violations: Vec<Violation>,
    /// What never happened, although the run proves nothing without it.
    missing: Vec<&'static str>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().command {
        Command::List => {
            for fault in FAULTS {
                let mix = match fault.mix {
                    Some(Mix::General) => "",
                    Some(Mix::Hosts) => " (in mix-hosts)",
                    None => " (in no mix)",
                };
                println!("{:30} {}{mix}", fault.name, fault.what);
            }
            ExitCode::SUCCESS
        }
        Command::Check { directory } => {
            match history::read(&directory).and_then(|events| Ok((judge(&directory, &events)?, events))) {
                Ok((violations, events)) => {
                    println!("{:?}, {:?}", check::count(&events), check::latencies(&events));
                    violations.iter().for_each(|violation| println!("{violation}"));
                    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
                }
                Err(error) => fail(&format!("the histories cannot be read: {error}")),
            }
        }
        Command::Member(args) => run_member(args).await,
        Command::Ordered { directory } => ended(ordered::run(&directory).await),
        Command::Order { directory, op, member, address } => ended(order(&directory, op, &member, &address).await),
        // Dropping the run ends and unmounts everything it started.
        Command::Run(run) => tokio::select! {
            code = run.all() => code,
            _ = tokio::signal::ctrl_c() => fail("interrupted"),
        },
    }
}

fn fail(what: &str) -> ExitCode {
    eprintln!("chaos: {what}");
    ExitCode::FAILURE
}

fn ended(outcome: Result<(), Error>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

async fn order(directory: &Path, op: u64, member: &str, address: &str) -> Result<(), Error> {
    let failed = |error: io::Error| Error::Context(error.to_string());
    let lead = Client::connect(address)?.with_credential(&env::var("TEAMWIRE_CREDENTIAL").unwrap_or_default())?;
    let recorder = Recorder::open(directory, LEAD, std::process::id()).map_err(failed)?;
    orders::give_one(&lead, &recorder, op, member, 10).await;
    Ok(())
}

/// Returns the faults of a mix.
fn mix(possible: &[Fault], mix: Mix) -> Vec<Fault> {
    possible.iter().filter(|fault| fault.mix == Some(mix)).copied().collect()
}

async fn run_member(args: MemberArgs) -> ExitCode {
    let MemberArgs { directory, member, process, seed, address, others } = args;
    let credential = env::var("TEAMWIRE_CREDENTIAL").unwrap_or_default();
    let config = member::Config { directory, member, process, seed, address, credential, others };
    match member::run(config).await {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("{error}");
            member::OTHERWISE.into()
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
            let possible: Vec<_> = FAULTS.into_iter().filter(|fault| fault.applies_to(store)).collect();
            let runs: Vec<(String, Vec<Fault>)> = match self.fault.as_str() {
                group @ ("all" | "failures" | "hostile") => possible
                    .iter()
                    .filter(|fault| group == "all" || (group == "hostile") == fault.name.starts_with("hostile-"))
                    .map(|fault| (fault.name.to_owned(), vec![*fault]))
                    .collect(),
                "mix" => vec![("mix".to_owned(), mix(&possible, Mix::General))],
                "mix-hosts" => vec![("mix-hosts".to_owned(), mix(&possible, Mix::Hosts))],
                name => match Fault::named(name) {
                    Some(fault) if fault.applies_to(store) => vec![(name.to_owned(), vec![fault])],
                    Some(_) => continue,
                    None => return fail(&format!("there is no fault \"{name}\"; `list` names them")),
                },
            };
            for (name, faults) in runs {
                match self.run_one(&name, &faults, store).await {
                    Ok(outcome) => {
                        outcome.print();
                        outcomes.push(outcome);
                    }
                    Err(error) => {
                        broken = Some(format!("{name} on {store:?} did not finish: {error}"));
                        break 'all;
                    }
                }
            }
        }
        report::rows(&outcomes).iter().for_each(|row| println!("{row}"));
        if let Some(file) = &self.markdown
            && let Err(error) = report::update(file, &outcomes)
        {
            return fail(&format!("{} cannot be written: {error}", file.display()));
        }
        if let Some(broken) = broken {
            return fail(&broken);
        }
        match outcomes.iter().all(Outcome::has_passed) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.minutes.map_or(self.seconds, |minutes| minutes * 60))
    }

    /// Runs one fault, or a mix of them, on one store.
    async fn run_one(&self, name: &str, faults: &[Fault], store: Store) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let seed = self.seed.unwrap_or_else(|| rand::rng().random_range(0..1_000_000));
        eprintln!("chaos: {name} on {store:?}, --seed {seed}, {} s", self.duration().as_secs());
        let directory = tempfile::Builder::new().prefix("teamwire-chaos-").tempdir().map_err(failed)?;
        let outcome = self.run_in(directory.path(), name, faults, store, seed).await;
        if self.keep.is_some() || !outcome.as_ref().is_ok_and(Outcome::has_passed) {
            let kept = directory.keep();
            let shown = match &self.keep {
                Some(directory) => {
                    let to = directory.join(format!("{name}-{store:?}-{seed}").to_lowercase());
                    copy(&kept, &to).map_err(failed)?;
                    fs::remove_dir_all(kept).map_err(failed)?;
                    to
                }
                None => kept,
            };
            eprintln!("chaos: histories and logs are in {}", shown.display());
        }
        outcome
    }

    async fn run_in(
        &self,
        directory: &Path,
        name: &str,
        faults: &[Fault],
        store: Store,
        seed: u64,
    ) -> Result<Outcome, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let beside = env::current_exe().map_err(failed)?.with_file_name("teamwire");
        let teamwire = self.teamwire.clone().unwrap_or(beside);
        let spec = match faults {
            [fault] => fault.spec,
            [Fault { mix: Some(Mix::Hosts), spec, .. }, ..] => *spec,
            // The others that mix need proxies or nothing.
            _ => ClusterSpec::Proxied,
        };
        let mut cluster = Cluster::start_all(directory, &teamwire, store, spec, self.members, seed).await?;
        let injections = self.inject(&mut cluster, faults, seed).await?;
        let events = history::read(&cluster.history()).map_err(failed)?;
        let violations = judge(&cluster.history(), &events).map_err(failed)?;
        let tried = PROMISES.iter().map(|spec| spec.promise).filter(|promise| promise.was_tried(&events)).collect();
        let counts = check::count(&events);
        let mut missing = counts.missing(matches!(spec, ClusterSpec::Hosts { .. }));
        if injections == 0 {
            missing.push("fault");
        }
        Ok(Outcome {
            fault: name.to_owned(),
            store,
            seed,
            seconds: self.duration().as_secs(),
            injections,
            counts,
            latencies: check::latencies(&events),
            tried,
            violations,
            missing,
        })
    }

    async fn inject(&self, cluster: &mut Cluster, faults: &[Fault], seed: u64) -> Result<usize, Error> {
        let failed = |error: io::Error| Error::Context(error.to_string());
        let mut random = StdRng::seed_from_u64(seed);
        let history = cluster.history();
        let mut lead_tasks = JoinSet::new();
        let inbox = cluster.lead.with_credential(&cluster.lead_credential)?;
        lead_tasks.spawn(lead::read_all(inbox));
        lead_tasks.spawn(lead::give_work(cluster.lead.clone(), history.clone(), OFTEN));
        for (process, approve) in [(1, true), (2, false)] {
            let recorder = Recorder::open(&history, LEAD, process).map_err(failed)?;
            lead_tasks.spawn(lead::decide(cluster.lead.clone(), recorder, history.clone(), OFTEN, approve));
        }
        let mut giving = JoinSet::new();
        if cluster.hosts.is_some() {
            let recorder = |process| Recorder::open(&history, LEAD, process).map_err(failed);
            giving.spawn(orders::give(cluster.lead.clone(), recorder(4)?, history.clone(), seed));
            lead_tasks.spawn(orders::watch(cluster.lead.clone(), recorder(5)?));
        }
        cluster.reap(true).map_err(failed)?;
        if let [Fault { spec: ClusterSpec::Hostile { .. }, .. }] = faults {
            // Shows how long sends take without an attack.
            sleep(self.duration() / CALM).await;
        }
        let (began, mut injections) = (Instant::now(), 0);
        while let Some(left) = self.duration().checked_sub(began.elapsed()) {
            sleep(Duration::from_millis(random.random_range(200..3_000))).await;
            let Some(fault) = faults.choose(&mut random) else { break };
            cluster.note_memory().map_err(failed)?;
            fault.inject(cluster, left, &mut random).await.map_err(failed)?;
            injections += 1;
            cluster.reap(true).map_err(failed)?;
        }
        cluster.note_memory().map_err(failed)?;
        // From here on everything is healed: calls in flight finish.
        fs::write(history.join(member::QUIET), "").map_err(failed)?;
        let note = Recorder::open(&history, LEAD, 3).map_err(failed)?;
        let names: Vec<_> = cluster.members.keys().cloned().collect();
        settle(cluster, &note).await?;
        if let Some(hosts) = &mut cluster.hosts {
            giving.join_all().await;
            orders::settle(&cluster.lead, &note).await?;
            for detail in hosts.clear(PATIENCE).await.map_err(failed)? {
                note.note(What::FinalLeft { detail });
            }
        }
        for name in &names {
            cluster.lead.request_shutdown(name, "That is all.").await?;
        }
        let began = Instant::now();
        while cluster.members.values().any(|member| !member.processes.is_empty()) && began.elapsed() < PATIENCE {
            cluster.reap(false).map_err(failed)?;
            sleep(Duration::from_millis(50)).await;
        }
        for (name, member) in &cluster.members {
            for process in member.processes.keys() {
                let detail = format!("process {process} does not exit");
                Recorder::open(&history, name, *process).map_err(failed)?.note(What::Stuck { detail });
            }
        }
        lead_tasks.shutdown().await;
        final_state::record(&cluster.lead, &note).await?;
        Ok(injections)
    }
}

/// Waits until every inbox is empty and every call has its outcome.
async fn settle(cluster: &mut Cluster, note: &Recorder) -> Result<(), Error> {
    let began = Instant::now();
    loop {
        // Restart members that were killed last.
        cluster.reap(true).map_err(|error| Error::Context(error.to_string()))?;
        let members = cluster.lead.list_all_members(v1::ListMembersRequest::default(), usize::MAX).await?.members;
        let own = members.iter().filter(|m| m.spawned_on.is_empty());
        let left: Vec<_> = own.filter(|m| m.inbox_depth > 0 || !m.connected).collect();
        let events = history::read(&cluster.history()).map_err(|error| Error::Context(error.to_string()))?;
        if left.is_empty() && history::in_flight(&events) == 0 {
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
    /// Returns whether every promise was kept, in a run that could have broken them.
    fn has_passed(&self) -> bool {
        self.violations.is_empty() && self.missing.is_empty()
    }

    /// Returns further observations for the table.
    fn also_seen(&self) -> String {
        let Counts { ordered, began, lost, damaged, refused, peak_bytes, .. } = self.counts;
        let mut seen = vec![format!("{} MiB", peak_bytes >> 20)];
        if let Some(Latencies { before, during }) = self.latencies {
            let ms = |us: u64| us as f64 / 1e3;
            let change = |before_us, us| format!("{:.1}, then {:.1} ms", ms(before_us), ms(us));
            let [p50, p99] = [change(before.p50_us, during.p50_us), change(before.p99_us, during.p99_us)];
            seen.push(format!("sends took {p50}; p99 {p99}"));
        }
        if ordered > 0 {
            seen.push(format!("{ordered} orders, {began} of them started"));
        }
        if self.tried.contains(&Promise::LossReported) {
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
            "chaos: {} faults; {sent} sent, {unknown} of unknown outcome, {delivered} delivered, {redelivered} of them marked \
             as redelivered, {claimed} claims, {decided} decisions, {sessions} sessions, {processes} processes; {}",
            self.injections,
            self.also_seen()
        );
        for violation in self.violations.iter().take(20) {
            eprintln!("chaos: BROKEN: {violation}");
        }
        if self.violations.len() > 20 {
            eprintln!("chaos: and {} more", self.violations.len() - 20);
        }
        if !self.missing.is_empty() {
            eprintln!("chaos: FAILED: this run proves nothing, because it had no {}", self.missing.join(", no "));
        }
    }
}

/// Returns what the checkers and Porcupine find in a history.
fn judge(directory: &Path, events: &[Event]) -> io::Result<Vec<Violation>> {
    let mut violations = check::check(events);
    if let Some((found, summary)) = porcupine::judge(directory)? {
        eprintln!("chaos: {summary}");
        violations.extend(found);
    }
    Ok(violations)
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
