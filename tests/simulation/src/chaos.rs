//! Injects faults at random: which, when, and for how long.

use std::{ops::Range, time::Duration};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_chaos::history::What;
use turmoil::Sim;

use crate::{
    faulty_store::StoreFaults,
    world::{Command, Coordinator, Play},
};

/// The longest latency of a healthy link.
const LATENCY_MAX: Duration = Duration::from_millis(20);

/// A fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A link silently drops everything.
    Cut,
    /// A link drops everything in one direction.
    CutOneWay,
    /// A link holds everything back and delivers it later.
    Hold,
    /// A link is slow.
    Slow,
    /// A link drops some segments, which breaks connections.
    Lossy,
    /// A coordinator is cut off from everything.
    Isolate,
    /// A coordinator's process is killed.
    Kill,
    /// A coordinator's machine loses power: its connections do not close.
    PowerLoss,
    /// A coordinator drains and exits.
    Drain,
    /// A member's process is killed.
    KillMember,
    /// A member's machine loses power.
    MemberPowerLoss,
    /// A second process supersedes a member's process.
    Supersede,
    /// A member is asked to shut down; a new life follows.
    Dismiss,
    /// A member begins a new life.
    Renew,
    /// A member is force-stopped.
    Force,
    /// One coordinator cannot reach the store.
    StoreAway,
    /// No coordinator can reach the store.
    StoreDown,
    /// The store refuses writes.
    StoreRefuses,
    /// The store is slow.
    StoreSlow,
    /// Notifications are dropped.
    StoreMute,
}

/// The faults to choose from. `Supersede`, which tests the fencing of old sessions, has three times the weight.
const ALL: [Fault; 22] = [
    Fault::Cut,
    Fault::CutOneWay,
    Fault::Hold,
    Fault::Slow,
    Fault::Lossy,
    Fault::Isolate,
    Fault::Kill,
    Fault::PowerLoss,
    Fault::Drain,
    Fault::KillMember,
    Fault::MemberPowerLoss,
    Fault::Supersede,
    Fault::Supersede,
    Fault::Supersede,
    Fault::Dismiss,
    Fault::Renew,
    Fault::Force,
    Fault::StoreAway,
    Fault::StoreDown,
    Fault::StoreRefuses,
    Fault::StoreSlow,
    Fault::StoreMute,
];

/// The repair of a fault.
#[derive(Clone, Debug)]
enum Repair {
    Link(String, String),
    Links(String),
    Store(usize),
}

/// The faults in effect and to come.
pub(crate) struct Chaos {
    random: StdRng,
    coordinators: Vec<Coordinator>,
    next: Duration,
    repairs: Vec<(Duration, Repair)>,
    /// When to restart each coordinator that does not run.
    starts: Vec<Option<Duration>>,
    count: usize,
}

impl Chaos {
    pub(crate) fn new(random: StdRng, coordinators: Vec<Coordinator>) -> Self {
        let starts = coordinators.iter().map(|_| None).collect();
        Self { random, coordinators, next: Duration::ZERO, repairs: Vec::new(), starts, count: 0 }
    }

