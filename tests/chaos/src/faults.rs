//! What is broken, and how it is healed again.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _};
use teamwire_client::{Client, Retry, v1};
use teamwire_test_redis::TestRedis;
use tokio::time::{sleep, timeout};

use crate::{
    cluster::{Scene, Stage, Store, TEAM},
    damage,
    flood::Flood,
    history::{What, now_us},
    proxy::Way,
};

/// How long whatever a fault waits for may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What Redis with `appendfsync everysec` may not have written yet, in microseconds: 2 s, for a flush that takes its time.
const EVERYSEC_US: u64 = 2_000_000;

/// How a transaction begins in the log of Redis.
const TRANSACTION: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";

/// How long an answer may be on its way to whoever writes it down, in microseconds.
const UNDER_WAY_US: u64 = 500_000;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is called at the command line.
    pub name: &'static str,
    /// What is done, for a reader.
    pub what: &'static str,
    /// What it takes.
    pub scene: Scene,
    /// Whether it is one of a mix. The others need a stage of their own, or long, or that nothing else was broken just before.
    pub mixes: bool,
    kind: Kind,
    stores: &'static [Store],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    None,
    CoordinatorKilled,
    CoordinatorPaused,
    CoordinatorRolled,
    /// The coordinator dies at a named place in its code.
    CoordinatorDies(&'static str),
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
    RedisForgetful,
    PrimaryKilled,
    SlotMoved,
    DiskFull,
    FileTorn,
    ClockForward,
    ClockBack,
    Flooded(Flood),
}

const BOTH: &[Store] = &[Store::Embedded, Store::Redis];
const EMBEDDED: &[Store] = &[Store::Embedded];
const REDIS: &[Store] = &[Store::Redis];

const fn fault(name: &'static str, what: &'static str, kind: Kind, stores: &'static [Store]) -> Fault {
    Fault { name, what, scene: Scene::Plain, mixes: true, kind, stores }
}

impl Fault {
    /// The same on a stage that has what it takes.
    const fn on(self, scene: Scene) -> Self {
        let mixes = matches!(scene, Scene::Proxied);
        Self { scene, mixes, ..self }
    }

    /// The same, but never in a mix.
    const fn alone(self) -> Self {
        Self { mixes: false, ..self }
    }
}

