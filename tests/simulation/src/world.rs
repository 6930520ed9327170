//! The simulated world: coordinators on one store, members, their lead, and the network between them.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt as _, rngs::StdRng};
use teamwire_chaos::{
    buggy_store::{Bug, BuggyStore},
    check::{self, Counts, Violation},
    history::{self, Recorder, What},
    member,
};
use teamwire_server::{
    server::{self, Listeners},
    store::model::ModelStore,
};
use tokio_util::sync::CancellationToken;
use turmoil::Sim;

use crate::{
    chaos::Chaos,
    determinism,
    faulty_store::FaultyStore,
    lead,
    net::{self, PORT, Port},
};

/// The operator's secret.
pub(crate) const SECRET: &str = "simulated0123456789abcdef";

/// One step of the simulation. Hosts see each other's actions in the next step.
const STEP: Duration = Duration::from_millis(5);

/// The simulated time after which a run has failed.
const END: Duration = Duration::from_secs(600);

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The lead creates the team.
    #[default]
    Setup,
    /// Members work while faults happen.
    Broken,
    /// Everything is repaired, and calls in flight finish.
    Healed,
    /// Members are asked to shut down.
    Ending,
    Over,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) credential: String,
    /// Its last process was shut down or rejected.
    pub(crate) needs_new_life: bool,
    processes: u32,
}

/// A machine for one member's processes. Each member has two, so that a second process can supersede the first.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) member: usize,
    /// The process that runs on it.
    pub(crate) process: Option<u32>,
    /// Whether its next boot starts a process.
    pub(crate) should_start: bool,
}

/// The supervisor's command to the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Ask a member to shut down.
    Dismiss(usize),
    /// Begin a new life for a member.
    Renew(usize),
    /// Force-stop a member and begin a new life.
    Force(usize),
}

/// The state that hosts and the supervisor share.
#[derive(Debug, Default)]
pub(crate) struct WorldState {
    pub(crate) phase: Phase,
    pub(crate) members: Vec<Member>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) commands: Vec<Command>,
    /// Failures of the simulation itself, and panics.
    pub(crate) failures: Vec<String>,
}

/// A handle to everything that hosts need.
#[derive(Clone, Debug)]
pub(crate) struct Play {
    pub(crate) shared: Arc<Mutex<WorldState>>,
    pub(crate) directory: Arc<Path>,
    /// The addresses of all coordinators.
    pub(crate) address: Arc<str>,
    pub(crate) seed: u64,
}

impl Play {
    pub(crate) fn shared(&self) -> MutexGuard<'_, WorldState> {
        self.shared.lock()
    }

    /// Returns whether the run is over.
    fn is_over(&self) -> bool {
        let shared = self.shared();
        shared.phase == Phase::Over || !shared.failures.is_empty()
    }

    /// Returns whether any member is about to begin a new life.
    pub(crate) fn is_renewing(&self) -> bool {
        let shared = self.shared();
        !shared.commands.is_empty() || shared.members.iter().any(|member| member.needs_new_life)
    }

    pub(crate) fn note(&self, member: &str, process: u32, what: What) {
        match Recorder::open(&self.directory, member, process) {
            Ok(recorder) => recorder.note(what),
            Err(error) => self.shared().failures.push(format!("cannot write the history: {error}")),
        }
    }
}

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) host: String,
    pub(crate) store: Arc<FaultyStore>,
    /// Cancelling it drains the coordinator.
    pub(crate) shutdown: Arc<Mutex<CancellationToken>>,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    pub(crate) faults: usize,
    pub(crate) counts: Counts,
    pub(crate) violations: Vec<Violation>,
    pub(crate) failures: Vec<String>,
    /// A hash of all events and of the final content of the store.
    pub(crate) fingerprint: u64,
}

