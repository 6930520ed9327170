//! The world: coordinators on one store, members at work, an office that the lead works in, and the network between them.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hasher as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{RngExt as _, rngs::StdRng};
use teamwire_chaos::{
    buggy_store::{Bug, BuggyStore},
    check::{self, Counts, Violation},
    history::{self, Recorder, What},
    worker,
};
use teamwire_server::{
    server::{self, Listeners},
    store::model::ModelStore,
};
use tokio_util::sync::CancellationToken;
use turmoil::Sim;

use crate::{
    chaos::Strikes,
    determinism,
    faulty_store::FaultyStore,
    lead,
    net::{self, PORT, Port},
};

/// The operator's secret.
pub(crate) const SECRET: &str = "simulated0123456789abcdef";

/// One step of the simulation. What hosts do within one is not seen by others before the next.
const STEP: Duration = Duration::from_millis(5);

/// After this everything has failed, whatever it waits for.
const END: Duration = Duration::from_secs(600);

/// How far the play is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// The team is set up.
    #[default]
    Setup,
    /// Members work, and things break.
    Broken,
    /// All is healed, and what was begun comes to its end.
    Healed,
    /// Members are asked to end.
    Ending,
    Over,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) credential: String,
    /// Its last process was dismissed, or thrown out.
    pub(crate) needs_life: bool,
    processes: u32,
}

/// A machine that processes of one member run on. Each has two, so that one process may follow another while that runs.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) host: String,
    pub(crate) member: usize,
    /// The process that runs there.
    pub(crate) process: Option<u32>,
    /// A process is to be started there.
    pub(crate) is_called: bool,
}

/// What the supervisor asks of the office.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Ask a member to end.
    Dismiss(usize),
    /// Begin a new life for a member.
    Renew(usize),
    /// End a life by force, and begin a new one.
    Force(usize),
}

/// What hosts and the supervisor share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) act: Act,
    pub(crate) members: Vec<Member>,
    pub(crate) desks: Vec<Desk>,
    pub(crate) errands: Vec<Errand>,
    /// What nothing but a fault of the simulation or a panic can explain.
    pub(crate) failures: Vec<String>,
}

/// A handle of all that hosts need.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) shared: Arc<Mutex<Shared>>,
    pub(crate) directory: Arc<Path>,
    /// The addresses of all coordinators.
    pub(crate) address: Arc<str>,
    pub(crate) seed: u64,
}

impl Stage {
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there is nothing more to play.
    fn is_over(&self) -> bool {
        let shared = self.shared();
        shared.act == Act::Over || !shared.failures.is_empty()
    }

    /// Returns whether a member has a new life before it.
    pub(crate) fn is_renewing(&self) -> bool {
        let shared = self.shared();
        !shared.errands.is_empty() || shared.members.iter().any(|member| member.needs_life)
    }

    pub(crate) fn note(&self, member: &str, process: u32, what: What) {
        match Recorder::open(&self.directory, member, process) {
            Ok(recorder) => recorder.note(what),
            Err(error) => self.shared().failures.push(format!("the history cannot be written: {error}")),
        }
    }
}

/// A coordinator.
#[derive(Debug)]
pub(crate) struct Coordinator {
    pub(crate) host: String,
    pub(crate) store: Arc<FaultyStore>,
    /// What tells it to end.
    pub(crate) shutdown: Arc<Mutex<CancellationToken>>,
}

/// What came of a play.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    pub(crate) strikes: usize,
    pub(crate) counts: Counts,
    pub(crate) violations: Vec<Violation>,
    pub(crate) failures: Vec<String>,
    /// Of all that happened and all that is stored in the end.
    pub(crate) fingerprint: u64,
}

