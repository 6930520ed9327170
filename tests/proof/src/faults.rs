//! What is broken, and how it is healed again.

use std::{io, time::Duration};

use nix::sys::signal::Signal;
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use tokio::time::sleep;

use crate::stage::{Stage, Store};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is called at the command line.
    pub name: &'static str,
    /// What is done, for a reader.
    pub what: &'static str,
    kind: Kind,
    /// It is a fault of Redis.
    of_redis: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    CoordinatorKilled,
    CoordinatorPaused,
    CoordinatorRolled,
    MemberKilled,
    MemberPaused,
    MemberTwice,
    RedisKilled,
    RedisPaused,
    RedisFull,
    RedisConnectionsKilled,
    RedisFunctionsFlushed,
}

const fn fault(name: &'static str, what: &'static str, kind: Kind) -> Fault {
    let of_redis = matches!(
        kind,
        Kind::RedisKilled
            | Kind::RedisPaused
            | Kind::RedisFull
            | Kind::RedisConnectionsKilled
            | Kind::RedisFunctionsFlushed
    );
    Fault { name, what, kind, of_redis }
}

/// All faults.
pub const FAULTS: [Fault; 12] = [
    fault("none", "nothing is broken", Kind::None),
    fault(
        "coordinator-killed",
        "kill -9 of a coordinator, which starts again after up to 1 s",
        Kind::CoordinatorKilled,
    ),
    fault("coordinator-paused", "a coordinator stands still for up to 8 s", Kind::CoordinatorPaused),
    fault("coordinator-rolled", "a coordinator is asked to end, and starts again", Kind::CoordinatorRolled),
    fault("member-killed", "kill -9 of a member's process; another one takes its place", Kind::MemberKilled),
    fault("member-paused", "a member's process stands still for up to 8 s", Kind::MemberPaused),
    fault("member-twice", "a second process of a member starts beside the first", Kind::MemberTwice),
    fault(
        "redis-killed",
        "kill -9 of Redis (appendfsync always), which starts again after up to 1 s",
        Kind::RedisKilled,
    ),
    fault("redis-paused", "Redis stands still for up to 8 s", Kind::RedisPaused),
    fault("redis-full", "Redis has no memory for 2 s", Kind::RedisFull),
    fault("redis-connections-killed", "Redis breaks all connections, several times", Kind::RedisConnectionsKilled),
    fault("redis-functions-flushed", "Redis forgets its functions and scripts", Kind::RedisFunctionsFlushed),
];

impl Fault {
    /// Finds a fault by its name.
    pub fn named(name: &str) -> Option<Self> {
        FAULTS.into_iter().find(|fault| fault.name == name)
    }

    /// Returns whether it can happen to coordinators on a store.
    pub fn is_of(&self, store: Store) -> bool {
        store == Store::Redis || !self.of_redis
    }

    /// Breaks something, and heals it.
    pub async fn strike(&self, stage: &mut Stage, random: &mut StdRng) -> io::Result<()> {
        let coordinator = random.random_range(0..stage.coordinators.len());
        let names: Vec<_> = stage.members.keys().cloned().collect();
        let name = names.choose(random).cloned().unwrap_or_default();
        let a_moment = Duration::from_millis(random.random_range(0..1_000));
        let a_while = Duration::from_millis(random.random_range(500..8_000));
        match self.kind {
            Kind::None => sleep(a_moment).await,
            Kind::CoordinatorKilled => {
                stage.coordinators[coordinator].process.kill();
                sleep(a_moment).await;
                stage.restart(coordinator)?;
            }
            Kind::CoordinatorPaused => {
                stage.coordinators[coordinator].process.signal(Signal::SIGSTOP);
                sleep(a_while).await;
                stage.coordinators[coordinator].process.signal(Signal::SIGCONT);
            }
            Kind::CoordinatorRolled => stage.roll(coordinator).await?,
            Kind::MemberKilled => stage.kill(&name)?,
            Kind::MemberPaused => {
                let signal = |stage: &mut Stage, which| {
                    let newest = stage.members.get_mut(&name).and_then(|member| member.processes.last_entry());
                    newest.inspect(|process| process.get().signal(which));
                };
                signal(stage, Signal::SIGSTOP);
                sleep(a_while).await;
                signal(stage, Signal::SIGCONT);
            }
            Kind::MemberTwice => stage.start(&name)?,
            Kind::RedisKilled => {
                if let Some(redis) = &mut stage.redis {
                    redis.process().kill();
                    sleep(a_moment).await;
                    redis.restart()?;
                }
            }
            Kind::RedisPaused => {
                if let Some(redis) = &mut stage.redis {
                    redis.process().signal(Signal::SIGSTOP);
                    sleep(a_while).await;
                    redis.process().signal(Signal::SIGCONT);
                }
            }
            Kind::RedisFull => {
                tell(stage, &["CONFIG", "SET", "maxmemory", "1mb"]).await?;
                sleep(Duration::from_secs(2)).await;
                tell(stage, &["CONFIG", "SET", "maxmemory", "0"]).await?;
            }
            Kind::RedisConnectionsKilled => {
                for _ in 0..10 {
                    // The connection that says so may be among them.
                    let _ = tell(stage, &["CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"]).await;
                    sleep(a_moment / 5).await;
                }
            }
            Kind::RedisFunctionsFlushed => {
                tell(stage, &["FUNCTION", "FLUSH", "SYNC"]).await?;
                tell(stage, &["SCRIPT", "FLUSH", "SYNC"]).await?;
            }
        }
        Ok(())
    }
}

async fn tell(stage: &Stage, words: &[&str]) -> io::Result<()> {
    match &stage.redis {
        Some(redis) => redis.tell(words).await.map_err(io::Error::other),
        None => Ok(()),
    }
}