/// Runs a seed, with a bug, and writes the histories to a directory.
pub(crate) fn run(seed: u64, bug: Bug, directory: &Path) -> Outcome {
    determinism::install(seed);
    let mut random: StdRng = rand::make_rng();
    let mut sim = simulation(&mut random);
    let model = ModelStore::new();
    let buggy_store = BuggyStore::new(Arc::clone(&model) as _, bug);

    let coordinators: Vec<_> =
        (1..=random.random_range(2..=3)).map(|n| start_coordinator(&mut sim, n, &buggy_store)).collect();
    let addresses: Vec<_> = coordinators.iter().map(|it| format!("http://{}:{PORT}", sim.lookup(&*it.host))).collect();
    let play = Play { shared: Arc::default(), directory: directory.into(), address: addresses.join(",").into(), seed };
    sim.host("lead", {
        let play = play.clone();
        move || lead::run(play.clone())
    });
    let count = random.random_range(3..=4);
    play.shared().members = (1..=count)
        .map(|n| Member { name: format!("m{n}"), credential: String::new(), needs_new_life: false, processes: 0 })
        .collect();
    for (member, place) in (0..count).flat_map(|member| [(member, 'a'), (member, 'b')]) {
        let host = format!("m{}{place}", member + 1);
        let machine = play.shared().machines.len();
        play.shared().machines.push(Machine { host: host.clone(), member, process: None, should_start: false });
        let play = play.clone();
        sim.host(host, move || work(play.clone(), machine));
    }

    // Sometimes long enough for leases to expire and members to become lost.
    let broken_for = if random.random_bool(0.1) { 50..100 } else { 8..20 };
    let broken_for = Duration::from_secs(random.random_range(broken_for));
    let mut chaos = Chaos::new(random, coordinators);
    let mut supervisor = Supervisor { play: play.clone(), starts: BTreeMap::new(), broken_for, broken_until: None };
    while !play.is_over() {
        if let Err(error) = sim.step() {
            play.shared().failures.push(format!("a host failed: {error}"));
        }
        determinism::advance(sim.elapsed());
        supervisor.step(&mut sim, &mut chaos);
    }
    let took = sim.elapsed();
    let faults = chaos.count();
    drop(sim);

    let mut fingerprint = DefaultHasher::new();
    let mut failures = std::mem::take(&mut play.shared().failures);
    let events = history::read(directory).unwrap_or_else(|error| {
        failures.push(format!("cannot read the histories: {error}"));
        Vec::new()
    });
    for event in &events {
        fingerprint.write(&serde_json::to_vec(event).unwrap_or_default());
    }
    fingerprint.write(format!("{model:?}").as_bytes());
    Outcome {
        took,
        faults,
        counts: check::count(&events),
        violations: check::check(&events),
        failures,
        fingerprint: fingerprint.finish(),
    }
}

/// Makes a simulation without hosts.
pub(crate) fn simulation<'s>(random: &mut StdRng) -> Sim<'s> {
    turmoil::Builder::new()
        .rng_seed(random.random())
        .enable_random_order()
        .tick_duration(STEP)
        .simulation_duration(END)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(20))
        .tcp_capacity(256)
        .build()
}

/// Adds a coordinator's host.
pub(crate) fn start_coordinator(sim: &mut Sim<'_>, number: usize, store: &Arc<BuggyStore>) -> Coordinator {
    let (host, faulty) = (format!("c{number}"), FaultyStore::new(Arc::clone(store) as _));
    let shutdown = Arc::new(Mutex::new(CancellationToken::new()));
    let (to_store, told) = (Arc::clone(&faulty), Arc::clone(&shutdown));
    sim.host(&*host, move || {
        let (store, token) = (Arc::clone(&to_store), CancellationToken::new());
        *told.lock() = token.clone();
        async move {
            let listeners = Listeners { protocol: Port::open().await?, health: None };
            // Without its store it exits, and is restarted.
            let _ = server::run(server::Config::new(SECRET), store, listeners, token).await;
            Ok(())
        }
    });
    Coordinator { host, store: faulty, shutdown }
}

