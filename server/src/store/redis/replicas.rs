//! Waits until replicas have a commit.
//!
//! `WAIT` blocks its connection, so it gets a separate connection to the same server. It waits only for writes made
//! earlier on that very connection. But a server has a single replication log, so a mark that is set there after a
//! commit was acknowledged comes later in the log, and a replica that has the mark has the commit. One mark and one
//! `WAIT` make a *round*, which covers every commit acknowledged before the round began.

use std::{sync::Arc, time::Duration};

use redis::{AsyncConnectionConfig, Client, ConnectionInfo, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    error::is_function_missing,
    functions::{Function, FunctionLibrary},
};
use crate::store::StoreError;

/// The maximum number of commits that wait for a round. Further commits count as not replicated.
const WAITING_MAX: usize = 8_192;

/// How long connecting may take, and how late the server may answer after the policy's timeout.
const GRACE: Duration = Duration::from_millis(1_500);

/// How many characters of a replication ID identify it.
const HISTORY_LENGTH: usize = 16;

/// How commits wait for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicationPolicy {
    /// The number of replicas that must have a commit.
    pub(super) replicas: u32,
    /// How long they may take. A commit acknowledged during a round also waits for that round to end.
    pub(super) timeout: Duration,
    /// Whether those replicas and the primary must have it on disk. Requires `WAITAOF`: Redis 7.2, or Valkey.
    pub(super) fsync: bool,
}

/// Runs rounds at one server until dropped.
pub(super) struct ReplicaWaits {
    waiting: mpsc::Sender<Waiter>,
}

/// An acknowledged commit that waits for replicas.
struct Waiter {
    /// A key of its namespace, to use as the mark.
    mark: String,
    /// The history under which it was acknowledged, which starts with the replication ID. Each replication ID has its
    /// own log.
    history: Arc<str>,
    reached: oneshot::Sender<Result<(), String>>,
}

impl ReplicaWaits {
    /// Starts rounds at a server. Requires a Tokio runtime.
    pub(super) fn start(server: ConnectionInfo, functions: Arc<FunctionLibrary>, policy: ReplicationPolicy) -> Self {
        let (waiting, waiters) = mpsc::channel(WAITING_MAX);
        tokio::spawn(run(server, functions, policy, waiters));
        Self { waiting }
    }

    /// Waits until replicas have a commit that was acknowledged under `history`. `mark` is a key that may be set and
    /// deleted.
    pub(super) async fn wait(&self, mark: String, history: Arc<str>) -> Result<(), StoreError> {
        let (reached, outcome) = oneshot::channel();
        let waiting = self.waiting.try_send(Waiter { mark, history, reached });
        let outcome = match waiting {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err("the wait for replicas was canceled".to_owned())),
            Err(_) => Err("too many commits are waiting for replicas".to_owned()),
        };
        outcome.map_err(StoreError::DurabilityNotReached)
    }
}

async fn run(
    server: ConnectionInfo,
    functions: Arc<FunctionLibrary>,
    policy: ReplicationPolicy,
    mut waiters: mpsc::Receiver<Waiter>,
) {
    let mut connection = None;
    while let Some(first) = waiters.recv().await {
        let mut served = vec![first];
        while let Ok(more) = waiters.try_recv() {
            served.push(more);
        }
        let outcome = round(&mut connection, &server, &functions, policy, &served[0].mark).await;
        if outcome.is_err() {
            connection = None;
        }
        for waiting in served {
            let reached = match &outcome {
                Ok((_, history)) if !waiting.history.starts_with(&**history) => {
                    Err(format!("{}: its replication history has changed", server.addr()))
                }
                Ok((replicas, _)) if *replicas < policy.replicas => {
                    let ReplicationPolicy { replicas: required, timeout, .. } = policy;
                    Err(format!("{}: {replicas} of {required} replicas have it after {timeout:?}", server.addr()))
                }
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{}: {error}", server.addr())),
            };
            // The caller may be gone.
            let _ = waiting.reached.send(reached);
        }
    }
}

/// Sets a mark. Returns how many replicas have it, and the history under which it was set.
async fn round(
    connection: &mut Option<MultiplexedConnection>,
    server: &ConnectionInfo,
    functions: &FunctionLibrary,
    policy: ReplicationPolicy,
    mark: &str,
) -> Result<(u32, String), RedisError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connect(server, policy).await?),
    };
    let mut pipeline = Pipeline::new();
    pipeline.cmd("FCALL").arg(functions.name_of(Function::Mark)).arg(1).arg(mark).ignore();
    let wait_ms = u64::try_from(policy.timeout.as_millis()).unwrap_or(u64::MAX);
    if policy.fsync {
        pipeline.cmd("WAITAOF").arg(1).arg(policy.replicas).arg(wait_ms);
    } else {
        pipeline.cmd("WAIT").arg(policy.replicas).arg(wait_ms);
    }
    // Read the history after the wait, so that a change during the wait is noticed.
    pipeline.cmd("INFO").arg("replication");
    let mut answer: Result<(Value, String), _> = pipeline.query_async(connection).await;
    if answer.as_ref().is_err_and(is_function_missing) {
        functions.load().query_async::<Value>(connection).await?;
        answer = pipeline.query_async(connection).await;
    }
    let (reached, info) = answer?;
    let replicas = if policy.fsync {
        let (primary, replicas): (u32, u32) = redis::from_redis_value(reached)?;
        // If the primary itself does not have it on disk, the replicas count for nothing.
        replicas * primary.min(1)
    } else {
        redis::from_redis_value(reached)?
    };
    Ok((replicas, history_in(&info).to_owned()))
}

async fn connect(server: &ConnectionInfo, policy: ReplicationPolicy) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(policy.timeout + GRACE));
    let client = Client::open(server.clone())?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    timeout(GRACE, connecting).await.unwrap_or_else(|late| Err(std::io::Error::from(late).into()))
}

/// Returns the start of the replication ID in the output of `INFO replication`. Empty if there is none.
pub(super) fn history_in(info: &str) -> &str {
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
    id.and_then(|id| id.get(..HISTORY_LENGTH)).unwrap_or_default()
}