/// Plays a seed, with a bug. The histories are written to a directory.
pub(crate) fn play(seed: u64, bug: Bug, directory: &Path) -> Outcome {
    determinism::rule(seed);
    let mut random: StdRng = rand::make_rng();
    let mut sim = turmoil::Builder::new()
        .rng_seed(random.random())
        .enable_random_order()
        .tick_duration(STEP)
        .simulation_duration(END)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(20))
        .tcp_capacity(256)
        .build();
    let model = ModelStore::new();
    let buggy_store = BuggyStore::new(Arc::clone(&model) as _, bug);

    let coordinators: Vec<_> =
        (1..=random.random_range(2..=3)).map(|n| coordinate(&mut sim, n, &buggy_store)).collect();
    let addresses: Vec<_> = coordinators.iter().map(|it| format!("http://{}:{PORT}", sim.lookup(&*it.host))).collect();
    let stage =
        Stage { shared: Arc::default(), directory: directory.into(), address: addresses.join(",").into(), seed };
    sim.host("office", {
        let stage = stage.clone();
        move || lead::run(stage.clone())
    });
    let count = random.random_range(3..=4);
    stage.shared().members = (1..=count)
        .map(|n| Member { name: format!("m{n}"), credential: String::new(), needs_life: false, processes: 0 })
        .collect();
    for (member, place) in (0..count).flat_map(|member| [(member, 'a'), (member, 'b')]) {
        let host = format!("m{}{place}", member + 1);
        let desk = stage.shared().desks.len();
        stage.shared().desks.push(Desk { host: host.clone(), member, process: None, is_called: false });
        let stage = stage.clone();
        sim.host(host, move || work(stage.clone(), desk));
    }

    // Now and then for so long that leases run out and members count as lost.
    let broken_for = if random.random_bool(0.1) { 50..100 } else { 8..20 };
    let broken_for = Duration::from_secs(random.random_range(broken_for));
    let mut strikes = Strikes::new(random, coordinators);
    let mut supervisor = Supervisor { stage: stage.clone(), starts: BTreeMap::new(), broken_for, broken_until: None };
    while !stage.is_over() {
        if let Err(error) = sim.step() {
            stage.shared().failures.push(format!("a host has failed: {error}"));
        }
        determinism::advance(sim.elapsed());
        supervisor.look(&mut sim, &mut strikes);
    }
    let took = sim.elapsed();
    let strikes = strikes.count();
    drop(sim);

    let mut fingerprint = DefaultHasher::new();
    let mut failures = std::mem::take(&mut stage.shared().failures);
    let events = history::read(directory).unwrap_or_else(|error| {
        failures.push(format!("the histories cannot be read: {error}"));
        Vec::new()
    });
    for event in &events {
        fingerprint.write(&serde_json::to_vec(event).unwrap_or_default());
    }
    fingerprint.write(format!("{model:?}").as_bytes());
    Outcome {
        took,
        strikes,
        counts: check::count(&events),
        violations: check::check(&events),
        failures,
        fingerprint: fingerprint.finish(),
    }
}

/// Puts a coordinator up.
fn coordinate(sim: &mut Sim<'_>, number: usize, store: &Arc<BuggyStore>) -> Coordinator {
    let (host, faulty) = (format!("c{number}"), FaultyStore::new(Arc::clone(store) as _));
    let shutdown = Arc::new(Mutex::new(CancellationToken::new()));
    let (reached, told) = (Arc::clone(&faulty), Arc::clone(&shutdown));
    sim.host(&*host, move || {
        let (store, token) = (Arc::clone(&reached), CancellationToken::new());
        *told.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
        async move {
            let listeners = Listeners { protocol: Port::open().await?, health: None };
            // Without its store it does not come up, and is started again.
            let _ = server::run(server::Config::new(SECRET), store, listeners, token).await;
            Ok(())
        }
    });
    Coordinator { host, store: faulty, shutdown }
}

