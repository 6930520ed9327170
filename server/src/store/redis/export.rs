//! Reads everything in Redis, each namespace as of one instant.
//!
//! A namespace cannot be read in one command: its reply would have to fit into memory, here and in the server. Reading
//! it in parts until no commit comes in between would never end for a busy team. So a function copies the keys of the
//! namespace under other names (`x:<id>:` in front of what follows the namespace), which takes one step and no
//! transfer. The copy is then read in parts, and deleted. One copy exists at a time, besides that of the directory; if
//! this coordinator dies, it expires.
//!
//! The directory is copied first and read last. A namespace that was created after that is left out, so everything in
//! an export existed when the directory was copied.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use redis::{Pipeline, Value};
use tokio::sync::mpsc;

use super::{
    RedisStore,
    functions::Function,
    keys::Keys,
    reply::{array, bytes_of, entry, number, pairs, unparsable, weight_of},
};
use crate::store::{
    Export, Item, Namespace, StoreError,
    export::{in_order, send},
};

/// How long a copy lives unless it is deleted. Reading a namespace must not take longer.
const COPY_TTL: Duration = Duration::from_secs(60 * 60);

/// How many keys, fields or entries a server is asked for at once. A record can be as large as a message.
const PAGE: usize = 64;

/// How many keys a server examines at once while it looks for namespaces.
const SCAN_PAGE: usize = 1_000;

/// A copy of a namespace.
struct Copied {
    namespace: Namespace,
    /// The names of the copied keys, without the prefix, and with it.
    kinds: Vec<(String, String)>,
    streams: Vec<(String, String, u64)>,
    leases: String,
    replies: Vec<String>,
    version: u64,
    /// When it was made, by the server's clock.
    made_us: u64,
    /// The version of the commit that created the namespace, which is a time, too.
    born_us: u64,
}

#[async_trait]
impl Export for RedisStore {
    fn kind(&self) -> &'static str {
        "redis"
    }

    async fn namespaces(&self) -> Result<Vec<Namespace>, StoreError> {
        let mut found = BTreeSet::new();
        self.topology.check().await;
        for server in self.topology.servers() {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = Pipeline::new();
                scan.cmd("SCAN").arg(&cursor).arg("MATCH").arg(self.keys.any_meta()).arg("COUNT").arg(SCAN_PAGE);
                let mut answers = server.read(&scan).await.map_err(|failed| failed.error)?;
                let (next, keys) = page(answers.pop().ok_or_else(unparsable)?)?;
                for key in keys {
                    found.extend(self.keys.namespace_of(&text(key)?));
                }
                if next == "0" {
                    break;
                }
                cursor = next;
            }
        }
        found.remove(&Keys::marker_namespace());
        Ok(in_order(found.into_iter().collect()))
    }

    async fn export(&self, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        let directory = self.copy(&Namespace::directory()).await?;
        let exported = self.export_others(directory.made_us, to).await;
        let exported = match exported {
            Ok(()) => self.send_copy(&directory, to).await,
            failed => failed,
        };
        self.delete_copy(&directory).await;
        exported
    }
}

impl RedisStore {
    async fn export_others(&self, until_us: u64, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        for namespace in self.namespaces().await? {
            if namespace == Namespace::directory() {
                continue;
            }
            let copied = self.copy(&namespace).await?;
            let sent = match copied.version > 0 && copied.born_us <= until_us {
                true => self.send_copy(&copied, to).await,
                // It was dropped meanwhile, or created after the directory was copied.
                false => Ok(()),
            };
            self.delete_copy(&copied).await;
            sent?;
        }
        Ok(())
    }

