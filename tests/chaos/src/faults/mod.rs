//! Faults: each breaks something for a while and heals it.

mod catalogue;
mod hosts;
mod machine;
mod network;
mod processes;
mod redis;

use std::{io, time::Duration};

use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::time::sleep;

use crate::{
    cluster::{Cluster, ClusterSpec, Store},
    damage,
    flood::Flood,
    hostile::Harm,
};
pub use catalogue::FAULTS;
pub(crate) use redis::NEVER;

/// The longest wait for any effect of a fault.
const PATIENCE: Duration = Duration::from_secs(30);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name at the command line.
    pub name: &'static str,
    /// What it does, for a reader.
    pub what: &'static str,
    /// The cluster it needs.
    pub spec: ClusterSpec,
    /// The mix that includes it. A fault that needs its own cluster, takes long, or needs everything else intact is in
    /// none.
    pub mix: Option<Mix>,
    kind: Kind,
    stores: &'static [Store],
}

/// Faults that strike one after the other in the same cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// `mix`: of coordinators, members, networks and stores.
    General,
    /// `mix-hosts`: while members are ordered from hosts.
    Hosts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    CoordinatorKilled,
    CoordinatorPaused,
    CoordinatorRolled,
    /// The coordinator dies at this failpoint.
    Failpoint(&'static str),
    MemberKilled,
    MemberPaused,
    MemberTwice,
    NetworkSlow,
    NetworkSilent,
    NetworkReset,
    RedisKilled,
    RedisPaused,
    RedisFull,
    RedisConnectionsKilled,
    RedisFunctionsFlushed,
    RedisLosesWrites,
    PrimaryKilled,
    SlotMoved,
    DiskFull,
    FileTorn,
    ClockForward,
    ClockBack,
    Flooded(Flood),
    /// Members of another team do harm.
    Harmed(&'static [Harm]),
    HostKilled,
    HostKilledAtStep,
    HostPaused,
    HostReplaced,
    HostTwice,
    HostCutOff,
    RunnerKilled,
    OrdererKilled,
    CoordinatorKilledWithOrder,
    RedisKilledWithOrder,
    FailoverWithOrder,
}

/// The targets and durations drawn for one injection.
struct Draw {
    coordinator: usize,
    member: String,
    /// Up to 1 s.
    moment: Duration,
    /// 0.5 to 8 s.
    pause: Duration,
}

impl Draw {
    fn new(cluster: &Cluster, random: &mut StdRng) -> Self {
        let members: Vec<_> = cluster.members.keys().cloned().collect();
        Self {
            coordinator: random.random_range(0..cluster.coordinators.len()),
            member: members.choose(random).cloned().unwrap_or_default(),
            moment: Duration::from_millis(random.random_range(0..1_000)),
            pause: Duration::from_millis(random.random_range(500..8_000)),
        }
    }
}

impl Fault {
    /// Returns the fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        FAULTS.into_iter().find(|fault| fault.name == name)
    }

    /// Returns whether the fault can hit coordinators on a store.
    pub fn applies_to(&self, store: Store) -> bool {
        self.stores.contains(&store)
    }

    /// Breaks something, waits, and heals it. `left`: how long faults are still to be injected. An attack by hostile
    /// members goes on for as long.
    pub async fn inject(&self, cluster: &mut Cluster, left: Duration, random: &mut StdRng) -> io::Result<()> {
        let draw = Draw::new(cluster, random);
        match self.kind {
            Kind::None => sleep(draw.moment).await,
            Kind::CoordinatorKilled => processes::kill_coordinator(cluster, &draw).await?,
            Kind::CoordinatorPaused => processes::pause_coordinator(cluster, &draw).await,
            Kind::CoordinatorRolled => cluster.roll(draw.coordinator).await?,
            Kind::Failpoint(place) => processes::die_at(cluster, &draw, place, random.random_range(1..=40)).await?,
            Kind::MemberKilled => cluster.kill(&draw.member)?,
            Kind::MemberPaused => processes::pause_member(cluster, &draw).await,
            Kind::MemberTwice => cluster.start(&draw.member)?,
            Kind::NetworkSlow => network::slow(cluster, &draw, random).await,
            Kind::NetworkSilent => network::silence(cluster, &draw, random).await,
            Kind::NetworkReset => network::reset(cluster, &draw, random).await,
            Kind::RedisKilled => redis::kill(cluster, &draw).await?,
            Kind::RedisPaused => redis::pause(cluster, &draw).await?,
            Kind::RedisFull => redis::fill_memory(cluster).await?,
            Kind::RedisConnectionsKilled => redis::kill_connections(cluster, &draw).await?,
            Kind::RedisFunctionsFlushed => redis::flush_functions(cluster).await?,
            Kind::RedisLosesWrites => redis::lose_writes(cluster, &draw, random).await?,
            Kind::PrimaryKilled => redis::fail_over(cluster, &draw).await?,
            Kind::SlotMoved => redis::move_slot(cluster, &draw, random).await?,
            Kind::DiskFull => machine::fill_disk(cluster).await?,
            Kind::FileTorn => {
                damage::inspect(cluster, random).await?;
                cluster.restart(draw.coordinator)?;
            }
            Kind::ClockForward => machine::set_clock_forward(cluster, &draw, random).await?,
            Kind::ClockBack => machine::set_clock_back(cluster, &draw, random).await?,
            Kind::Flooded(flood) => network::flood(cluster, &draw, flood).await?,
            Kind::Harmed(harms) => network::harm(cluster, &draw, left, harms).await?,
            Kind::HostKilled => hosts::kill(cluster, &draw, random).await?,
            Kind::HostKilledAtStep => hosts::kill_at_step(cluster, &draw, random).await?,
            Kind::HostPaused => hosts::pause(cluster, &draw, random).await?,
            Kind::HostReplaced => hosts::replace(cluster, &draw, random).await?,
            Kind::HostTwice => hosts::run_twice(cluster, &draw, random).await?,
            Kind::HostCutOff => hosts::cut(cluster, &draw, random).await?,
            Kind::RunnerKilled => hosts::kill_runner(cluster, random).await?,
            Kind::OrdererKilled => hosts::kill_orderer(cluster, &draw, random).await?,
            Kind::CoordinatorKilledWithOrder => {
                hosts::await_order(cluster, random).await?;
                processes::kill_coordinator(cluster, &draw).await?;
            }
            Kind::RedisKilledWithOrder => {
                hosts::await_order(cluster, random).await?;
                redis::kill(cluster, &draw).await?;
            }
            Kind::FailoverWithOrder => {
                hosts::await_order(cluster, random).await?;
                redis::fail_over(cluster, &draw).await?;
            }
        }
        Ok(())
    }
}
