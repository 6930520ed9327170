//! The candidates: teamwire, the baselines that it builds on, and the peers that could replace it.

mod file;
pub(crate) mod grpc;
mod nats;
pub(crate) mod null_server;
mod payload;
mod plain_store;
mod rabbit;
mod store_only;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;

use crate::{Bench, Result, Store, measure::Arrivals, process::Scratch};

/// The name of every team.
pub(crate) const TEAM: &str = "bench";

/// The summary of every message.
pub(crate) const SUMMARY: &str = "a message of the benchmark";

/// A system that takes messages for inboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// The released build of the coordinator, in its own process, through the Rust client.
    Teamwire(Store),
    /// The same with calls, none of which travels in a frame.
    TeamwireCalls(Store),
    /// [`null_server`] with a store or without, through the same client.
    NullServer(Option<Store>),
    /// The same, which also stores acknowledgements.
    NullServerWithAcks(Store),
    /// [`store_only`], without a server.
    StoreOnly(Store),
    /// The same, which also writes a receipt for each message.
    StoreOnlyWithReceipts(Store),
    /// NATS `JetStream`. `true` if it flushes every write before it replies.
    Nats(bool),
    /// `RabbitMQ` with durable queues. If `true`, with quorum queues, which flush before they confirm.
    Rabbit(bool),
    /// A JSON file per inbox.
    File,
}

/// The load on a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The number of concurrent callers.
    pub(crate) callers: usize,
    /// The number of inboxes.
    pub(crate) inboxes: usize,
}

impl Shape {
    /// Returns the number of connections that the callers share.
    pub(crate) fn connections(self) -> usize {
        self.callers.div_ceil(16).min(32)
    }
}

/// A running candidate.
#[tonic::async_trait]
pub(crate) trait Mail: Send + Sync {
    /// Sends a message, and returns when it is confirmed.
    async fn send(&self, caller: usize, inbox: usize, content: String) -> Result<()>;

    /// Receives and acknowledges a number of messages.
    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>>;

    /// Returns the CPU time of all its processes. `None` if it has none.
    fn cpu(&self) -> Result<Option<Duration>> {
        Ok(None)
    }

    /// Returns the CPU time of its Redis. `None` if it uses none.
    fn redis_cpu(&self) -> Result<Option<Duration>> {
        Ok(None)
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Teamwire(store) => write!(f, "**teamwire**, {store}"),
            Self::TeamwireCalls(store) => write!(f, "teamwire with calls, {store}"),
            Self::NullServer(None) => f.write_str("null server, no store"),
            Self::NullServer(Some(store)) => write!(f, "null server, {store}"),
            Self::NullServerWithAcks(store) => write!(f, "null server that stores acks, {store}"),
            Self::StoreOnly(store) => write!(f, "store only, {store}"),
            Self::StoreOnlyWithReceipts(store) => write!(f, "store only with receipts, {store}"),
            Self::Nats(true) => f.write_str("NATS JetStream, sync always"),
            Self::Nats(false) => f.write_str("NATS JetStream, default sync"),
            Self::Rabbit(true) => f.write_str("RabbitMQ, quorum queues"),
            Self::Rabbit(false) => f.write_str("RabbitMQ, classic queues"),
            Self::File => f.write_str("JSON file under a lock"),
        }
    }
}

impl Candidate {
    /// Returns what its OK guarantees.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Teamwire(Store::RedisEverysec) | Self::TeamwireCalls(Store::RedisEverysec) => {
                "written, on disk within 1 s; rules, roster, dedupe, order, history, receipts"
            }
            Self::Teamwire(_) | Self::TeamwireCalls(_) => {
                "on disk (fsync); rules, roster, dedupe, order, history, receipts"
            }
            Self::NullServer(None) => "nothing",
            Self::NullServer(Some(Store::RedisEverysec)) | Self::StoreOnly(Store::RedisEverysec) => {
                "written, on disk within 1 s; dedupe, history"
            }
            Self::NullServer(Some(_)) | Self::StoreOnly(_) => "on disk (fsync); dedupe, history",
            Self::NullServerWithAcks(Store::RedisEverysec) | Self::StoreOnlyWithReceipts(Store::RedisEverysec) => {
                "written, on disk within 1 s; dedupe, history, receipts"
            }
            Self::NullServerWithAcks(_) | Self::StoreOnlyWithReceipts(_) => {
                "on disk (fsync); dedupe, history, receipts"
            }
            Self::Nats(true) => "on disk (fsync); dedupe for 2 min, order, history",
            Self::Nats(false) => "written, on disk within 2 min; dedupe for 2 min, order, history",
            Self::Rabbit(true) => "on disk (fsync); order",
            Self::Rabbit(false) => "written or received, flushed later; order",
            Self::File => "in the file, no fsync; order",
        }
    }

    /// Starts it for a load.
    pub(crate) async fn open(self, bench: &Bench, shape: Shape) -> Result<Arc<dyn Mail>> {
        let below = &bench.directory;
        Ok(match self {
            Self::Teamwire(store) => Arc::new(grpc::Team::of_teamwire(bench, store, shape).await?),
            Self::TeamwireCalls(store) => Arc::new(grpc::Team::after_calls(u32::MAX, bench, store, shape).await?),
            Self::NullServer(store) => Arc::new(grpc::Team::of_null_server(bench, store, false, shape).await?),
            Self::NullServerWithAcks(store) => {
                Arc::new(grpc::Team::of_null_server(bench, Some(store), true, shape).await?)
            }
            Self::StoreOnly(store) | Self::StoreOnlyWithReceipts(store) => {
                let scratch = Scratch::prepare(below, Some(store)).await?;
                let with_receipts = matches!(self, Self::StoreOnlyWithReceipts(_));
                Arc::new(store_only::StoreOnly::open(scratch, with_receipts, shape).await?)
            }
            Self::Nats(sync_always) => Arc::new(nats::Nats::open(below, sync_always, shape).await?),
            Self::Rabbit(quorum) => Arc::new(rabbit::Rabbit::open(below, quorum, shape).await?),
            Self::File => Arc::new(file::Files::open(Scratch::prepare(below, None).await?)),
        })
    }
}

/// Returns the name of an inbox and its member.
pub(crate) fn inbox_name(inbox: usize) -> String {
    format!("inbox-{inbox}")
}
