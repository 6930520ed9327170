//! The nodes of a cluster, and which of them has which slot.
//!
//! A namespace is one slot, since its name is the hash tag of all its keys. The map of slots is put right by every node that
//! says where a slot has gone, and read anew every few seconds and whenever a node is lost.
//!
//! While a slot is on its way to another node, its keys are partly here and partly there. What finds all its keys at the
//! old place is served there; the rest waits for the slot to arrive, up to [`ARRIVAL_MAX`]. Nobody asks the new place
//! before that: it would take a ledger that has not arrived for an empty one.
//!
//! Architecture invariant: a call is never repeated that may have been carried out. That is why the routing is ours.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use redis::{ConnectionInfo, Pipeline, Value};
use tokio::time::{Instant, sleep, timeout};

use super::{
    attempt::{Attempt, Attempts},
    fault::{Fault, Next},
    link::{Common, Link, Place},
    target,
};
use crate::store::StoreError;

/// How many slots a cluster has.
const SLOTS: usize = 16_384;

/// How long a call waits for a slot that is on its way.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// How often it looks whether the slot has arrived.
const ARRIVAL_POLL: Duration = Duration::from_millis(20);

/// How often a call follows a slot that has gone elsewhere.
const MOVES_MAX: usize = 8;

/// How long nodes may take to say who has which slot. They are asked all at once.
const MAP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a map is taken for fresh, so that a crowd of failed calls does not ask in a circle.
const MAP_FRESH: Duration = Duration::from_millis(100);

/// The nodes of a cluster.
pub(super) struct Cluster {
    /// The nodes that the URL names.
    seeds: Vec<Arc<Link>>,
    /// How to reach a node, but for its address.
    like: ConnectionInfo,
    common: Common,
    map: RwLock<Map>,
    looks: Attempts<()>,
}

#[derive(Default)]
struct Map {
    nodes: HashMap<String, Arc<Link>>,
    slots: Vec<Option<Arc<Link>>>,
    read_at: Option<Instant>,
}

impl Cluster {
    /// Prepares the way to a cluster. Nothing is sent yet.
    pub(super) fn new(seeds: &[ConnectionInfo], like: ConnectionInfo, common: Common) -> Arc<Self> {
        let link = |seed: &ConnectionInfo| Link::new(Place::At(Box::new(seed.clone())), common.clone());
        Arc::new(Self {
            seeds: seeds.iter().map(link).collect(),
            like,
            map: RwLock::default(),
            looks: Attempts::new(),
            common,
        })
    }

    /// Returns the slot of a hash tag.
    pub(super) fn slot(tag: &str) -> usize {
        usize::from(crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes())) % SLOTS
    }

    /// Makes a call at the node that has a slot, wherever it goes meanwhile.
    pub(super) async fn at_slot<T, F>(self: &Arc<Self>, slot: usize, call: impl Fn(Arc<Link>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let begun = Instant::now();
        let mut moves = 0;
        loop {
            let link = self.node_of(slot).await?;
            let fault = match call(link.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            match &fault.next {
                Next::GoTo(address) if moves < MOVES_MAX => {
                    moves += 1;
                    self.moved(slot, address, &link);
                }
                Next::Wait if begun.elapsed() < ARRIVAL_MAX => sleep(ARRIVAL_POLL).await,
                Next::GiveUp => return Err(fault),
                _ => {
                    // Not waited for: the call has failed, and the next one may find the right node.
                    drop(self.look());
                    return Err(fault);
                }
            }
        }
    }

    /// Makes a call at any node that has slots; at another one where the first does not answer.
    pub(super) async fn anywhere<T, F>(self: &Arc<Self>, call: impl Fn(Arc<Link>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let mut outcome =
            Err(Fault::from(StoreError::Unavailable("the cluster has no node that has slots".to_owned())));
        for link in self.nodes() {
            outcome = call(link).await;
            if outcome.is_ok() {
                return outcome;
            }
        }
        drop(self.look());
        outcome
    }

    /// Returns the nodes that have slots, as far as is known.
    pub(super) fn nodes(&self) -> Vec<Arc<Link>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).nodes.values().cloned().collect()
    }

    /// Reads the map of slots anew, unless it is fresh.
    pub(super) fn look(self: &Arc<Self>) -> Attempt<()> {
        let fresh = || {
            let read_at = self.map.read().unwrap_or_else(PoisonError::into_inner).read_at;
            read_at.is_some_and(|read_at| read_at.elapsed() < MAP_FRESH).then_some(())
        };
        self.looks.join(fresh, || self.clone().read_map())
    }

    /// Returns the node that has a slot, as far as is known.
    pub(super) fn known_node_of(&self, slot: usize) -> Option<Arc<Link>> {
        self.map.read().unwrap_or_else(PoisonError::into_inner).slots.get(slot).cloned().flatten()
    }

    async fn node_of(self: &Arc<Self>, slot: usize) -> Result<Arc<Link>, StoreError> {
        if let Some(link) = self.known_node_of(slot) {
            return Ok(link);
        }
        self.look().await?;
        self.known_node_of(slot).ok_or_else(|| StoreError::Refusing(format!("no node of the cluster has slot {slot}")))
    }

    /// Notes where a slot has gone. `address` without a host is on the host of `from`.
    fn moved(self: &Arc<Self>, slot: usize, address: &str, from: &Link) {
        let Some((host, port)) = address.rsplit_once(':') else { return };
        let Ok(port) = port.parse() else { return };
        let host = if host.is_empty() { from.host() } else { host };
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let link = self.link(&mut map.nodes, host, port);
        if let Some(place) = map.slots.get_mut(slot) {
            *place = Some(link);
        }
        drop(map);
        // Where one slot has gone, others have as well.
        drop(self.look());
    }

    /// Returns the link to a node, the one that there is already if it is known.
    fn link(&self, nodes: &mut HashMap<String, Arc<Link>>, host: &str, port: u16) -> Arc<Link> {
        let node = target::at(&self.like, host, port);
        let make = || Link::new(Place::At(Box::new(node.clone())), self.common.clone());
        nodes.entry(node.addr().to_string()).or_insert_with(make).clone()
    }

    async fn read_map(self: Arc<Self>) -> Result<(), StoreError> {
        let seeds = self.seeds.iter().map(|seed| (seed.address(), seed.clone()));
        let mut known: HashMap<_, _> =
            seeds.chain(self.nodes().into_iter().map(|node| (node.address(), node))).collect();
        let mut answers: FuturesUnordered<_> = known.values().cloned().map(ask_for_slots).collect();
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
        // Whoever has not answered by then counts as lost.
        let _ = timeout(MAP_TIMEOUT, first).await;
        let (from, ranges) = outcome?;
        let mut nodes = HashMap::new();
        let mut slots = vec![None; SLOTS];
        for Range { first, last, host, port } in ranges {
            let link = self.link(&mut known, if host.is_empty() { from.host() } else { &host }, port);
            nodes.insert(link.address(), link.clone());
            slots.get_mut(first..=last).into_iter().flatten().for_each(|slot| *slot = Some(link.clone()));
        }
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Map { nodes, slots, read_at: Some(Instant::now()) };
        Ok(())
    }
}

