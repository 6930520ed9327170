//! Every fault. `docs/proof.md` has a row for each store on which a fault was run for it.

use super::{Fault, Kind, Mix};
use crate::{
    cluster::{ClusterSpec, Store},
    flood::Flood,
    hostile::Harm,
};

const BOTH: &[Store] = &[Store::Embedded, Store::Redis];
const EMBEDDED: &[Store] = &[Store::Embedded];
const REDIS: &[Store] = &[Store::Redis];

const HOSTILE: ClusterSpec = ClusterSpec::Hostile { is_long: false };
const HOSTS: ClusterSpec = ClusterSpec::Hosts { sentinels: false };

const fn fault(name: &'static str, what: &'static str, kind: Kind, stores: &'static [Store]) -> Fault {
    Fault { name, what, spec: ClusterSpec::Plain, mix: Some(Mix::General), kind, stores }
}

impl Fault {
    /// Returns the fault with the cluster it needs.
    const fn on(self, spec: ClusterSpec) -> Self {
        let mix = match spec {
            ClusterSpec::Proxied => Some(Mix::General),
            ClusterSpec::Hosts { sentinels: false } => Some(Mix::Hosts),
            _ => None,
        };
        Self { spec, mix, ..self }
    }

    /// Returns the fault, in no mix.
    const fn alone(self) -> Self {
        Self { mix: None, ..self }
    }
}