/// All faults.
pub const FAULTS: [Fault; 31] = [
    fault("none", "nothing is broken", Kind::None, BOTH),
    fault(
        "coordinator-killed",
        "kill -9 of a coordinator, which starts again after up to 1 s",
        Kind::CoordinatorKilled,
        BOTH,
    ),
    fault("coordinator-paused", "a coordinator stands still for up to 8 s", Kind::CoordinatorPaused, BOTH),
    fault("coordinator-rolled", "a coordinator is asked to end, and starts again", Kind::CoordinatorRolled, BOTH),
    fault(
        "failpoint-before-commit",
        "the coordinator dies just before it gives a transaction to the store",
        Kind::CoordinatorDies("before-commit"),
        BOTH,
    ),
    fault(
        "failpoint-after-commit",
        "the coordinator dies when the store has answered, before anybody knows",
        Kind::CoordinatorDies("after-commit"),
        BOTH,
    ),
    fault(
        "failpoint-before-reply",
        "the coordinator dies when a send has woken its recipient, before it is answered",
        Kind::CoordinatorDies("before-reply"),
        BOTH,
    ),
    fault(
        "failpoint-after-frame",
        "the coordinator dies when a message has arrived, before it takes the acknowledgement",
        Kind::CoordinatorDies("after-frame"),
        BOTH,
    ),
    fault("member-killed", "kill -9 of a member's process; another one takes its place", Kind::MemberKilled, BOTH),
    fault("member-paused", "a member's process stands still for up to 8 s", Kind::MemberPaused, BOTH),
    fault("member-twice", "a second process of a member starts beside the first", Kind::MemberTwice, BOTH),
    fault(
        "network-slow",
        "what goes to and from a coordinator, or its Redis, takes up to 0.3 s longer each way, for up to 8 s",
        Kind::NetworkSlow,
        BOTH,
    )
    .on(Scene::Proxied),
    fault(
        "network-silent",
        "for up to 4 s all vanishes one way between a coordinator and its clients or its Redis; connections on which \
         something has vanished stay silent and open",
        Kind::NetworkSilent,
        BOTH,
    )
    .on(Scene::Proxied),
    fault(
        "network-reset",
        "all connections to a coordinator, or to its Redis, are reset in the middle of an answer, several times",
        Kind::NetworkReset,
        BOTH,
    )
    .on(Scene::Proxied),
    fault(
        "redis-killed",
        "kill -9 of Redis (appendfsync always), which starts again after up to 1 s",
        Kind::RedisKilled,
        REDIS,
    ),
    fault("redis-paused", "Redis stands still for up to 8 s", Kind::RedisPaused, REDIS),
    fault("redis-full", "Redis has no memory for 2 s", Kind::RedisFull, REDIS),
    fault("redis-connections-killed", "Redis breaks all connections, several times", Kind::RedisConnectionsKilled, REDIS),
    fault("redis-functions-flushed", "Redis forgets its functions and scripts", Kind::RedisFunctionsFlushed, REDIS),
    fault(
        "redis-everysec-killed",
        "kill -9 of Redis (appendfsync everysec), and what it had written in up to 1 s before is gone, as when the power fails",
        Kind::RedisForgetful,
        REDIS,
    )
    .on(Scene::Everysec),
    fault(
        "sentinel-failover",
        "kill -9 of a primary whose replica lags by up to 1 s; a Sentinel makes the replica the primary",
        Kind::PrimaryKilled,
        REDIS,
    )
    .on(Scene::Pair { replicas: false }),
    fault(
        "sentinel-failover-replicated",
        "the same, where sends are answered once the replica has them (replicas=1)",
        Kind::PrimaryKilled,
        REDIS,
    )
    .on(Scene::Pair { replicas: true }),
    fault("cluster-slot-moved", "the team's slot is moved to another node, key by key", Kind::SlotMoved, REDIS)
        .on(Scene::Cluster),
    fault("disk-full", "the disk of the store is full until it refuses, and 2 s longer (needs root)", Kind::DiskFull, EMBEDDED)
        .on(Scene::SmallDisk),
    fault(
        "file-torn",
        "kill -9 of the coordinator; copies of its file are cut off and overwritten, and another coordinator opens each",
        Kind::FileTorn,
        EMBEDDED,
    )
    .alone(),
    fault(
        "clock-forward",
        "a coordinator's clock is set one hour ahead, again and again; now and then it is killed after that",
        Kind::ClockForward,
        BOTH,
    )
    .on(Scene::OwnClock),
    fault(
        "clock-back",
        "a coordinator's clock is one hour behind for up to 8 s; now and then it is killed meanwhile",
        Kind::ClockBack,
        BOTH,
    )
    .on(Scene::OwnClock),
    fault(
        "flood-connections",
        "1,000 strangers connect and say nothing, or the half of something",
        Kind::Flooded(Flood::Connections),
        BOTH,
    )
    .alone(),
    fault(
        "flood-resets",
        "strangers begin calls and cancel them at once, as fast as they can",
        Kind::Flooded(Flood::Resets),
        BOTH,
    )
    .alone(),
    fault("flood-headers", "strangers send 256 KiB of headers, again and again", Kind::Flooded(Flood::Headers), BOTH).alone(),
    fault(
        "flood-slow-readers",
        "another team's members read nothing of what they are sent, as fast as their lead may",
        Kind::Flooded(Flood::SlowReaders),
        BOTH,
    )
    .alone(),
];

impl Fault {
    /// Finds a fault by its name.
    pub fn named(name: &str) -> Option<Self> {
        FAULTS.into_iter().find(|fault| fault.name == name)
    }

