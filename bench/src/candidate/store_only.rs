//! Stores without anything before them: the same writes as a send of teamwire makes, and no rules.
//!
//! For each message: its body once, its id into each inbox and into the history, and its id under the idempotency key,
//! which must not have been seen; all of it at once, on disk as the store is set.

use std::{sync::Arc, thread, time::Duration};

use futures::future::BoxFuture;
use redb::{Database, TableDefinition};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection, cmd, pipe};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Mail, Shape, inbox_name, null_server};
use crate::{Result, measure::Arrivals, process::Scratch};

/// How many transactions share a commit of redb at most, as in teamwire.
const BATCH_MAX: usize = 512;

/// How many messages are read at a time, as many as a session of teamwire has unacknowledged.
const READ_MAX: usize = 64;

/// keys: bodies, ledger, history, inboxes...; args: id, idempotency key, body.
const SCRIPT: &str = "\
local seen = redis.call('HGET', KEYS[2], ARGV[2])
if seen then return seen end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for inbox = 4, #KEYS do redis.call('XADD', KEYS[inbox], '*', 'd', ARGV[1]) end
redis.call('XADD', KEYS[3], '*', 'd', ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return ARGV[1]";

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;
const BODIES: Table = TableDefinition::new("bodies");
const ENTRIES: Table = TableDefinition::new("entries");
const LEDGER: Table = TableDefinition::new("ledger");

/// What is written for one message.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its id.
    pub(crate) id: Uuid,
    /// Under which it must not have been seen.
    pub(crate) key: String,
    /// Row gets it.
    pub(crate) inboxes: Vec<String>,
    /// The message.
    pub(crate) body: Vec<u8>,
}

/// A store.
#[derive(Clone, Debug)]
pub(crate) enum PlainStore {
    /// Nothing is stored.
    Nothing,
    /// A thread that writes what has queued up in one commit.
    Redb(mpsc::Sender<(Entry, oneshot::Sender<()>)>),
    /// One connection, and the name of the script.
    Redis(MultiplexedConnection, Arc<str>),
}

impl PlainStore {
    /// Opens what a URL names, as teamwire has them; "": nothing.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        if url.is_empty() {
            return Ok(Self::Nothing);
        }
        if let Some(path) = url.strip_prefix("embedded:") {
            let database = Database::create(path)?;
            let (queue, jobs) = mpsc::channel(1024);
            thread::spawn(move || write_all(&database, jobs).expect("redb writes"));
            return Ok(Self::Redb(queue));
        }
        let mut redis = connect(url).await?;
        let script: String = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await?;
        Ok(Self::Redis(redis, script.into()))
    }

    /// Writes what a message needs, and returns when it is stored.
    pub(crate) async fn append(&self, entry: Entry) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Redb(queue) => {
                let (done, stored) = oneshot::channel();
                queue.send((entry, done)).await?;
                Ok(stored.await?)
            }
            Self::Redis(redis, script) => {
                let mut call = cmd("EVALSHA");
                call.arg(&**script).arg(3 + entry.inboxes.len()).arg("bodies").arg("ledger").arg("history");
                call.arg(&entry.inboxes).arg(entry.id.to_string()).arg(&entry.key).arg(&entry.body);
                Ok(call.exec_async(&mut redis.clone()).await?)
            }
        }
    }
}

/// Connects without a bound on how long a reply may take: some are waited for.
async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

fn write_all(database: &Database, mut jobs: mpsc::Receiver<(Entry, oneshot::Sender<()>)>) -> Result<()> {
    let (mut batch, mut sequence) = (Vec::with_capacity(BATCH_MAX), 0_u64);
    while jobs.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
        let txn = database.begin_write()?;
        {
            let (mut bodies, mut entries) = (txn.open_table(BODIES)?, txn.open_table(ENTRIES)?);
            let mut ledger = txn.open_table(LEDGER)?;
            for (entry, _) in &batch {
                let id = entry.id.as_bytes().as_slice();
                if ledger.insert(entry.key.as_bytes(), id)?.is_some() {
                    return Err("a key came twice".into());
                }
                bodies.insert(id, entry.body.as_slice())?;
                for stream in entry.inboxes.iter().map(String::as_str).chain(["history"]) {
                    sequence += 1;
                    let key = [stream.as_bytes(), &[0], &sequence.to_be_bytes()].concat();
                    entries.insert(key.as_slice(), id)?;
                }
            }
        }
        txn.commit()?;
        for (_, done) in batch.drain(..) {
            // Whoever waited may be gone.
            let _ = done.send(());
        }
    }
    Ok(())
}

/// A store that is used directly.
#[derive(Debug)]
pub(crate) struct StoreOnly {
    store: PlainStore,
    scratch: Scratch,
}

impl StoreOnly {
    /// Opens one with consumer groups on its inboxes.
    pub(crate) async fn open(scratch: Scratch, shape: Shape) -> Result<Self> {
        let store = PlainStore::open(&scratch.url).await?;
        if let PlainStore::Redis(redis, _) = &store {
            for inbox in 0..shape.inboxes {
                let mut create = cmd("XGROUP");
                create.arg("CREATE").arg(inbox_name(inbox)).arg("readers").arg("0").arg("MKSTREAM");
                create.exec_async(&mut redis.clone()).await?;
            }
        }
        Ok(Self { store, scratch })
    }
}

#[tonic::async_trait]
impl Mail for StoreOnly {
    async fn send(&self, _: usize, inbox: usize, content: String) -> Result<()> {
        let (inbox, key) = (inbox_name(inbox), Uuid::now_v7().to_string());
        let (id, body) = null_server::compose(&inbox, content);
        let inboxes = vec![inbox];
        self.store.append(Entry { id, key, inboxes, body }).await
    }

    fn receive(&self, inbox: usize, until: u64, arrivals: Arc<Arrivals>) -> BoxFuture<'static, Result<()>> {
        let (url, inbox) = (self.scratch.url.clone(), inbox_name(inbox));
        Box::pin(async move {
            if !url.starts_with("redis") {
                return Err("redb has no readers that wait".into());
            }
            // Of its own, since whoever waits there keeps all others waiting.
            let mut redis = connect(&url).await?;
            let mut taken = 0;
            while taken < until {
                let mut read = cmd("XREADGROUP");
                read.arg("GROUP").arg("readers").arg("one").arg("COUNT").arg(READ_MAX).arg("BLOCK").arg(0);
                type Streams = Vec<(String, Vec<(String, (String, String))>)>;
                let read: Streams = read.arg("STREAMS").arg(&inbox).arg(">").query_async(&mut redis).await?;
                let entries: Vec<_> = read.into_iter().flat_map(|(_, entries)| entries).collect();
                let (places, ids): (Vec<_>, Vec<_>) = entries.into_iter().map(|(at, (_, id))| (at, id)).unzip();
                let bodies: Vec<Vec<u8>> = cmd("HMGET").arg("bodies").arg(&ids).query_async(&mut redis).await?;
                for body in &bodies {
                    arrivals.record(&null_server::content(body)?)?;
                }
                let mut done = pipe();
                done.atomic().cmd("XACK").arg(&inbox).arg("readers").arg(&places).ignore();
                done.cmd("XDEL").arg(&inbox).arg(&places).ignore();
                done.exec_async(&mut redis).await?;
                taken += bodies.len() as u64;
            }
            Ok(())
        })
    }

    fn cpu(&self) -> Result<Option<Duration>> {
        // All other stores work in this process.
        self.scratch.cpu()
    }
}
