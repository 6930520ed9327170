//! A store that makes the same writes as a send of teamwire, and applies no rules.
//!
//! For each message it writes the body once, the id to each inbox and to the history, and the id under the idempotency
//! key, which must be unused. All of it is one transaction, as durable as the store is configured.

use std::{sync::Arc, thread};

use redb::{Database, TableDefinition};
use redis::{AsyncConnectionConfig, aio::MultiplexedConnection, cmd};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::Result;

/// How many transactions may share a commit of redb, as in teamwire.
const BATCH_MAX: usize = 512;

/// KEYS: bodies, ledger, history, inboxes...; ARGV: id, idempotency key, body.
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

/// A message to write.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its id.
    pub(crate) id: Uuid,
    /// The idempotency key, which must be unused.
    pub(crate) key: String,
    /// The inboxes that get it.
    pub(crate) inboxes: Vec<String>,
    /// The encoded message.
    pub(crate) body: Vec<u8>,
}

/// A store.
#[derive(Clone, Debug)]
pub(crate) enum PlainStore {
    /// Stores nothing.
    Nothing,
    /// The queue of a thread that writes all queued messages in one commit.
    Redb(mpsc::Sender<(Entry, oneshot::Sender<()>)>),
    /// A connection, and the hash of the script.
    Redis(MultiplexedConnection, Arc<str>),
}

impl PlainStore {
    /// Opens the store of a URL, in teamwire's format. The empty URL stores nothing.
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

    /// Writes a message, and returns when it is stored.
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

/// Connects without a timeout for replies, since some commands block.
pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection> {
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
                    return Err("an idempotency key was used twice".into());
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
            // The caller may have been cancelled.
            let _ = done.send(());
        }
    }
    Ok(())
}
