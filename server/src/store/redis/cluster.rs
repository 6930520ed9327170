//! Routes calls to the nodes of a cluster.
//!
//! All keys of a namespace share one hash tag, so a namespace is one slot. The slot map is corrected whenever a node
//! redirects a call, and reread every few seconds and whenever a node is lost.
//!
//! While a slot migrates, some of its keys are on the old node and some on the new one. A call that finds all its keys
//! on the old node succeeds there; any other waits up to [`MIGRATION_WAIT_MAX`] for the migration to end. Calls never
//! go to the new node earlier, because it would treat an idempotency key that has not arrived as unused.
//!
//! Architecture invariant: a call that may have been executed is never repeated. Library clients for clusters do repeat
//! them, so this module does its own routing.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use parking_lot::RwLock;
use redis::{ConnectionInfo, Pipeline, Value};
use tokio::time::{Instant, sleep, timeout};

use super::{
    error::{CallError, Recovery},
    server::{Context, Location, Server},
    single_flight::{Flight, SingleFlight},
    url,
};
use crate::store::StoreError;

/// The number of slots in a cluster.
const SLOTS: usize = 16_384;

/// How long a call waits for a migrating slot.
pub(super) const MIGRATION_WAIT_MAX: Duration = Duration::from_secs(5);

/// The interval at which a waiting call retries.
const MIGRATION_POLL: Duration = Duration::from_millis(20);

/// The maximum number of redirects that a call follows.
const REDIRECTS_MAX: usize = 8;

/// How long nodes may take to return the slot map. All are asked at once.
const SLOT_MAP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a slot map counts as fresh, so that many failed calls do not keep rereading it.
const SLOT_MAP_FRESH: Duration = Duration::from_millis(100);

/// The nodes of a cluster.
pub(super) struct Cluster {
    /// The nodes that the URL names.
    seeds: Vec<Arc<Server>>,
    /// How to connect to any node; the address is a placeholder.
    template: ConnectionInfo,
    context: Context,
    slot_map: RwLock<SlotMap>,
    refreshing: SingleFlight<()>,
}

#[derive(Default)]
struct SlotMap {
    nodes: HashMap<String, Arc<Server>>,
    slots: Vec<Option<Arc<Server>>>,
    read_at: Option<Instant>,
}

impl Cluster {
    /// Makes a cluster without connecting to it.
    pub(super) fn new(seeds: &[ConnectionInfo], template: ConnectionInfo, context: Context) -> Arc<Self> {
        let server = |seed: &ConnectionInfo| Server::new(Location::Fixed(Box::new(seed.clone())), context.clone());
        Arc::new(Self {
            seeds: seeds.iter().map(server).collect(),
            template,
            slot_map: RwLock::default(),
            refreshing: SingleFlight::new(),
            context,
        })
    }

    /// Returns the slot of a hash tag.
    pub(super) fn slot(tag: &str) -> usize {
        usize::from(crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes())) % SLOTS
    }

    /// Calls the node that owns a slot, and follows the slot if it moves. Waits as long as `migration_wait` while it
    /// migrates, and then fails with [`Recovery::WaitForSlot`].
    pub(super) async fn at_slot<T, F>(
        self: &Arc<Self>,
        slot: usize,
        migration_wait: Duration,
        call: impl Fn(Arc<Server>) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let begun = Instant::now();
        let mut redirects = 0;
        loop {
            let server = self.node_of(slot).await?;
            let failed = match call(server.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            match &failed.recovery {
                Recovery::Redirect(address) if redirects < REDIRECTS_MAX => {
                    redirects += 1;
                    self.note_move(slot, address, &server);
                }
                Recovery::WaitForSlot if begun.elapsed() < migration_wait => sleep(MIGRATION_POLL).await,
                Recovery::None => return Err(failed),
                _ => {
                    // Do not wait for the refresh: this call has failed, and the next one may find the right node.
                    drop(self.refresh());
                    return Err(failed);
                }
            }
        }
    }

    /// Calls any node that owns slots, and tries the others in turn if it fails.
    pub(super) async fn on_any_node<T, F>(self: &Arc<Self>, call: impl Fn(Arc<Server>) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut outcome = Err(CallError::from(StoreError::Unavailable("no node of the cluster owns slots".to_owned())));
        for server in self.nodes() {
            outcome = call(server).await;
            if outcome.is_ok() {
                return outcome;
            }
        }
        drop(self.refresh());
        outcome
    }

    /// Returns the known nodes that own slots.
    pub(super) fn nodes(&self) -> Vec<Arc<Server>> {
        self.slot_map.read().nodes.values().cloned().collect()
    }

    /// Rereads the slot map, unless it is fresh.
    pub(super) fn refresh(self: &Arc<Self>) -> Flight<()> {
        let fresh = || {
            let read_at = self.slot_map.read().read_at;
            read_at.is_some_and(|read_at| read_at.elapsed() < SLOT_MAP_FRESH).then_some(())
        };
        self.refreshing.join(fresh, || self.clone().read_slot_map())
    }

    /// Returns the known owner of a slot.
    pub(super) fn known_node_of(&self, slot: usize) -> Option<Arc<Server>> {
        self.slot_map.read().slots.get(slot).cloned().flatten()
    }

    async fn node_of(self: &Arc<Self>, slot: usize) -> Result<Arc<Server>, StoreError> {
        if let Some(server) = self.known_node_of(slot) {
            return Ok(server);
        }
        self.refresh().await?;
        self.known_node_of(slot).ok_or_else(|| StoreError::Refusing(format!("no node of the cluster owns slot {slot}")))
    }

    /// Records a redirect of a slot to `address`. If `address` has no host, it means the host of `from`.
    fn note_move(self: &Arc<Self>, slot: usize, address: &str, from: &Server) {
        let Some((host, port)) = address.rsplit_once(':') else { return };
        let Ok(port) = port.parse() else { return };
        let host = if host.is_empty() { from.host() } else { host };
        let mut slot_map = self.slot_map.write();
        let server = self.server_at(&mut slot_map.nodes, host, port);
        if let Some(owner) = slot_map.slots.get_mut(slot) {
            *owner = Some(server);
        }
        drop(slot_map);
        // If one slot moved, others probably did too.
        drop(self.refresh());
    }

    /// Returns the node at an address, and reuses it if it is known.
    fn server_at(&self, nodes: &mut HashMap<String, Arc<Server>>, host: &str, port: u16) -> Arc<Server> {
        let node = url::with_address(&self.template, host, port);
        let make = || Server::new(Location::Fixed(Box::new(node.clone())), self.context.clone());
        nodes.entry(node.addr().to_string()).or_insert_with(make).clone()
    }

    async fn read_slot_map(self: Arc<Self>) -> Result<(), StoreError> {
        let seeds = self.seeds.iter().map(|seed| (seed.address(), seed.clone()));
        let mut known: HashMap<_, _> =
            seeds.chain(self.nodes().into_iter().map(|node| (node.address(), node))).collect();
        let mut answers: FuturesUnordered<_> = known.values().cloned().map(query_slots).collect();
        let mut outcome = Err(StoreError::Unavailable("no node of the cluster answered".to_owned()));
        let first = async {
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok((from, ranges)) => {
                        outcome = Ok((from, ranges));
                        break;
                    }
                    Err(error) => outcome = Err(error),
                }
            }
        };
        // A node that has not answered by then counts as lost.
        let _ = timeout(SLOT_MAP_TIMEOUT, first).await;
        let (from, ranges) = outcome?;
        let mut nodes = HashMap::new();
        let mut slots = vec![None; SLOTS];
        for Range { first, last, host, port } in ranges {
            let server = self.server_at(&mut known, if host.is_empty() { from.host() } else { &host }, port);
            nodes.insert(server.address(), server.clone());
            slots.get_mut(first..=last).into_iter().flatten().for_each(|slot| *slot = Some(server.clone()));
        }
        *self.slot_map.write() = SlotMap { nodes, slots, read_at: Some(Instant::now()) };
        Ok(())
    }
}

