//! A store that makes the same writes as a send of teamwire, and applies no rules.
//!
//! For each message it writes the body once, the id to each inbox and to the history, and the id under the idempotency
//! key, which must be unused. All of it is one transaction, as durable as the store is configured. An acknowledgement
//! removes messages from an inbox and writes a receipt for each, in one transaction, too.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt as _, sync::Arc, thread};

use redis::{AsyncConnectionConfig, aio::MultiplexedConnection, cmd};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::Result;

/// How many transactions may share a flush of the log, as in teamwire.
const BATCH_MAX: usize = 512;

/// How large the log is, and how it grows: as teamwire's.
const LOG_BYTES: u64 = 8 * 1024 * 1024;
const EXTENSION_BYTES: usize = 64 * 1024;
const SECTOR_BYTES: usize = 512;

/// KEYS: bodies, ledger, history, inboxes...; ARGV: id, idempotency key, body.
const SCRIPT: &str = "\
local seen = redis.call('HGET', KEYS[2], ARGV[2])
if seen then return seen end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
for inbox = 4, #KEYS do redis.call('XADD', KEYS[inbox], '*', 'd', ARGV[1]) end
redis.call('XADD', KEYS[3], '*', 'd', ARGV[1])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return ARGV[1]";

/// KEYS: inbox, receipts; ARGV: ids of the oldest messages in the inbox.
const ACK_SCRIPT: &str = "\
redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(redis.call('XLEN', KEYS[1]) - #ARGV, 0))
for _, id in ipairs(ARGV) do redis.call('HSET', KEYS[2], id, '1') end";

/// A transaction.
#[derive(Debug)]
pub(crate) enum Write {
    Message(Entry),
    /// The oldest messages of an inbox are acknowledged.
    Acks {
        inbox: String,
        ids: Vec<String>,
    },
}

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
    /// The queue of a thread that writes all queued transactions to a log, and flushes it once for them.
    Log(mpsc::Sender<(Write, oneshot::Sender<()>)>),
    /// A connection, and the hashes of the scripts for a message and for acknowledgements.
    Redis(MultiplexedConnection, Arc<[String; 2]>),
}

impl PlainStore {
    /// Opens the store of a URL, in teamwire's format. The empty URL stores nothing.
    pub(crate) async fn open(url: &str) -> Result<Self> {
        if url.is_empty() {
            return Ok(Self::Nothing);
        }
        if let Some(path) = url.strip_prefix("embedded:") {
            let mut log = Log::create(path)?;
            let (queue, jobs) = mpsc::channel(1024);
            thread::spawn(move || log.write_all(jobs).expect("the log is written"));
            return Ok(Self::Log(queue));
        }
        let mut redis = connect(url).await?;
        let mut scripts = [SCRIPT.to_owned(), ACK_SCRIPT.to_owned()];
        for script in &mut scripts {
            *script = cmd("SCRIPT").arg("LOAD").arg(&*script).query_async(&mut redis).await?;
        }
        Ok(Self::Redis(redis, scripts.into()))
    }

    /// Writes a transaction, and returns when it is stored.
    pub(crate) async fn append(&self, write: Write) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Log(queue) => {
                let (done, stored) = oneshot::channel();
                queue.send((write, done)).await?;
                Ok(stored.await?)
            }
            Self::Redis(redis, scripts) => {
                let mut call = cmd("EVALSHA");
                match write {
                    Write::Message(entry) => {
                        call.arg(&scripts[0]).arg(3 + entry.inboxes.len()).arg("bodies").arg("ledger").arg("history");
                        call.arg(&entry.inboxes).arg(entry.id.to_string()).arg(&entry.key).arg(&entry.body);
                    }
                    Write::Acks { inbox, ids } => {
                        call.arg(&scripts[1]).arg(2).arg(inbox).arg("receipts").arg(ids);
                    }
                }
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

/// A log, as teamwire's embedded store has one: extended in pieces, so that a flush need not record a new length, and
/// written from its beginning again when it is full.
struct Log {
    file: File,
    /// Where the next record goes.
    at: u64,
    /// How much the file has.
    extended: u64,
    /// The ids under the idempotency keys.
    ledger: HashMap<String, Uuid>,
}

impl Log {
    fn create(path: &str) -> Result<Self> {
        Ok(Self { file: File::create_new(path)?, at: 0, extended: 0, ledger: HashMap::new() })
    }

    fn write_all(&mut self, mut jobs: mpsc::Receiver<(Write, oneshot::Sender<()>)>) -> Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while jobs.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
            let mut record = Vec::new();
            for (write, _) in &batch {
                let parts: Vec<&[u8]> = match write {
                    Write::Message(entry) => {
                        if self.ledger.insert(entry.key.clone(), entry.id).is_some() {
                            return Err("an idempotency key was used twice".into());
                        }
                        let streams = entry.inboxes.iter().map(String::as_bytes).chain([&b"history"[..]]);
                        [entry.id.as_bytes(), entry.key.as_bytes(), &entry.body].into_iter().chain(streams).collect()
                    }
                    Write::Acks { inbox, ids } => [inbox].into_iter().chain(ids).map(String::as_bytes).collect(),
                };
                for part in parts {
                    record.extend_from_slice(&u32::try_from(part.len())?.to_le_bytes());
                    record.extend_from_slice(part);
                }
            }
            record.resize(record.len().next_multiple_of(SECTOR_BYTES), 0);
            self.append(&record)?;
            for (_, done) in batch.drain(..) {
                // The caller may have been cancelled.
                let _ = done.send(());
            }
        }
        Ok(())
    }

    fn append(&mut self, record: &[u8]) -> Result<()> {
        let bytes = record.len() as u64;
        if self.at + bytes > LOG_BYTES {
            self.at = 0;
        }
        while self.extended < self.at + bytes {
            self.file.write_all_at(&[0; EXTENSION_BYTES], self.extended)?;
            self.extended += EXTENSION_BYTES as u64;
        }
        self.file.write_all_at(record, self.at)?;
        self.file.sync_data()?;
        self.at += bytes;
        Ok(())
    }
}
