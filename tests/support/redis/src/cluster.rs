//! A cluster of three primaries.

#![allow(clippy::unwrap_used)]

use super::server::{Flavor, IN_MEMORY, TestRedis, eventually, free_port};

/// How many slots a cluster has.
const SLOTS: usize = 16_384;

/// Three nodes, each with a third of the slots. Killed when dropped.
#[derive(Debug)]
pub struct TestCluster {
    pub nodes: Vec<TestRedis>,
}

impl TestCluster {
    /// Starts a cluster. Returns once all of its nodes agree on who has which slot, and each is linked to each: a node
    /// drops what it publishes over a missing link.
    pub async fn start() -> Option<Self> {
        let nodes: Option<Vec<_>> = (0..3).map(|_| TestRedis::with_all(Flavor::Redis, settings)).collect();
        let cluster = Self { nodes: nodes? };
        let first = &cluster.nodes[0];
        let (port, bus) = (first.port().to_string(), first.setting("--cluster-port"));
        for (at, node) in cluster.nodes.iter().enumerate() {
            let (from, to) = ((at * SLOTS / 3).to_string(), ((at + 1) * SLOTS / 3 - 1).to_string());
            node.tell(&["CLUSTER", "ADDSLOTSRANGE", &from, &to]).await;
            node.tell(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]).await;
            if at > 0 {
                node.tell(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
            }
        }
        eventually("the cluster is up", async || {
            for node in &cluster.nodes {
                let info: String = redis::from_redis_value(node.tell(&["CLUSTER", "INFO"]).await).unwrap();
                let nodes: String = redis::from_redis_value(node.tell(&["CLUSTER", "NODES"]).await).unwrap();
                if !["cluster_state:ok", "cluster_known_nodes:3", "cluster_size:3"].iter().all(|is| info.contains(is))
                    || !nodes.lines().all(|node| node.contains(" connected") && !node.contains("handshake"))
                {
                    return false;
                }
            }
            true
        })
        .await;
        Some(cluster)
    }

    /// Starts another node, which takes over when one of the first dies. Returns once all know it and it has all.
    pub async fn start_replica_of(&mut self, node: usize) {
        let replica = TestRedis::with_all(Flavor::Redis, settings).unwrap();
        let (port, bus) = (self.nodes[0].port().to_string(), self.nodes[0].setting("--cluster-port"));
        replica.tell(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        self.nodes.push(replica);
        let (replica, primary) = (&self.nodes[3], self.id(node).await);
        eventually("the replica knows its primary", async || {
            let mut follow = redis::cmd("CLUSTER");
            follow.arg("REPLICATE").arg(&primary);
            follow.query_async::<()>(&mut replica.connection().await).await.is_ok()
        })
        .await;
        eventually("the replica follows, and all know", async || {
            for node in &self.nodes {
                let nodes: String = redis::from_redis_value(node.tell(&["CLUSTER", "NODES"]).await).unwrap();
                if !nodes.contains(&format!("slave {primary}")) {
                    return false;
                }
            }
            replica.info("replication").await.contains("master_link_status:up")
        })
        .await;
    }

    /// Returns its URL, which names but one node.
    pub fn url(&self) -> String {
        self.nodes[0].url().replace("redis://", "redis+cluster://")
    }

    /// Returns the node that has a slot, once all agree on it.
    pub async fn owner(&self, slot: usize) -> Option<usize> {
        let mut owners = Vec::new();
        for node in &self.nodes {
            let redis::Value::Array(ranges) = node.tell(&["CLUSTER", "SLOTS"]).await else { panic!("no list") };
            owners.push(ranges.iter().find_map(|range| owner_in(range, slot)));
        }
        owners.dedup();
        let [Some(port)] = owners[..] else { return None };
        self.nodes.iter().position(|node| node.port() == port)
    }

    /// Declares that a slot is on its way from one node to another, as the tools of Redis do.
    pub async fn begin_move(&self, slot: usize, from: usize, to: usize) {
        let (slot, source, target) = (slot.to_string(), self.id(from).await, self.id(to).await);
        self.nodes[to].tell(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
        self.nodes[from].tell(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]).await;
    }

    /// Moves the slot key by key, then hands it over. Returns once all nodes know.
    pub async fn end_move(&self, slot: usize, from: usize, to: usize) {
        let (number, port, target) = (slot.to_string(), self.nodes[to].port().to_string(), self.id(to).await);
        loop {
            let keys = self.nodes[from].tell(&["CLUSTER", "GETKEYSINSLOT", &number, "1"]).await;
            let keys: Vec<String> = redis::from_redis_value(keys).unwrap();
            let Some(key) = keys.first() else { break };
            self.nodes[from].tell(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]).await;
        }
        for node in [to, from] {
            self.nodes[node].tell(&["CLUSTER", "SETSLOT", &number, "NODE", &target]).await;
        }
        eventually("all nodes know where the slot is", async || self.owner(slot).await == Some(to)).await;
    }

    async fn id(&self, node: usize) -> String {
        redis::from_redis_value(self.nodes[node].tell(&["CLUSTER", "MYID"]).await).unwrap()
    }
}

/// The settings of a node, with a separate port for the cluster bus.
fn settings() -> Vec<String> {
    let bus = free_port().to_string();
    let own = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
    IN_MEMORY.iter().chain(&own).map(|&setting| setting.to_owned()).collect()
}

/// Returns the port of the primary, if the slot is in the range: first slot, last slot, [host, port, ...].
fn owner_in(range: &redis::Value, slot: usize) -> Option<u16> {
    let (redis::Value::Array(parts), slot) = (range, i64::try_from(slot).unwrap()) else { return None };
    match &parts[..] {
        [redis::Value::Int(first), redis::Value::Int(last), redis::Value::Array(primary), ..]
            if (*first..=*last).contains(&slot) =>
        {
            redis::from_redis_value(primary[1].clone()).ok()
        }
        _ => None,
    }
}