/// Runs a member's process on a machine, if one should start.
async fn work(play: Play, machine: usize) -> turmoil::Result {
    let (name, config) = {
        let mut shared = play.shared();
        let WorldState { machines, members, .. } = &mut *shared;
        let machine = &mut machines[machine];
        if !std::mem::take(&mut machine.should_start) {
            return Ok(());
        }
        let others = members.iter().map(|it| it.name.clone());
        let member = &members[machine.member];
        let config = member::Config {
            directory: PathBuf::from(&*play.directory),
            member: member.name.clone(),
            process: member.processes + 1,
            seed: play.seed,
            address: play.address.to_string(),
            credential: member.credential.clone(),
            others: others.filter(|other| *other != member.name).collect(),
        };
        let member = &mut members[machine.member];
        member.processes += 1;
        machine.process = Some(member.processes);
        (config.member.clone(), config)
    };
    let (process, credential) = (config.process, config.credential.clone());
    let code = match net::client(&play.address) {
        Ok(client) => member::run_over(client, config).await.unwrap_or(member::OTHERWISE),
        Err(_) => member::OTHERWISE,
    };
    play.note(&name, process, What::Exited { code: Some(code.into()) });
    let mut shared = play.shared();
    let WorldState { machines, members, .. } = &mut *shared;
    machines[machine].process = None;
    let member = &mut members[machines[machine].member];
    // The credential of an ended life is useless.
    member.needs_new_life |= [0, member::OTHERWISE].contains(&code) && member.credential == credential;
    Ok(())
}

/// Injects faults and starts processes, from outside the hosts.
struct Supervisor {
    play: Play,
    /// When to start each member's next process.
    starts: BTreeMap<usize, Duration>,
    broken_for: Duration,
    broken_until: Option<Duration>,
}

impl Supervisor {
    fn step(&mut self, sim: &mut Sim<'_>, chaos: &mut Chaos) {
        let (now, phase) = (sim.elapsed(), self.play.shared().phase);
        chaos.restart_coordinators(sim, now);
        match phase {
            Phase::Setup | Phase::Over => {}
            Phase::Broken => {
                if now >= *self.broken_until.get_or_insert(now + self.broken_for) {
                    chaos.heal(sim);
                    let mut shared = self.play.shared();
                    shared.phase = Phase::Healed;
                    shared.commands.retain(|command| matches!(command, Command::Renew(_) | Command::Force(_)));
                } else {
                    chaos.advance(sim, &self.play, now);
                }
                self.restart_members(sim, chaos, now);
            }
            Phase::Healed => self.restart_members(sim, chaos, now),
            Phase::Ending => {}
        }
    }

    /// Starts a process for each member without one, after a short while, and requests new lives where needed.
    fn restart_members(&mut self, sim: &mut Sim<'_>, chaos: &mut Chaos, now: Duration) {
        let count = self.play.shared().members.len();
        for member in 0..count {
            if let Some(host) = self.machine_to_boot(chaos, member, now) {
                sim.bounce(&*host);
            }
        }
    }

    /// Returns the machine to boot for a member's next process, if it is time.
    fn machine_to_boot(&mut self, chaos: &mut Chaos, member: usize, now: Duration) -> Option<String> {
        let shared = &mut *self.play.shared();
        let mut machines = shared.machines.iter().filter(|machine| machine.member == member);
        if machines.any(|machine| machine.process.is_some() || machine.should_start) {
            self.starts.remove(&member);
            return None;
        }
        let lives = [Command::Renew(member), Command::Force(member)];
        let mut waits = lives.iter().any(|command| shared.commands.contains(command));
        if shared.members[member].needs_new_life && !waits {
            shared.commands.push(Command::Renew(member));
            waits = true;
        }
        if waits {
            return None;
        }
        if now < *self.starts.entry(member).or_insert_with(|| now + chaos.pause(50..1_500)) {
            return None;
        }
        self.starts.remove(&member);
        let mut machines = shared.machines.iter_mut().filter(|machine| machine.member == member);
        let machine = machines.nth(usize::from(chaos.coin_flip()))?;
        machine.should_start = true;
        Some(machine.host.clone())
    }
}