/// Runs a process of a member at a desk, if one is to be there.
async fn work(stage: Stage, desk: usize) -> turmoil::Result {
    let (name, config) = {
        let mut shared = stage.shared();
        let Shared { desks, members, .. } = &mut *shared;
        let desk = &mut desks[desk];
        if !std::mem::take(&mut desk.is_called) {
            return Ok(());
        }
        let others = members.iter().map(|it| it.name.clone());
        let member = &members[desk.member];
        let config = worker::Config {
            directory: PathBuf::from(&*stage.directory),
            member: member.name.clone(),
            process: member.processes + 1,
            seed: stage.seed,
            address: stage.address.to_string(),
            credential: member.credential.clone(),
            others: others.filter(|other| *other != member.name).collect(),
        };
        let member = &mut members[desk.member];
        member.processes += 1;
        desk.process = Some(member.processes);
        (config.member.clone(), config)
    };
    let (process, credential) = (config.process, config.credential.clone());
    let code = match net::client(&stage.address) {
        Ok(client) => worker::run_over(client, config).await.unwrap_or(worker::OTHERWISE),
        Err(_) => worker::OTHERWISE,
    };
    stage.note(&name, process, What::Exited { code: Some(code.into()) });
    let mut shared = stage.shared();
    let Shared { desks, members, .. } = &mut *shared;
    desks[desk].process = None;
    let member = &mut members[desks[desk].member];
    // With the credential of a life that is over it gets nowhere.
    member.needs_life |= [0, worker::OTHERWISE].contains(&code) && member.credential == credential;
    Ok(())
}

/// What keeps the play going, besides the hosts.
struct Supervisor {
    stage: Stage,
    /// When which member gets a process again.
    starts: BTreeMap<usize, Duration>,
    broken_for: Duration,
    broken_until: Option<Duration>,
}

impl Supervisor {
    fn look(&mut self, sim: &mut Sim<'_>, strikes: &mut Strikes) {
        let (now, act) = (sim.elapsed(), self.stage.shared().act);
        strikes.keep_coordinators(sim, now);
        match act {
            Act::Setup | Act::Over => {}
            Act::Broken => {
                if now >= *self.broken_until.get_or_insert(now + self.broken_for) {
                    strikes.heal(sim);
                    let mut shared = self.stage.shared();
                    shared.act = Act::Healed;
                    shared.errands.retain(|errand| matches!(errand, Errand::Renew(_) | Errand::Force(_)));
                } else {
                    strikes.go_on(sim, &self.stage, now);
                }
                self.keep_members(sim, strikes, now);
            }
            Act::Healed => self.keep_members(sim, strikes, now),
            Act::Ending => {}
        }
    }

    /// Starts a process of each member that has none, a little later, and asks for a new life where that is needed.
    fn keep_members(&mut self, sim: &mut Sim<'_>, strikes: &mut Strikes, now: Duration) {
        let count = self.stage.shared().members.len();
        for member in 0..count {
            if let Some(host) = self.call(strikes, member, now) {
                sim.bounce(&*host);
            }
        }
    }

    /// Returns where a process of a member is to be started now.
    fn call(&mut self, strikes: &mut Strikes, member: usize, now: Duration) -> Option<String> {
        let shared = &mut *self.stage.shared();
        let mut desks = shared.desks.iter().filter(|desk| desk.member == member);
        if desks.any(|desk| desk.process.is_some() || desk.is_called) {
            self.starts.remove(&member);
            return None;
        }
        let lives = [Errand::Renew(member), Errand::Force(member)];
        let mut waits = lives.iter().any(|errand| shared.errands.contains(errand));
        if shared.members[member].needs_life && !waits {
            shared.errands.push(Errand::Renew(member));
            waits = true;
        }
        if waits {
            return None;
        }
        if now < *self.starts.entry(member).or_insert_with(|| now + strikes.pause(50..1_500)) {
            return None;
        }
        self.starts.remove(&member);
        let mut desks = shared.desks.iter_mut().filter(|desk| desk.member == member);
        let desk = desks.nth(usize::from(strikes.toss()))?;
        desk.is_called = true;
        Some(desk.host.clone())
    }
}