    /// Returns whether it can happen to coordinators on a store.
    pub fn is_of(&self, store: Store) -> bool {
        self.stores.contains(&store)
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
            Kind::CoordinatorDies(place) => die(stage, coordinator, place, random.random_range(0..40)).await?,
            Kind::NetworkSlow => {
                let most = Duration::from_millis(random.random_range(50..300));
                let link = choose_link(stage, coordinator, random);
                stage.coordinators[coordinator].proxies[link].set(|weather| weather.latency = (most / 5, most));
                sleep(a_while).await;
                stage.coordinators[coordinator].proxies[link].set(|weather| weather.latency = Default::default());
            }
            Kind::NetworkSilent => {
                let way = if random.random() { Way::There } else { Way::Back };
                let link = choose_link(stage, coordinator, random);
                stage.coordinators[coordinator].proxies[link].set(|weather| weather.silent = Some(way));
                sleep(a_while / 2).await;
                stage.coordinators[coordinator].proxies[link].set(|weather| weather.silent = None);
            }
            Kind::NetworkReset => {
                let link = choose_link(stage, coordinator, random);
                for _ in 0..5 {
                    stage.coordinators[coordinator].proxies[link].set(|weather| weather.resets += 1);
                    sleep(a_moment / 2).await;
                }
            }
            Kind::RedisKilled => {
                let redis = redis(stage)?;
                redis.kill();
                sleep(a_moment).await;
                redis.restart();
            }
            Kind::RedisPaused => {
                let redis = redis(stage)?;
                redis.signal(Signal::SIGSTOP);
                sleep(a_while).await;
                redis.signal(Signal::SIGCONT);
            }
            Kind::RedisFull => {
                let redis = redis(stage)?;
                redis.tell(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
                sleep(Duration::from_secs(2)).await;
                redis.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            Kind::RedisConnectionsKilled => {
                for _ in 0..10 {
                    // The connection that says so may be among them.
                    let _ = redis(stage)?.ask(&["CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"]).await;
                    sleep(a_moment / 5).await;
                }
            }
            Kind::RedisFunctionsFlushed => {
                let redis = redis(stage)?;
                redis.tell(&["FUNCTION", "FLUSH", "SYNC"]).await;
                redis.tell(&["SCRIPT", "FLUSH", "SYNC"]).await;
            }
            Kind::RedisForgetful => forget(stage, a_moment, random).await?,
            Kind::PrimaryKilled => fail_over(stage, a_moment).await?,
            Kind::SlotMoved => move_slot(stage, a_moment, random).await?,
            Kind::DiskFull => fill_disk(stage).await?,
            Kind::FileTorn => {
                damage::look(stage, random).await?;
                stage.restart(coordinator)?;
            }
            Kind::ClockForward | Kind::ClockBack => {
                let clock = stage.coordinators[coordinator].file("clock");
                let hours: u32 = fs::read_to_string(&clock)?.trim_matches(['+', 'h']).parse().unwrap_or_default();
                // Whoever has followed it ahead does not follow it back: only one hour more is news.
                let (now, then) = match self.kind {
                    Kind::ClockForward => (format!("+{}h", hours + 1), format!("+{}h", hours + 1)),
                    _ => ("-1h".to_owned(), "+0h".to_owned()),
                };
                fs::write(&clock, now)?;
                sleep(a_while / 2).await;
                if random.random_bool(0.1) {
                    stage.coordinators[coordinator].process.kill();
                    stage.restart(coordinator)?;
                }
                sleep(a_while / 2).await;
                fs::write(&clock, then)?;
            }
            Kind::Flooded(flood) => {
                let lasts = Duration::from_secs(1) + a_while / 2;
                stage.note(What::FloodBegan)?;
                let port = stage.coordinators[coordinator].port();
                if flood == Flood::Connections {
                    tokio::try_join!(flood.run(port, lasts), Flood::HalfOpen.run(port, lasts))?;
                } else {
                    flood.run(port, lasts).await?;
                }
                stage.note(What::FloodEnded)?;
            }
        }
        Ok(())
    }
}

fn redis(stage: &mut Stage) -> io::Result<&mut TestRedis> {
    stage.redis.as_mut().ok_or_else(|| io::Error::other("there is no Redis"))
}

/// Chooses between the way to a coordinator's clients and the way to its store, where both have a proxy.
fn choose_link(stage: &Stage, coordinator: usize, random: &mut StdRng) -> usize {
    random.random_range(0..stage.coordinators[coordinator].proxies.len())
}

/// Has a coordinator die when it comes to a place for the how-manieth time, while it is the only one.
async fn die(stage: &mut Stage, coordinator: usize, place: &str, after: u32) -> io::Result<()> {
    for each in &mut stage.coordinators {
        each.process.kill();
    }
    stage.restart_with(coordinator, &[("FAILPOINTS", format!("{place}={after}*off->return").into())])?;
    // Clients may have to find out first that an earlier connection is dead.
    let ended = stage.coordinators[coordinator].process.end(2 * PATIENCE).await;
    if ended.is_none() {
        let why = format!("the coordinator does not come to {place}: is it built with `--features failpoints`?");
        return Err(io::Error::other(why));
    }
    (0..stage.coordinators.len()).try_for_each(|each| stage.restart(each))
}

/// Kills Redis and takes from its log what was written last, transaction by transaction.
///
/// Not in the middle of one: Redis 7.0.15 then keeps the half of it in its log, and carries it out with the next ones when it
/// starts for the second time.
async fn forget(stage: &mut Stage, a_moment: Duration, random: &mut StdRng) -> io::Result<()> {
    let redis = redis(stage)?;
    let log = newest_log(&redis.directory().join("appendonlydir"))?;
    let (flushed, from_us) = (fs::metadata(&log)?.len(), now_us());
    sleep(a_moment).await;
    redis.kill();
    let killed_us = now_us();
    let written = fs::read(&log)?;
    let torn = random.random_range(usize::try_from(flushed).unwrap_or_default()..=written.len());
    let kept = written[..torn].windows(TRANSACTION.len()).rposition(|words| words == TRANSACTION).unwrap_or(torn);
    File::options().write(true).open(&log)?.set_len(kept as u64)?;
    sleep(a_moment / 2).await;
    redis.restart();
    stage.note(What::MayBeLost { from_us: from_us - EVERYSEC_US, until_us: killed_us + UNDER_WAY_US })
}

fn newest_log(directory: &Path) -> io::Result<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("appendonly.aof.")?.strip_suffix(".incr.aof")?.parse::<u64>().ok()
    };
    let files = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| number(path).is_some()).max_by_key(number).ok_or_else(|| io::Error::other("Redis has no log"))
}

