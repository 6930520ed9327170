//! What is broken, when, and for how long.

use std::{ops::Range, sync::PoisonError, time::Duration};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_chaos::history::What;
use turmoil::Sim;

use crate::{
    faulty_store::StoreFaults,
    world::{Coordinator, Errand, Stage},
};

/// How long a message takes at most on a link with which nothing is wrong.
const LATENCY_MAX: Duration = Duration::from_millis(20);

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Strike {
    /// A link loses everything, without a word.
    Cut,
    /// A link loses everything in one direction.
    CutOneWay,
    /// A link keeps everything back, and brings it later.
    Hold,
    /// A link is slow.
    Slow,
    /// A link loses something now and then, and with it the connection.
    Lossy,
    /// Nobody reaches a coordinator.
    Isolate,
    /// A coordinator's process is killed.
    Kill,
    /// A coordinator's machine loses power: nobody is told that its connections have ended.
    PowerLoss,
    /// A coordinator is asked to end.
    Drain,
    /// A member's process is killed.
    KillMember,
    /// A member's machine loses power.
    PowerLossOfMember,
    /// A member's process gets a successor while it runs.
    Succeed,
    /// A member's process is asked to end; a new life follows.
    Dismiss,
    /// A member's life is replaced by a new one.
    Renew,
    /// A member's life is ended by force.
    Force,
    /// A coordinator does not reach the store.
    StoreAway,
    /// No coordinator reaches the store.
    StoreDown,
    /// The store takes no writes.
    StoreRefuses,
    /// The store is slow.
    StoreSlow,
    /// Notifications get lost.
    StoreMute,
}

/// What is chosen from. What finds out whether old sessions are fenced is there more than once.
const ALL: [Strike; 22] = [
    Strike::Cut,
    Strike::CutOneWay,
    Strike::Hold,
    Strike::Slow,
    Strike::Lossy,
    Strike::Isolate,
    Strike::Kill,
    Strike::PowerLoss,
    Strike::Drain,
    Strike::KillMember,
    Strike::PowerLossOfMember,
    Strike::Succeed,
    Strike::Succeed,
    Strike::Succeed,
    Strike::Dismiss,
    Strike::Renew,
    Strike::Force,
    Strike::StoreAway,
    Strike::StoreDown,
    Strike::StoreRefuses,
    Strike::StoreSlow,
    Strike::StoreMute,
];

/// What puts things right again.
#[derive(Clone, Debug)]
enum Mend {
    Link(String, String),
    Links(String),
    Store(usize),
}

/// What is broken, and what will be.
pub(crate) struct Strikes {
    random: StdRng,
    coordinators: Vec<Coordinator>,
    next: Duration,
    mends: Vec<(Duration, Mend)>,
    /// When coordinators that do not run are started again.
    starts: Vec<Option<Duration>>,
    count: usize,
}

impl Strikes {
    pub(crate) fn new(random: StdRng, coordinators: Vec<Coordinator>) -> Self {
        let starts = coordinators.iter().map(|_| None).collect();
        Self { random, coordinators, next: Duration::ZERO, mends: Vec::new(), starts, count: 0 }
    }

