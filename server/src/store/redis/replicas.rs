//! Waits until replicas have what was committed.
//!
//! `WAIT` blocks its connection, so it has one of its own, to the same server. It waits for what came before on that very
//! connection; but a server has one log of changes for all, so a mark that is set there after a commit was answered
//! elsewhere comes later in that log, and whoever has the mark has the commit. One mark and one `WAIT` are a *round*, which
//! serves all commits that were answered before it began.

use std::{sync::Arc, time::Duration};

use redis::{AsyncConnectionConfig, Client, ConnectionInfo, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    fault::is_function_missing,
    library::{Function, Library},
    link::history_in,
};
use crate::store::StoreError;

/// How many commits may wait for a round. A commit beyond that counts as not replicated.
const WAITING_MAX: usize = 8_192;

/// How long making the connection may take, and how long the server may be late with its answer.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// How durable a commit shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// How many replicas shall have it.
    pub(super) replicas: u32,
    /// How long they may take. A commit that is answered while a round is under way waits for that one as well.
    pub(super) wait: Duration,
    /// They and the primary itself shall have it on disk, which takes `WAITAOF`: Redis 7.2, or Valkey.
    pub(super) on_disk: bool,
}

/// The rounds at one server. They end when this is dropped.
pub(super) struct Rounds {
    waiting: mpsc::Sender<Waiting>,
}

/// A commit that was answered.
struct Waiting {
    /// A key of its namespace.
    mark: String,
    /// The history under which it was answered: the log is that of one history.
    history: Arc<str>,
    reached: oneshot::Sender<Result<(), String>>,
}

impl Rounds {
    /// Starts rounds at a server. Must be called within a Tokio runtime.
    pub(super) fn start(server: ConnectionInfo, library: Arc<Library>, wanted: Wanted) -> Self {
        let (waiting, waiters) = mpsc::channel(WAITING_MAX);
        tokio::spawn(run(server, library, wanted, waiters));
        Self { waiting }
    }

    /// Waits until replicas have a commit that was answered under a history; `mark` is a key that may be set and deleted.
    pub(super) async fn reached(&self, mark: String, history: Arc<str>) -> Result<(), StoreError> {
        let (reached, outcome) = oneshot::channel();
        let waiting = self.waiting.try_send(Waiting { mark, history, reached });
        let outcome = match waiting {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err("the wait for replicas was cut off".to_owned())),
            Err(_) => Err("too many commits wait for replicas".to_owned()),
        };
        outcome.map_err(StoreError::DurabilityNotReached)
    }
}

async fn run(server: ConnectionInfo, library: Arc<Library>, wanted: Wanted, mut waiters: mpsc::Receiver<Waiting>) {
    let mut connection = None;
    while let Some(first) = waiters.recv().await {
        let mut served = vec![first];
        while let Ok(more) = waiters.try_recv() {
            served.push(more);
        }
        let outcome = round(&mut connection, &server, &library, wanted, &served[0].mark).await;
        if outcome.is_err() {
            connection = None;
        }
        for waiting in served {
            let reached = match &outcome {
                Ok((_, history)) if **history != *waiting.history => {
                    Err(format!("{}: it is another server by now, or began anew", server.addr()))
                }
                Ok((replicas, _)) if *replicas < wanted.replicas => {
                    let (wanted, wait) = (wanted.replicas, wanted.wait);
                    Err(format!("{}: {replicas} of {wanted} replicas have it after {wait:?}", server.addr()))
                }
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{}: {error}", server.addr())),
            };
            // The caller may have gone.
            let _ = waiting.reached.send(reached);
        }
    }
}

/// Sets a mark and returns how many replicas have it, and the history that it was set under.
async fn round(
    connection: &mut Option<MultiplexedConnection>,
    server: &ConnectionInfo,
    library: &Library,
    wanted: Wanted,
    mark: &str,
) -> Result<(u32, String), RedisError> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(connect(server, wanted).await?),
    };
    let mut ask = Pipeline::new();
    ask.cmd("FCALL").arg(library.name_of(Function::Mark)).arg(1).arg(mark).ignore();
    let wait_ms = u64::try_from(wanted.wait.as_millis()).unwrap_or(u64::MAX);
    if wanted.on_disk {
        ask.cmd("WAITAOF").arg(1).arg(wanted.replicas).arg(wait_ms);
    } else {
        ask.cmd("WAIT").arg(wanted.replicas).arg(wait_ms);
    }
    // After the wait: a server that changed its history meanwhile is found out.
    ask.cmd("INFO").arg("replication");
    let mut answer: Result<(Value, String), _> = ask.query_async(connection).await;
    if answer.as_ref().is_err_and(is_function_missing) {
        library.load().query_async::<Value>(connection).await?;
        answer = ask.query_async(connection).await;
    }
    let (reached, info) = answer?;
    let replicas = if wanted.on_disk {
        let (primary, replicas): (u32, u32) = redis::from_redis_value(reached)?;
        // Without it on its own disk, what the replicas have counts for nothing.
        replicas * primary.min(1)
    } else {
        redis::from_redis_value(reached)?
    };
    Ok((replicas, history_in(&info).to_owned()))
}

async fn connect(server: &ConnectionInfo, wanted: Wanted) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(wanted.wait + PATIENCE));
    let client = Client::open(server.clone())?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    timeout(PATIENCE, connecting).await.unwrap_or_else(|late| Err(std::io::Error::from(late).into()))
}