    async fn copy(&self, namespace: &Namespace) -> Result<Copied, StoreError> {
        let prefix = self.keys.copy_prefix(namespace, rand::random());
        let ttl_ms = COPY_TTL.as_millis().to_string();
        let call = |function: &str, _: &str| {
            let mut copy = redis::cmd("FCALL");
            copy.arg(function).arg(1).arg(self.keys.meta(namespace)).arg(&prefix).arg(&ttl_ms);
            copy
        };
        let reply = self.topology.call(namespace, Function::Snapshot, call).await?;
        let [time, meta, days]: [Value; 3] = array(reply.value)?.try_into().map_err(|_| unparsable())?;
        let mut copied = Copied {
            namespace: namespace.clone(),
            kinds: Vec::new(),
            streams: Vec::new(),
            leases: format!("{prefix}l"),
            replies: Vec::new(),
            version: 0,
            made_us: number(time)?,
            born_us: 0,
        };
        for (field, value) in pairs(meta)? {
            if let Some(kind) = field.strip_prefix("k:") {
                copied.kinds.push((kind.to_owned(), format!("{prefix}{field}")));
            } else if let Some(stream) = field.strip_prefix("s:") {
                let counters = text(value)?;
                let next = counters.split_once(' ').and_then(|(next, _)| next.parse().ok()).ok_or_else(unparsable)?;
                copied.streams.push((stream.to_owned(), format!("{prefix}{field}"), next));
            } else if field == "v" {
                copied.version = number(value)?;
            } else if field == "b" {
                copied.born_us = number(value)?;
            }
        }
        for day in array(days)? {
            copied.replies.push(format!("{prefix}d:{}", text(day)?));
        }
        Ok(copied)
    }

    /// Deletes a copy. It would expire otherwise, so errors do not matter.
    async fn delete_copy(&self, copied: &Copied) {
        let keys = copied.kinds.iter().map(|(_, key)| key).chain(copied.streams.iter().map(|(_, key, _)| key));
        let keys: Vec<&String> = keys.chain(&copied.replies).chain([&copied.leases]).collect();
        let mut unlink = Pipeline::new();
        unlink.cmd("UNLINK").arg(keys);
        if let Err(error) = self.topology.read(Some(&copied.namespace), &unlink).await {
            tracing::debug!(namespace = ?copied.namespace, %error, "a copy could not be deleted, and will expire");
        }
    }

    async fn send_copy(&self, copied: &Copied, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        if copied.version == 0 {
            return Ok(());
        }
        // The version is also the namespace's clock, unless the server's is ahead of it.
        let clock_ms = copied.version.max(copied.made_us) / 1_000;
        let (namespace, version) = (copied.namespace.clone(), copied.version);
        send(to, Item::Namespace { namespace, version, clock_ms }).await?;
        for (kind, key) in &copied.kinds {
            self.send_records(copied, kind, key, to).await?;
        }
        for (stream, key, next) in &copied.streams {
            self.send_entries(copied, stream, key, to).await?;
            send(to, Item::Stream { stream: stream.clone(), next: *next }).await?;
        }
        let mut leases = redis::cmd("HGETALL");
        leases.arg(&copied.leases);
        for (name, until) in pairs(self.query_one(Some(&copied.namespace), leases).await?)? {
            send(to, Item::Lease { name, left_ms: number(until)?.saturating_sub(clock_ms) }).await?;
        }
        for key in &copied.replies {
            self.send_replies(copied, key, to).await?;
        }
        Ok(())
    }

    async fn send_records(
        &self,
        copied: &Copied,
        kind: &str,
        key: &str,
        to: &mpsc::Sender<Item>,
    ) -> Result<(), StoreError> {
        let mut fields = Fields::of(self, copied, key).await?;
        while let Some(page) = fields.next().await? {
            // A page may have the version of a record without its data, or the other way around. Each record is sent
            // with its version.
            let mut data: HashMap<&str, &Value> = HashMap::new();
            let mut ids = Vec::new();
            for (field, value) in &page {
                match field.split_at_checked(1) {
                    Some(("v", id)) => ids.push(id),
                    Some(("d", id)) => drop(data.insert(id, value)),
                    _ => return Err(unparsable()),
                }
            }
            let missing: Vec<&str> = ids.iter().copied().filter(|id| !data.contains_key(id)).collect();
            let found = self.data_of(copied, key, &missing).await?;
            for (id, value) in missing.into_iter().zip(&found) {
                data.insert(id, value);
            }
            for id in ids {
                let value = data.get(id).map(|value| (*value).clone()).ok_or_else(unparsable)?;
                let data = bytes_of(value)?.into();
                send(to, Item::Record { kind: kind.to_owned(), id: id.to_owned(), data }).await?;
            }
        }
        Ok(())
    }