    /// Returns how often something was broken.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn pause(&mut self, ms: Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(ms))
    }

    pub(crate) fn toss(&mut self) -> bool {
        self.random.random()
    }

    /// Starts coordinators that do not run, a little later.
    pub(crate) fn keep_coordinators(&mut self, sim: &mut Sim<'_>, now: Duration) {
        for number in 0..self.coordinators.len() {
            let host = &*self.coordinators[number].host;
            if sim.is_host_running(host) {
                self.starts[number] = None;
                continue;
            }
            let pause = Duration::from_millis(self.random.random_range(100..6_000));
            if now >= *self.starts[number].get_or_insert(now + pause) {
                sim.bounce(host);
            }
        }
    }

    /// Mends what is to be mended by now, and breaks the next thing if it is time.
    pub(crate) fn go_on(&mut self, sim: &mut Sim<'_>, stage: &Stage, now: Duration) {
        let (due, rest) = std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= now);
        self.mends = rest;
        let due: Vec<(Duration, Mend)> = due;
        due.into_iter().for_each(|(_, mend)| self.mend(sim, &mend));
        if self.next <= now {
            self.next = now + self.pause(50..2_000);
            if let Some(strike) = ALL.choose(&mut self.random).copied() {
                self.count += 1;
                self.strike(sim, stage, strike, now);
            }
        }
    }

    /// Mends everything.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        for (_, mend) in std::mem::take(&mut self.mends) {
            self.mend(sim, &mend);
        }
    }

    fn mend(&mut self, sim: &mut Sim<'_>, mend: &Mend) {
        match mend {
            Mend::Link(a, b) => mend_link(sim, a, b),
            Mend::Links(host) => {
                for other in hosts(sim) {
                    if other != *host {
                        mend_link(sim, host, &other);
                    }
                }
            }
            Mend::Store(number) => *self.coordinators[*number].store.faults() = StoreFaults::default(),
        }
    }

    fn strike(&mut self, sim: &mut Sim<'_>, stage: &Stage, strike: Strike, now: Duration) {
        let number = self.random.random_range(0..self.coordinators.len());
        let coordinator = self.coordinators[number].host.clone();
        let desk = self.random.random_range(0..stage.shared().desks.len());
        let (host, member) = {
            let desk = &stage.shared().desks[desk];
            // The office is a client as well.
            let host = if self.random.random_bool(0.15) { "office".to_owned() } else { desk.host.clone() };
            (host, desk.member)
        };
        // Mostly short; some last until what waits on them gives up.
        let until = now + if self.random.random_bool(0.2) { self.pause(5_000..40_000) } else { self.pause(50..4_000) };
        let link = Mend::Link(coordinator.clone(), host.clone());
        match strike {
            Strike::Cut => {
                sim.partition(&*coordinator, &*host);
                self.mends.push((until, link));
            }
            Strike::CutOneWay => {
                let (from, to) = if self.toss() { (&coordinator, &host) } else { (&host, &coordinator) };
                sim.partition_oneway(&**from, &**to);
                self.mends.push((until, link));
            }
            Strike::Hold => {
                sim.hold(&*coordinator, &*host);
                // Not for longer than the checkers allow for what is on its way: what was handed out before another process
                // has processed it would pass for handed out again.
                let until = now + self.pause(50..4_000);
                self.mends.push((until, link));
            }
            Strike::Slow => {
                let delay = self.pause(50..3_000);
                sim.set_link_max_message_latency(&*coordinator, &*host, delay);
                self.mends.push((until, link));
            }
            Strike::Lossy => {
                sim.set_link_fail_rate(&*coordinator, &*host, 0.03);
                self.mends.push((until, link));
            }
            Strike::Isolate => self.isolate(sim, &coordinator, until),
            Strike::Kill => self.kill(sim, &coordinator),
            Strike::PowerLoss => {
                self.isolate(sim, &coordinator, now + Duration::from_millis(20));
                self.kill(sim, &coordinator);
            }
            Strike::Drain => {
                let shutdown = &self.coordinators[number].shutdown;
                shutdown.lock().unwrap_or_else(PoisonError::into_inner).cancel();
            }
            Strike::KillMember | Strike::PowerLossOfMember => {
                let host = stage.shared().desks[desk].host.clone();
                if matches!(strike, Strike::PowerLossOfMember) {
                    self.isolate(sim, &host, until);
                }
                let ended = stage.shared().desks[desk].process.take();
                if let Some(process) = ended {
                    sim.crash(&*host);
                    let name = stage.shared().members[member].name.clone();
                    stage.note(&name, process, What::Killed);
                }
            }
            Strike::Succeed => {
                let free = {
                    let mut shared = stage.shared();
                    let free = shared.desks.iter_mut().find(|it| it.member == member && it.process.is_none());
                    free.map(|desk| {
                        desk.is_called = true;
                        desk.host.clone()
                    })
                };
                if let Some(host) = free {
                    sim.bounce(&*host);
                }
            }
            // One at a time, so that most of them are at work.
            Strike::Dismiss | Strike::Renew | Strike::Force if stage.is_renewing() => {}
            Strike::Dismiss => stage.shared().errands.push(Errand::Dismiss(member)),
            Strike::Renew => stage.shared().errands.push(Errand::Renew(member)),
            Strike::Force => stage.shared().errands.push(Errand::Force(member)),
            Strike::StoreAway => self.change_store(number, until, |faults| faults.is_down = true),
            Strike::StoreRefuses => self.change_store(number, until, |faults| faults.is_refusing = true),
            Strike::StoreMute => self.change_store(number, until, |faults| faults.is_mute = true),
            Strike::StoreSlow => {
                let delay_max = self.pause(20..1_500);
                self.change_store(number, until, |faults| faults.delay_max = delay_max);
            }
            Strike::StoreDown => {
                let until = now + self.pause(100..8_000);
                for number in 0..self.coordinators.len() {
                    self.change_store(number, until, |faults| faults.is_down = true);
                }
            }
        }
    }

    fn change_store(&mut self, number: usize, until: Duration, change: impl FnOnce(&mut StoreFaults)) {
        change(&mut self.coordinators[number].store.faults());
        self.mends.push((until, Mend::Store(number)));
    }

    fn isolate(&mut self, sim: &mut Sim<'_>, host: &str, until: Duration) {
        for other in hosts(sim) {
            if other != host {
                sim.partition(host, &*other);
            }
        }
        self.mends.push((until, Mend::Links(host.to_owned())));
    }

    fn kill(&mut self, sim: &mut Sim<'_>, coordinator: &str) {
        if sim.is_host_running(coordinator) {
            sim.crash(coordinator);
        }
    }
}

fn mend_link(sim: &mut Sim<'_>, a: &str, b: &str) {
    sim.set_link_fail_rate(a, b, 0.0);
    sim.set_link_max_message_latency(a, b, LATENCY_MAX);
    // What was held back is brought now; what was lost stays so.
    sim.release(a, b);
}

/// Returns all hosts, in the order in which they were made.
fn hosts(sim: &Sim<'_>) -> Vec<String> {
    let mut hosts = Vec::new();
    sim.links(|links| {
        for link in links {
            let (a, b) = link.pair();
            hosts.extend([a, b]);
        }
    });
    hosts.sort_unstable();
    hosts.dedup();
    hosts.into_iter().filter_map(|address| sim.reverse_lookup(address)).collect()
}
