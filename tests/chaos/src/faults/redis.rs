//! Redis that dies, stops, fills up, loses writes, fails over or moves a slot.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::sys::signal::Signal;
use rand::{RngExt as _, rngs::StdRng};
use teamwire_test_redis::TestRedis;
use tokio::time::{sleep, timeout};

use super::{Draw, PATIENCE};
use crate::{
    cluster::{Cluster, TEAM},
    history::{What, now_us},
};

/// How far the disk may lag behind the answers of a Redis with `appendfsync everysec`, in microseconds: 2 s, for a slow
/// flush.
const EVERYSEC_US: u64 = 2_000_000;

/// The bytes that begin a transaction in Redis's append-only file.
const TRANSACTION: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";

/// How long an answer may take to reach the process that records it, in microseconds.
const IN_FLIGHT_US: u64 = 500_000;

/// How long a killed primary must be unreachable before the Sentinel replaces it.
const DOWN_AFTER: Duration = Duration::from_millis(500);

/// The same for a primary that was not killed: only the recorded failovers may happen.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

fn redis(cluster: &mut Cluster) -> io::Result<&mut TestRedis> {
    cluster.redis.as_mut().ok_or_else(|| io::Error::other("there is no Redis"))
}

pub(super) async fn kill(cluster: &mut Cluster, draw: &Draw) -> io::Result<()> {
    let redis = redis(cluster)?;
    redis.kill();
    sleep(draw.moment).await;
    redis.restart();
    Ok(())
}

pub(super) async fn pause(cluster: &mut Cluster, draw: &Draw) -> io::Result<()> {
    let redis = redis(cluster)?;
    redis.signal(Signal::SIGSTOP);
    sleep(draw.pause).await;
    redis.signal(Signal::SIGCONT);
    Ok(())
}

pub(super) async fn fill_memory(cluster: &mut Cluster) -> io::Result<()> {
    let redis = redis(cluster)?;
    redis.tell(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    sleep(Duration::from_secs(2)).await;
    redis.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
    Ok(())
}

pub(super) async fn kill_connections(cluster: &mut Cluster, draw: &Draw) -> io::Result<()> {
    for _ in 0..10 {
        // The connection that sends the command may be among them.
        let _ = redis(cluster)?.ask(&["CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal"]).await;
        sleep(draw.moment / 5).await;
    }
    Ok(())
}

pub(super) async fn flush_functions(cluster: &mut Cluster) -> io::Result<()> {
    let redis = redis(cluster)?;
    redis.tell(&["FUNCTION", "FLUSH", "SYNC"]).await;
    redis.tell(&["SCRIPT", "FLUSH", "SYNC"]).await;
    Ok(())
}

/// Kills Redis and removes the last transactions from its append-only file.
///
/// The cut falls between transactions: when it falls inside one, Redis 7.0.15 keeps the first half in its file and
/// applies it together with later commands at its second start.
pub(super) async fn lose_writes(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let redis = redis(cluster)?;
    let log = newest_log(&redis.directory().join("appendonlydir"))?;
    let (flushed, from_us) = (fs::metadata(&log)?.len(), now_us());
    sleep(draw.moment).await;
    redis.kill();
    let killed_us = now_us();
    let written = fs::read(&log)?;
    let torn = random.random_range(usize::try_from(flushed).unwrap_or_default()..=written.len());
    let kept = written[..torn].windows(TRANSACTION.len()).rposition(|words| words == TRANSACTION).unwrap_or(torn);
    File::options().write(true).open(&log)?.set_len(kept as u64)?;
    sleep(draw.moment / 2).await;
    redis.restart();
    cluster.note(What::MayBeLost { from_us: from_us - EVERYSEC_US, until_us: killed_us + IN_FLIGHT_US })
}

fn newest_log(directory: &Path) -> io::Result<PathBuf> {
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("appendonly.aof.")?.strip_suffix(".incr.aof")?.parse::<u64>().ok()
    };
    let files = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let newest = files.filter(|path| number(path).is_some()).max_by_key(number);
    newest.ok_or_else(|| io::Error::other("Redis has no append-only file"))
}

/// Kills the primary while its replica lags, waits until the replica took over, and restarts the old primary as its
/// replica.
pub(super) async fn fail_over(cluster: &mut Cluster, draw: &Draw) -> io::Result<()> {
    let Some((servers, sentinel)) = &mut cluster.sentinel_pair else {
        return Err(io::Error::other("there is no Sentinel"));
    };
    let port = sentinel.primary().await.map_err(io::Error::other)?;
    let primary = usize::from(servers[0].port() != port);
    let replica = 1 - primary;
    // Everything answered before this moment is on the replica. The replica may have to resynchronize first, when the
    // Sentinel tells it to follow.
    let replicated = timeout(PATIENCE, async {
        loop {
            let at_us = now_us();
            if servers[primary].has_replica().await {
                return at_us;
            }
        }
    });
    let from_us = replicated.await.map_err(|_| io::Error::other("the replica does not follow"))?;
    // The stopped replica cannot reconnect, and its socket holds nothing.
    servers[replica].signal(Signal::SIGSTOP);
    let _ = servers[primary].ask(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    sleep(draw.moment).await;
    servers[primary].kill();
    let killed_us = now_us();
    sentinel.set_down_after(DOWN_AFTER).await;
    servers[replica].signal(Signal::SIGCONT);
    let next = servers[replica].port();
    let healed = timeout(PATIENCE, async {
        while sentinel.primary().await.ok() != Some(next) {
            sleep(Duration::from_millis(20)).await;
        }
        sentinel.set_down_after(NEVER).await;
        servers[primary].restart();
        // The Sentinel would do this too, but later.
        let following = ["REPLICAOF", "127.0.0.1", &next.to_string()];
        while servers[primary].ask(&following).await.is_err() || !servers[replica].has_replica().await {
            sleep(Duration::from_millis(100)).await;
        }
    });
    healed.await.map_err(|_| io::Error::other("the replica does not take over"))?;
    cluster.note(What::MayBeLost { from_us, until_us: killed_us + IN_FLIGHT_US })
}

/// Moves the team's slot to another node.
pub(super) async fn move_slot(cluster: &mut Cluster, draw: &Draw, random: &mut StdRng) -> io::Result<()> {
    let Some(nodes) = &cluster.redis_cluster else { return Err(io::Error::other("there is no Redis Cluster")) };
    let slot = nodes.nodes[0].tell(&["CLUSTER", "KEYSLOT", &format!("{{{TEAM}}}")]).await;
    let slot: usize = ::redis::from_redis_value(slot).map_err(io::Error::other)?;
    let owner = nodes.owner(slot).await.ok_or_else(|| io::Error::other("the nodes do not agree"))?;
    let to = (owner + random.random_range(1..nodes.nodes.len())) % nodes.nodes.len();
    nodes.begin_move(slot, owner, to).await;
    sleep(draw.moment).await;
    nodes.end_move(slot, owner, to).await;
    Ok(())
}