/// After how long a primary that was killed counts as gone.
const GONE_AFTER: Duration = Duration::from_millis(500);

/// After how long one that was not killed does: no other failover than the one that is noted.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// Kills the primary while its replica lags, and heals the pair: the one that was killed becomes the replica.
async fn fail_over(stage: &mut Stage, a_moment: Duration) -> io::Result<()> {
    let Some((servers, sentinel)) = &mut stage.pair else { return Err(io::Error::other("there is no Sentinel")) };
    let port = sentinel.primary().await.map_err(io::Error::other)?;
    let primary = usize::from(servers[0].port() != port);
    let replica = 1 - primary;
    // All that was answered before is on the replica. It may have to begin anew once more, when the Sentinel tells it to follow.
    let has_all = timeout(PATIENCE, async {
        loop {
            let at_us = now_us();
            if servers[primary].has_replica().await {
                return at_us;
            }
        }
    });
    let from_us = has_all.await.map_err(|_| io::Error::other("the replica does not follow"))?;
    // It cannot connect again, and nothing waits in its socket.
    servers[replica].signal(Signal::SIGSTOP);
    let _ = servers[primary].ask(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    sleep(a_moment).await;
    servers[primary].kill();
    let killed_us = now_us();
    sentinel.set_down_after(GONE_AFTER).await;
    servers[replica].signal(Signal::SIGCONT);
    let next = servers[replica].port();
    let healed = timeout(PATIENCE, async {
        while sentinel.primary().await.ok() != Some(next) {
            sleep(Duration::from_millis(20)).await;
        }
        sentinel.set_down_after(NEVER).await;
        servers[primary].restart();
        // The Sentinel would come to that by itself, in a while.
        let following = ["REPLICAOF", "127.0.0.1", &next.to_string()];
        while servers[primary].ask(&following).await.is_err() || !servers[replica].has_replica().await {
            sleep(Duration::from_millis(100)).await;
        }
    });
    healed.await.map_err(|_| io::Error::other("the replica does not take over"))?;
    stage.note(What::MayBeLost { from_us, until_us: killed_us + UNDER_WAY_US })
}

/// Moves the slot of the team to another node.
async fn move_slot(stage: &mut Stage, a_moment: Duration, random: &mut StdRng) -> io::Result<()> {
    let Some(cluster) = &stage.cluster else { return Err(io::Error::other("there is no cluster")) };
    let slot = cluster.nodes[0].tell(&["CLUSTER", "KEYSLOT", &format!("{{{TEAM}}}")]).await;
    let slot: usize = redis::from_redis_value(slot).map_err(io::Error::other)?;
    let owner = cluster.owner(slot).await.ok_or_else(|| io::Error::other("the nodes do not agree"))?;
    let to = (owner + random.random_range(1..cluster.nodes.len())) % cluster.nodes.len();
    cluster.begin_move(slot, owner, to).await;
    sleep(a_moment).await;
    cluster.end_move(slot, owner, to).await;
    Ok(())
}

/// Fills the disk, sees that nothing is taken then, and frees it.
async fn fill_disk(stage: &mut Stage) -> io::Result<()> {
    let Some(disk) = &stage.disk else { return Err(io::Error::other("there is no disk to fill")) };
    let lead = Client::connect(&stage.address()).and_then(|lead| lead.with_credential(&stage.lead_credential));
    let lead = lead.map_err(|error| io::Error::other(error.to_string()))?.with_retry(Retry::none());
    disk.fill()?;
    // There is some room left within the file itself.
    let refused = timeout(PATIENCE, async {
        let description = "x".repeat(8 * 1024);
        let task = v1::CreateTaskRequest { subject: "No room".to_owned(), description, ..Default::default() };
        // Tried once, it cannot know more than what is said.
        while !lead.create_task(task.clone()).await.is_err_and(|error| error.to_string().contains("takes no writes")) {
            sleep(Duration::from_millis(20)).await;
        }
        sleep(Duration::from_secs(2)).await;
    });
    let refused = refused.await;
    disk.free()?;
    refused.map_err(|_| io::Error::other("the disk was full, and nothing was refused"))
}