    /// Returns the number of faults so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn pause(&mut self, ms: Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(ms))
    }

    pub(crate) fn coin_flip(&mut self) -> bool {
        self.random.random()
    }

    /// Restarts coordinators that do not run, after a short while.
    pub(crate) fn restart_coordinators(&mut self, sim: &mut Sim<'_>, now: Duration) {
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

    /// Makes the repairs that are due, and injects the next fault if it is time.
    pub(crate) fn advance(&mut self, sim: &mut Sim<'_>, play: &Play, now: Duration) {
        let (due, rest) = std::mem::take(&mut self.repairs).into_iter().partition(|(at, _)| *at <= now);
        self.repairs = rest;
        let due: Vec<(Duration, Repair)> = due;
        due.into_iter().for_each(|(_, repair)| self.repair(sim, &repair));
        if self.next <= now {
            self.next = now + self.pause(50..2_000);
            if let Some(fault) = ALL.choose(&mut self.random).copied() {
                self.count += 1;
                self.inject(sim, play, fault, now);
            }
        }
    }

    /// Repairs everything.
    pub(crate) fn heal(&mut self, sim: &mut Sim<'_>) {
        for (_, repair) in std::mem::take(&mut self.repairs) {
            self.repair(sim, &repair);
        }
    }

    fn repair(&mut self, sim: &mut Sim<'_>, repair: &Repair) {
        match repair {
            Repair::Link(a, b) => repair_link(sim, a, b),
            Repair::Links(host) => {
                for other in hosts(sim) {
                    if other != *host {
                        repair_link(sim, host, &other);
                    }
                }
            }
            Repair::Store(number) => *self.coordinators[*number].store.faults() = StoreFaults::default(),
        }
    }

    fn inject(&mut self, sim: &mut Sim<'_>, play: &Play, fault: Fault, now: Duration) {
        let number = self.random.random_range(0..self.coordinators.len());
        let coordinator = self.coordinators[number].host.clone();
        let machine = self.random.random_range(0..play.shared().machines.len());
        let (host, member) = {
            let machine = &play.shared().machines[machine];
            // The lead is a client too.
            let host = if self.random.random_bool(0.15) { "lead".to_owned() } else { machine.host.clone() };
            (host, machine.member)
        };
        // Most faults are short; some outlast the timeouts of those who wait.
        let until = now + if self.random.random_bool(0.2) { self.pause(5_000..40_000) } else { self.pause(50..4_000) };
        let link = Repair::Link(coordinator.clone(), host.clone());
        match fault {
            Fault::Cut => {
                sim.partition(&*coordinator, &*host);
                self.repairs.push((until, link));
            }
            Fault::CutOneWay => {
                let (from, to) = if self.coin_flip() { (&coordinator, &host) } else { (&host, &coordinator) };
                sim.partition_oneway(&**from, &**to);
                self.repairs.push((until, link));
            }
            Fault::Hold => {
                sim.hold(&*coordinator, &*host);
                // No longer than the checkers allow for deliveries in flight: a message delivered before another
                // process confirmed it would count as delivered again.
                let until = now + self.pause(50..4_000);
                self.repairs.push((until, link));
            }
            Fault::Slow => {
                let delay = self.pause(50..3_000);
                sim.set_link_max_message_latency(&*coordinator, &*host, delay);
                self.repairs.push((until, link));
            }
            Fault::Lossy => {
                sim.set_link_fail_rate(&*coordinator, &*host, 0.03);
                self.repairs.push((until, link));
            }
            Fault::Isolate => self.isolate(sim, &coordinator, until),
            Fault::Kill => self.kill(sim, &coordinator),
            Fault::PowerLoss => {
                self.isolate(sim, &coordinator, now + Duration::from_millis(20));
                self.kill(sim, &coordinator);
            }
            Fault::Drain => {
                let shutdown = &self.coordinators[number].shutdown;
                shutdown.lock().cancel();
            }
            Fault::KillMember | Fault::MemberPowerLoss => {
                let host = play.shared().machines[machine].host.clone();
                if matches!(fault, Fault::MemberPowerLoss) {
                    self.isolate(sim, &host, until);
                }
                let ended = play.shared().machines[machine].process.take();
                if let Some(process) = ended {
                    sim.crash(&*host);
                    let name = play.shared().members[member].name.clone();
                    play.note(&name, process, What::Killed);
                }
            }
            Fault::Supersede => {
                let free = {
                    let mut shared = play.shared();
                    let free = shared.machines.iter_mut().find(|it| it.member == member && it.process.is_none());
                    free.map(|machine| {
                        machine.should_start = true;
                        machine.host.clone()
                    })
                };
                if let Some(host) = free {
                    sim.bounce(&*host);
                }
            }
            // One member at a time, so that most of them work.
            Fault::Dismiss | Fault::Renew | Fault::Force if play.is_renewing() => {}
            Fault::Dismiss => play.shared().commands.push(Command::Dismiss(member)),
            Fault::Renew => play.shared().commands.push(Command::Renew(member)),
            Fault::Force => play.shared().commands.push(Command::Force(member)),
            Fault::StoreAway => self.change_store(number, until, |faults| faults.is_down = true),
            Fault::StoreRefuses => self.change_store(number, until, |faults| faults.is_refusing = true),
            Fault::StoreMute => self.change_store(number, until, |faults| faults.is_mute = true),
            Fault::StoreSlow => {
                let delay_max = self.pause(20..1_500);
                self.change_store(number, until, |faults| faults.delay_max = delay_max);
            }
            Fault::StoreDown => {
                let until = now + self.pause(100..8_000);
                for number in 0..self.coordinators.len() {
                    self.change_store(number, until, |faults| faults.is_down = true);
                }
            }
        }
    }

    fn change_store(&mut self, number: usize, until: Duration, change: impl FnOnce(&mut StoreFaults)) {
        change(&mut self.coordinators[number].store.faults());
        self.repairs.push((until, Repair::Store(number)));
    }

    fn isolate(&mut self, sim: &mut Sim<'_>, host: &str, until: Duration) {
        for other in hosts(sim) {
            if other != host {
                sim.partition(host, &*other);
            }
        }
        self.repairs.push((until, Repair::Links(host.to_owned())));
    }

    fn kill(&mut self, sim: &mut Sim<'_>, coordinator: &str) {
        if sim.is_host_running(coordinator) {
            sim.crash(coordinator);
        }
    }
}

/// Makes a link healthy.
pub(crate) fn repair_link(sim: &mut Sim<'_>, a: &str, b: &str) {
    sim.set_link_fail_rate(a, b, 0.0);
    sim.set_link_max_message_latency(a, b, LATENCY_MAX);
    // Held segments are delivered now; dropped ones stay lost.
    sim.release(a, b);
}

/// Returns all hosts in the order of their creation.
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
