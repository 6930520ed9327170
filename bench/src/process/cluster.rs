//! Redis Clusters.

use std::{fs, path::Path, time::Duration};

use redis::{RedisResult, aio::MultiplexedConnection, cmd};
use tempfile::TempDir;
use tokio::time::sleep;

use super::{POLL_INTERVAL, Process, free_port, scratch::redis_server};
use crate::Result;

/// How many nodes it has.
const NODES: usize = 3;

/// How many slots they share.
const SLOTS: usize = 16_384;

/// A Redis Cluster of three primaries, which flush their logs every second.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The URL of the store.
    pub(crate) url: String,
    nodes: Vec<Node>,
    /// Dropped last.
    directory: TempDir,
}

#[derive(Debug)]
struct Node {
    process: Process,
    connection: MultiplexedConnection,
}

/// What all nodes together use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterUsage {
    /// CPU time.
    pub(crate) cpu: Duration,
    /// The memory of the data, in bytes, without fragmentation.
    pub(crate) data: f64,
    /// The bytes in their logs.
    pub(crate) log: f64,
    /// The commands that they have executed, those in functions included.
    pub(crate) commands: f64,
    /// The bytes that they have received and sent, other nodes excluded.
    pub(crate) network: f64,
}

impl Cluster {
    /// Starts it below a directory, and waits until all nodes agree on the slots.
    pub(crate) async fn start(below: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(below)?;
        let (mut nodes, mut addresses) = (Vec::new(), Vec::new());
        for at in 0..NODES {
            let (port, bus) = (free_port()?, free_port()?);
            let own = directory.path().join(format!("redis-{at}"));
            fs::create_dir(&own)?;
            let mut command = redis_server(port, "everysec")?;
            command.args(["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]);
            // The log is measured, so it only grows.
            command.args(["--auto-aof-rewrite-percentage", "0"]);
            let mut process = Process::start(command, &own, "redis")?;
            process.await_port(port).await?;
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
            let mut node = Node { process, connection: client.get_multiplexed_async_connection().await? };
            let (first, last) = (at * SLOTS / NODES, (at + 1) * SLOTS / NODES - 1);
            node.tell(&["ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await?;
            node.tell(&["SET-CONFIG-EPOCH", &(at + 1).to_string()]).await?;
            addresses.push((port.to_string(), bus.to_string()));
            if at > 0 {
                node.tell(&["MEET", "127.0.0.1", &addresses[0].0, &addresses[0].1]).await?;
            }
            nodes.push(node);
        }
        let url = format!("redis+cluster://127.0.0.1:{}", addresses[0].0);
        let cluster = Self { url, nodes, directory };
        for node in &cluster.nodes {
            let mut connection = node.connection.clone();
            loop {
                let info: String = cmd("CLUSTER").arg("INFO").query_async(&mut connection).await?;
                let known = [format!("cluster_known_nodes:{NODES}\r"), format!("cluster_size:{NODES}\r")];
                if info.contains("cluster_state:ok") && known.iter().all(|is| info.contains(is.as_str())) {
                    break;
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(cluster)
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns what all nodes together use.
    pub(crate) async fn usage(&self) -> Result<ClusterUsage> {
        let mut all = ClusterUsage::default();
        for node in &self.nodes {
            let mut connection = node.connection.clone();
            let info: String = cmd("INFO").arg("all").query_async(&mut connection).await?;
            let number = |key: &str| -> Result<f64> {
                let found =
                    info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.trim().parse().ok());
                found.ok_or_else(|| format!("Redis does not report {key}").into())
            };
            all.cpu += node.process.usage()?.cpu;
            all.data += number("used_memory_dataset")?;
            all.log += number("aof_current_size")?;
            all.commands += number("total_commands_processed")?;
            all.network += number("total_net_input_bytes")? + number("total_net_output_bytes")?;
        }
        Ok(all)
    }
}

impl Node {
    async fn tell(&mut self, command: &[&str]) -> RedisResult<()> {
        cmd("CLUSTER").arg(command).query_async(&mut self.connection).await
    }
}