/// Every fault.
pub const FAULTS: [Fault; 54] = [
    fault("none", "breaks nothing", Kind::None, BOTH),
    fault(
        "coordinator-killed",
        "kills a coordinator with SIGKILL and restarts it within 1 s",
        Kind::CoordinatorKilled,
        BOTH,
    ),
    fault("coordinator-paused", "stops a coordinator for up to 8 s", Kind::CoordinatorPaused, BOTH),
    fault("coordinator-rolled", "terminates a coordinator gracefully and restarts it", Kind::CoordinatorRolled, BOTH),
    fault(
        "failpoint-before-commit",
        "the coordinator dies just before it hands a transaction to the store",
        Kind::Failpoint("before-commit"),
        BOTH,
    ),
    fault(
        "failpoint-after-commit",
        "the coordinator dies after the store answered, before anyone else knows",
        Kind::Failpoint("after-commit"),
        BOTH,
    ),
    fault(
        "failpoint-before-reply",
        "the coordinator dies after a send woke its recipient, before the reply",
        Kind::Failpoint("before-reply"),
        BOTH,
    ),
    fault(
        "failpoint-after-frame",
        "the coordinator dies after it delivered a message, before it takes the acknowledgement",
        Kind::Failpoint("after-frame"),
        BOTH,
    ),
    fault("member-killed", "kills a member's process with SIGKILL; another replaces it", Kind::MemberKilled, BOTH),
    fault("member-paused", "stops a member's process for up to 8 s", Kind::MemberPaused, BOTH),
    fault("member-twice", "starts a second process of a member beside the first", Kind::MemberTwice, BOTH),
    fault(
        "network-slow",
        "delays a coordinator's traffic with its clients or its Redis by up to 0.3 s each way, for up to 8 s",
        Kind::NetworkSlow,
        BOTH,
    )
    .on(ClusterSpec::Proxied),
    fault(
        "network-silent",
        "drops everything in one direction between a coordinator and its clients or its Redis for up to 4 s; affected \
         connections stay open and silent",
        Kind::NetworkSilent,
        BOTH,
    )
    .on(ClusterSpec::Proxied),
    fault(
        "network-reset",
        "resets all connections of a coordinator, or to its Redis, in the middle of an answer, several times",
        Kind::NetworkReset,
        BOTH,
    )
    .on(ClusterSpec::Proxied),
    fault(
        "redis-killed",
        "kills Redis (appendfsync always) with SIGKILL and restarts it within 1 s",
        Kind::RedisKilled,
        REDIS,
    ),
    fault("redis-paused", "stops Redis for up to 8 s", Kind::RedisPaused, REDIS),
    fault("redis-full", "leaves Redis without memory for 2 s", Kind::RedisFull, REDIS),
    fault(
        "redis-connections-killed",
        "closes all connections to Redis, several times",
        Kind::RedisConnectionsKilled,
        REDIS,
    ),
    fault("redis-functions-flushed", "flushes the functions and scripts of Redis", Kind::RedisFunctionsFlushed, REDIS),
    fault(
        "redis-everysec-killed",
        "kills Redis (appendfsync everysec) and discards up to 1 s of its writes, as a power failure does",
        Kind::RedisLosesWrites,
        REDIS,
    )
    .on(ClusterSpec::Everysec),
    fault(
        "sentinel-failover",
        "kills a primary whose replica lags by up to 1 s; a Sentinel promotes the replica",
        Kind::PrimaryKilled,
        REDIS,
    )
    .on(ClusterSpec::SentinelPair { replicas: false }),
    fault(
        "sentinel-failover-replicated",
        "the same, with sends answered only after the replica has them (replicas=1)",
        Kind::PrimaryKilled,
        REDIS,
    )
    .on(ClusterSpec::SentinelPair { replicas: true }),
    fault("cluster-slot-moved", "moves the team's slot to another node, key by key", Kind::SlotMoved, REDIS)
        .on(ClusterSpec::RedisCluster),
    fault(
        "disk-full",
        "fills the store's disk until the coordinator refuses writes, and 2 s longer (needs root)",
        Kind::DiskFull,
        EMBEDDED,
    )
    .on(ClusterSpec::SmallDisk),
    fault(
        "file-torn",
        "kills the coordinator with SIGKILL, truncates and overwrites copies of its file, and opens each copy",
        Kind::FileTorn,
        EMBEDDED,
    )
    .alone(),
    fault(
        "clock-forward",
        "sets a coordinator's clock one hour ahead, repeatedly; sometimes kills it afterwards",
        Kind::ClockForward,
        BOTH,
    )
    .on(ClusterSpec::OwnClock),
    fault(
        "clock-back",
        "sets a coordinator's clock one hour back for up to 8 s; sometimes kills it meanwhile",
        Kind::ClockBack,
        BOTH,
    )
    .on(ClusterSpec::OwnClock),
    fault(
        "flood-connections",
        "1,000 strangers connect and send nothing, or half a frame or call",
        Kind::Flooded(Flood::Connections),
        BOTH,
    )
    .alone(),
    fault(
        "flood-resets",
        "strangers start calls and cancel them at once, as fast as they can",
        Kind::Flooded(Flood::Resets),
        BOTH,
    )
    .alone(),
    fault(
        "flood-headers",
        "strangers send 256 KiB of headers per call, repeatedly",
        Kind::Flooded(Flood::Headers),
        BOTH,
    )
    .alone(),
    fault(
        "flood-slow-readers",
        "members of another team open streams and read nothing, while their lead sends as fast as it may",
        Kind::Flooded(Flood::SlowReaders),
        BOTH,
    )
    .alone(),
    fault(
        "hostile-unread-replies",
        "20 members of another team ask for as much as possible on connections that take nothing",
        Kind::Harmed(&[Harm::UnreadReplies]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-unfinished-requests",
        "20 members of another team, and strangers, send large requests and never complete them",
        Kind::Harmed(&[Harm::UnfinishedRequests]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-connections",
        "20 members of another team open 4,000 connections and keep those that they get",
        Kind::Harmed(&[Harm::Connections]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-strangers",
        "strangers at another address keep 2,200 connections open, and open them again once they are closed",
        Kind::Harmed(&[Harm::Strangers]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-listeners",
        "strangers keep 4,400 connections to the listeners for health and metrics, of 4,128 files that may be open",
        Kind::Harmed(&[Harm::Listeners]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-restarts",
        "20 members of another team begin one life and one session after the other",
        Kind::Harmed(&[Harm::Restarts]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-task-changes",
        "20 members of another team change tasks as fast as they can",
        Kind::Harmed(&[Harm::TaskChanges]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-task-churn",
        "20 members of another team create large tasks and delete them, as fast as they can",
        Kind::Harmed(&[Harm::TaskChurn]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-messages",
        "20 members of another team send large messages until the team is full, and try to send more",
        Kind::Harmed(&[Harm::Messages]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-reads",
        "20 members of another team search and list everything, as fast as they can",
        Kind::Harmed(&[Harm::Reads]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-refused-calls",
        "20 members of another team make calls that they are not allowed to make, as fast as they can",
        Kind::Harmed(&[Harm::RefusedCalls]),
        BOTH,
    )
    .on(HOSTILE),
    fault(
        "hostile-all",
        "20 members of another team and strangers do all of this at once, except that they send no messages",
        Kind::Harmed(&Harm::ALL),
        BOTH,
    )
    .on(ClusterSpec::Hostile { is_long: true }),
    fault("host-killed", "kills a host with SIGKILL and restarts it within 1 s", Kind::HostKilled, BOTH).on(HOSTS),
    fault(
        "host-killed-at-step",
        "hosts die at a random one of the seven steps from the delivery of an order to its acknowledgement",
        Kind::HostKilledAtStep,
        BOTH,
    )
    .on(HOSTS),
    fault("runner-killed", "kills an ordered member's runner up to 0.15 s after it started", Kind::RunnerKilled, BOTH)
        .on(HOSTS),
    fault(
        "orderer-killed",
        "kills a lead's process within 0.25 s while it orders a member",
        Kind::OrdererKilled,
        BOTH,
    )
    .on(HOSTS),
    fault(
        "coordinator-killed-with-order",
        "kills a coordinator while an order is pending, and restarts it within 1 s",
        Kind::CoordinatorKilledWithOrder,
        BOTH,
    )
    .on(HOSTS),
    fault(
        "redis-killed-with-order",
        "kills Redis (appendfsync always) while an order is pending, and restarts it within 1 s",
        Kind::RedisKilledWithOrder,
        REDIS,
    )
    .on(HOSTS),
    fault(
        "host-paused",
        "stops a host's program, and not its members, for longer than its lease",
        Kind::HostPaused,
        BOTH,
    )
    .on(HOSTS)
    .alone(),
    fault(
        "host-replaced",
        "stops a host with all its members for longer than their leases, and starts another host under its name meanwhile",
        Kind::HostReplaced,
        BOTH,
    )
    .on(HOSTS)
    .alone(),
    fault("host-twice", "starts a second host with a copy of the first one's identity", Kind::HostTwice, BOTH)
        .on(HOSTS)
        .alone(),
    fault(
        "host-cut-off",
        "drops everything in one direction between a host, with its members, and all coordinators, for longer than a lease or \
         for up to 8 s",
        Kind::HostCutOff,
        BOTH,
    )
    .on(HOSTS)
    .alone(),
    fault(
        "sentinel-failover-with-order",
        "the same as sentinel-failover-replicated, while an order is pending",
        Kind::FailoverWithOrder,
        REDIS,
    )
    .on(ClusterSpec::Hosts { sentinels: true }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_says_what_each_hostile_fault_does() {
        let testing = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/testing.md");
        let documented = std::fs::read_to_string(testing).unwrap();
        let named: Vec<&str> =
            documented.split('`').skip(1).step_by(2).filter(|word| word.starts_with("hostile-")).collect();
        let faults = FAULTS.iter().map(|fault| fault.name).filter(|name| name.starts_with("hostile-"));
        assert_eq!(named, faults.collect::<Vec<_>>(), "in docs/testing.md, in the order of the faults");
    }
}
