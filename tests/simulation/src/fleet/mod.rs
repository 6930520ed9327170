//! A lead orders members from many hosts, while hosts are killed, cut off, lost and added.
//!
//! Each [`machine`] runs a host program and the processes that it has started, which outlive the program and die with
//! the machine. The [`lead`] orders, and watches what the coordinators show. [`check`] examines what happened.

mod check;
mod lead;
mod machine;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt as _, rngs::StdRng};
use teamwire_chaos::buggy_store::{Bug, BuggyStore};
use teamwire_server::store::model::ModelStore;
use turmoil::Sim;

use crate::{
    chaos::repair_link,
    determinism,
    net::PORT,
    world::{Coordinator, simulation, start_coordinator},
};

/// How many hosts there are at the start, and how many are added later.
const MACHINES: usize = 20;
const ADDED: usize = 4;

/// How many orders are placed.
const ORDERS: usize = 200;

/// How long a start may take.
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Setup,
    /// Orders are placed while faults happen.
    Broken,
    /// Everything is repaired, and the last orders are decided.
    Healed,
    Over,
}

/// What a host program remembers of a process that it has started, on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Runs,
    Ended,
    Reported,
}

/// A machine that runs a host.
#[derive(Debug)]
struct Machine {
    host: String,
    slots: u32,
    /// The host's credential. Empty if it has not joined yet.
    credential: String,
    /// Kills the host program, and not what it has started.
    kill_program: bool,
    /// By order.
    runners: BTreeMap<String, Runner>,
}

/// A process that has joined.
#[derive(Clone, Debug, Default)]
struct Process {
    order: String,
    name: String,
    incarnation: u64,
    /// When its first call under its own credential returned, and when the last one that succeeded began. Zero if
    /// none did.
    first_done_us: u64,
    last_begun_us: u64,
    /// The prompts that it was given.
    prompts: Vec<String>,
}

/// What the simulated hosts and the supervisor share.
#[derive(Debug, Default)]
struct FleetState {
    phase: Phase,
    machines: Vec<Machine>,
    processes: Vec<Process>,
    /// How each order ended, by id, and its prompt.
    orders: BTreeMap<String, (String, Option<teamwire_client::v1::RequestState>)>,
    broken: Vec<String>,
}

#[derive(Clone, Debug)]
struct Play {
    shared: Arc<Mutex<FleetState>>,
    address: Arc<str>,
}

impl Play {
    fn shared(&self) -> MutexGuard<'_, FleetState> {
        self.shared.lock()
    }

    fn phase(&self) -> Phase {
        self.shared().phase
    }

    /// Records a broken promise, once.
    fn broken(&self, what: String) {
        let mut shared = self.shared();
        if !shared.broken.contains(&what) {
            shared.broken.push(what);
        }
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    pub(crate) faults: usize,
    /// What happened, for a reader.
    pub(crate) summary: String,
    pub(crate) broken: Vec<String>,
    pub(crate) fingerprint: u64,
}

/// Runs a seed.
pub(crate) fn run(seed: u64, bug: Bug) -> Outcome {
    determinism::install(seed);
    let mut random: StdRng = rand::make_rng();
    let mut sim = simulation(&mut random);
    let model = ModelStore::new();
    let store = BuggyStore::new(Arc::clone(&model) as _, bug);
    let coordinators: Vec<_> = (1..=2).map(|n| start_coordinator(&mut sim, n, &store)).collect();
    let addresses: Vec<_> = coordinators.iter().map(|it| format!("http://{}:{PORT}", sim.lookup(&*it.host))).collect();
    let play = Play { shared: Arc::default(), address: addresses.join(",").into() };
    for at in 0..MACHINES + ADDED {
        let (host, slots) = (format!("h{}", at + 1), random.random_range(2..=4));
        let machine = Machine {
            host: host.clone(),
            slots,
            credential: String::new(),
            kill_program: false,
            runners: BTreeMap::new(),
        };
        play.shared().machines.push(machine);
        let play = play.clone();
        sim.host(host, move || machine::run(play.clone(), at));
    }
    sim.host("lead", {
        let play = play.clone();
        move || lead::run(play.clone())
    });
    let mut chaos = Chaos { random, coordinators, next: Duration::ZERO, repairs: Vec::new(), count: 0 };
    while play.phase() != Phase::Over && play.shared().broken.is_empty() {
        if let Err(error) = sim.step() {
            play.broken(format!("a host failed: {error}"));
        }
        determinism::advance(sim.elapsed());
        chaos.step(&mut sim, &play);
    }
    let took = sim.elapsed();
    drop(sim);
    let mut shared = play.shared();
    check::check(&mut shared);
    let mut fingerprint = DefaultHasher::new();
    fingerprint.write(format!("{shared:?}{model:?}").as_bytes());
    Outcome {
        took,
        faults: chaos.count,
        summary: check::summary(&shared),
        broken: std::mem::take(&mut shared.broken),
        fingerprint: fingerprint.finish(),
    }
}

#[derive(Clone, Debug)]
enum Repair {
    /// Connects a machine again.
    Connect(String),
    /// Starts a machine or a coordinator again.
    Start(String),
}

/// Injects faults.
struct Chaos {
    random: StdRng,
    coordinators: Vec<Coordinator>,
    next: Duration,
    repairs: Vec<(Duration, Repair)>,
    count: usize,
}

impl Chaos {
    fn step(&mut self, sim: &mut Sim<'_>, play: &Play) {
        let (now, is_broken) = (sim.elapsed(), play.phase() == Phase::Broken);
        let (due, rest) = std::mem::take(&mut self.repairs).into_iter().partition(|(at, _)| *at <= now || !is_broken);
        self.repairs = rest;
        let due: Vec<(Duration, Repair)> = due;
        for (_, repair) in due {
            match repair {
                Repair::Connect(host) => {
                    self.coordinators.iter().for_each(|coordinator| repair_link(sim, &coordinator.host, &host));
                }
                Repair::Start(host) => sim.bounce(&*host),
            }
        }
        if is_broken && self.next <= now {
            self.next = now + self.pause(100..1_500);
            self.count += 1;
            self.inject(sim, play, now);
        }
    }

    fn pause(&mut self, ms: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(ms))
    }

    fn inject(&mut self, sim: &mut Sim<'_>, play: &Play, now: Duration) {
        let machine = self.random.random_range(0..play.shared().machines.len());
        let host = play.shared().machines[machine].host.clone();
        match self.random.random_range(0..10) {
            0..4 => play.shared().machines[machine].kill_program = true,
            4..6 if sim.is_host_running(&*host) => {
                sim.crash(&*host);
                let until = now + self.pause(500..30_000);
                self.repairs.push((until, Repair::Start(host)));
            }
            6..9 => {
                // Shorter than a lease: a member that counts as lost and comes back may use a slot beyond those of its
                // host.
                let until = now + self.pause(200..15_000);
                self.coordinators.iter().for_each(|coordinator| sim.partition(&*coordinator.host, &*host));
                self.repairs.push((until, Repair::Connect(host)));
            }
            _ => {
                let coordinator = self.random.random_range(0..self.coordinators.len());
                let host = self.coordinators[coordinator].host.clone();
                if sim.is_host_running(&*host) {
                    sim.crash(&*host);
                    let until = now + self.pause(100..3_000);
                    self.repairs.push((until, Repair::Start(host)));
                }
            }
        }
    }
}