    /// Reads the data of records of a copy.
    async fn data_of(&self, copied: &Copied, key: &str, ids: &[&str]) -> Result<Vec<Value>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut get = redis::cmd("HMGET");
        get.arg(key).arg(ids.iter().map(|id| Keys::data_field(id).to_string()).collect::<Vec<_>>());
        array(self.query_one(Some(&copied.namespace), get).await?)
    }

    async fn send_replies(&self, copied: &Copied, key: &str, to: &mpsc::Sender<Item>) -> Result<(), StoreError> {
        let mut fields = Fields::of(self, copied, key).await?;
        while let Some(page) = fields.next().await? {
            for (key, value) in page {
                send(to, Item::Reply { key, data: bytes_of(value)?.into() }).await?;
            }
        }
        Ok(())
    }

    async fn send_entries(
        &self,
        copied: &Copied,
        stream: &str,
        key: &str,
        to: &mpsc::Sender<Item>,
    ) -> Result<(), StoreError> {
        let length = self.length(copied, "XLEN", key).await?;
        let (mut after, mut sent) = (0, 0);
        loop {
            let mut range = redis::cmd("XRANGE");
            range.arg(key).arg(after + 1).arg("+").arg("COUNT").arg(PAGE);
            let page = array(self.query_one(Some(&copied.namespace), range).await?)?;
            let is_last = page.len() < PAGE;
            for value in page {
                let weight = weight_of(&value)?;
                let found = entry(value)?;
                (after, sent) = (found.sequence, sent + 1);
                let (sequence, data) = (found.sequence, found.data);
                send(to, Item::Entry { stream: stream.to_owned(), sequence, weight, data }).await?;
            }
            if is_last {
                break;
            }
        }
        if sent == length { Ok(()) } else { Err(expired(&copied.namespace)) }
    }

    async fn length(&self, copied: &Copied, command: &str, key: &str) -> Result<i64, StoreError> {
        let mut length = redis::cmd(command);
        length.arg(key);
        match self.query_one(Some(&copied.namespace), length).await? {
            Value::Int(length) => Ok(length),
            _ => Err(unparsable()),
        }
    }
}

/// The fields of a copied hash, in pages. A field may come more than once.
struct Fields<'s> {
    store: &'s RedisStore,
    copied: &'s Copied,
    key: &'s str,
    /// The number of fields when the reading began.
    length: i64,
    /// `None` if all pages were read.
    cursor: Option<String>,
}

impl<'s> Fields<'s> {
    async fn of(store: &'s RedisStore, copied: &'s Copied, key: &'s str) -> Result<Self, StoreError> {
        let length = store.length(copied, "HLEN", key).await?;
        Ok(Self { store, copied, key, length, cursor: Some("0".to_owned()) })
    }

    async fn next(&mut self) -> Result<Option<Vec<(String, Value)>>, StoreError> {
        let Some(cursor) = self.cursor.take() else {
            // Nothing changes a copy, so it is complete if it is still there.
            let length = self.store.length(self.copied, "HLEN", self.key).await?;
            return if length == self.length { Ok(None) } else { Err(expired(&self.copied.namespace)) };
        };
        let mut scan = redis::cmd("HSCAN");
        scan.arg(self.key).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, fields) = page(self.store.query_one(Some(&self.copied.namespace), scan).await?)?;
        self.cursor = (next != "0").then_some(next);
        pairs(Value::Array(fields)).map(Some)
    }
}

fn expired(namespace: &Namespace) -> StoreError {
    StoreError::Unavailable(format!("the copy of {namespace:?} disappeared before it was read; try again"))
}

/// Parses the reply to a scan: the next cursor, and what was found.
fn page(reply: Value) -> Result<(String, Vec<Value>), StoreError> {
    let [cursor, found]: [Value; 2] = array(reply)?.try_into().map_err(|_| unparsable())?;
    Ok((text(cursor)?, array(found)?))
}

fn text(value: Value) -> Result<String, StoreError> {
    String::from_utf8(bytes_of(value)?).map_err(|_| unparsable())
}