/// Slots that one node has.
#[derive(Debug, PartialEq)]
struct Range {
    first: usize,
    last: usize,
    /// Empty: that of the node which was asked.
    host: String,
    port: u16,
}

/// Asks a node who has which slot. Fails where the node says that it has no part in a working cluster, since its map may
/// be an old one.
async fn ask_for_slots(link: Arc<Link>) -> Result<(Arc<Link>, Vec<Range>), StoreError> {
    let mut ask = Pipeline::new();
    ask.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let answers = link.read(&ask).await.map_err(|fault| match fault.error {
        StoreError::Unavailable(text) if text.contains("cluster support disabled") => {
            StoreError::Unavailable(format!("{}: it is no node of a cluster; use redis:", link.address()))
        }
        error => error,
    })?;
    match <[Value; 2]>::try_from(answers) {
        Ok([Value::BulkString(info), slots]) => {
            if !String::from_utf8_lossy(&info).contains("cluster_state:ok") {
                return Err(StoreError::Refusing(format!("{}: CLUSTERDOWN the cluster is down", link.address())));
            }
            let Value::Array(ranges) = slots else { return Err(unreadable(&link)) };
            let ranges: Option<_> = ranges.into_iter().map(range).collect();
            ranges.map(|ranges| (link.clone(), ranges)).ok_or_else(|| unreadable(&link))
        }
        _ => Err(unreadable(&link)),
    }
}

fn unreadable(link: &Link) -> StoreError {
    StoreError::Unavailable(format!("{}: its map of slots cannot be read", link.address()))
}

/// Reads first slot, last slot, primary, replicas; the primary is host, port and more.
fn range(answer: Value) -> Option<Range> {
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
    // A node that does not know its own address, or that shall not tell it, is where it was asked.
    let host = host.filter(|host| host != "?").unwrap_or_default();
    Some(Range { first, last, host, port })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_tag_has_the_slot_that_redis_gives_it() {
        // As CLUSTER KEYSLOT says.
        for (tag, slot) in [("foo", 12_182), ("bar", 5_061), ("~directory", 10_176)] {
            assert_eq!(Cluster::slot(tag), slot, "{tag}");
        }
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_asked() {
        for (host, named) in
            [("$9\r\n127.0.0.1\r\n", "127.0.0.1"), ("$-1\r\n", ""), ("$0\r\n\r\n", ""), ("$1\r\n?\r\n", "")]
        {
            let answer = format!("*3\r\n:0\r\n:99\r\n*3\r\n{host}:7000\r\n$2\r\nid\r\n");
            let read = range(redis::parse_redis_value(answer.as_bytes()).unwrap());
            assert_eq!(read, Some(Range { first: 0, last: 99, host: named.to_owned(), port: 7_000 }));
        }
    }
}