/// A range of slots and their owner.
#[derive(Debug, PartialEq)]
struct Range {
    first: usize,
    last: usize,
    /// Empty means the host of the node that answered.
    host: String,
    port: u16,
}

/// Asks a node for the slot map. Fails if the node reports that the cluster is down, because its map may be outdated.
async fn query_slots(server: Arc<Server>) -> Result<(Arc<Server>, Vec<Range>), StoreError> {
    let mut query = Pipeline::new();
    query.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let answers = server.read(&query).await.map_err(|failed| match failed.error {
        StoreError::Unavailable(text) if text.contains("cluster support disabled") => StoreError::Misconfigured(
            format!("{} is not a cluster node: use redis: in the store URL", server.address()),
        ),
        error => error,
    })?;
    match <[Value; 2]>::try_from(answers) {
        Ok([Value::BulkString(info), slots]) => {
            if !String::from_utf8_lossy(&info).contains("cluster_state:ok") {
                return Err(StoreError::Refusing(format!("{}: CLUSTERDOWN the cluster is down", server.address())));
            }
            let Value::Array(ranges) = slots else { return Err(unreadable(&server)) };
            let ranges: Option<_> = ranges.into_iter().map(parse_range).collect();
            ranges.map(|ranges| (server.clone(), ranges)).ok_or_else(|| unreadable(&server))
        }
        _ => Err(unreadable(&server)),
    }
}

fn unreadable(server: &Server) -> StoreError {
    StoreError::Unavailable(format!("{}: its slot map cannot be read", server.address()))
}

/// Parses first slot, last slot, primary, replicas; the primary is host, port and more.
fn parse_range(answer: Value) -> Option<Range> {
    let (first, last, primary): (usize, usize, Value) = match answer {
        Value::Array(mut parts) if parts.len() >= 3 => {
            let mut parts = parts.drain(..3);
            let first = redis::from_redis_value(parts.next()?).ok()?;
            (first, redis::from_redis_value(parts.next()?).ok()?, parts.next()?)
        }
        _ => return None,
    };
    let Value::Array(primary) = primary else { return None };
    let mut primary = primary.into_iter();
    let host: Option<String> = redis::from_redis_value(primary.next()?).ok()?;
    let port = redis::from_redis_value(primary.next()?).ok()?;
    // A node that does not know its own address, or is configured not to reveal it, is where we asked it.
    let host = host.filter(|host| host != "?").unwrap_or_default();
    Some(Range { first, last, host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_a_hash_tag_matches_redis() {
        // From CLUSTER KEYSLOT.
        for (tag, slot) in [("foo", 12_182), ("bar", 5_061), ("~directory", 10_176)] {
            assert_eq!(Cluster::slot(tag), slot, "{tag}");
        }
    }

    #[test]
    fn node_without_a_host_is_at_the_host_that_answered() {
        for (host, named) in
            [("$9\r\n127.0.0.1\r\n", "127.0.0.1"), ("$-1\r\n", ""), ("$0\r\n\r\n", ""), ("$1\r\n?\r\n", "")]
        {
            let answer = format!("*3\r\n:0\r\n:99\r\n*3\r\n{host}:7000\r\n$2\r\nid\r\n");
            let read = parse_range(redis::parse_redis_value(answer.as_bytes()).unwrap());
            assert_eq!(read, Some(Range { first: 0, last: 99, host: named.to_owned(), port: 7_000 }));
        }
    }
}
