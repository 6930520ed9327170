//! The store in Redis or Valkey, for any number of coordinators: a single server, the primary behind Sentinels, or a
//! cluster. `docs/redis.md` is the operator's manual: URLs, options, server settings and what they are worth.
//!
//! A function that runs inside Redis executes transactions, and validates everything before it writes anything; see
//! `commit.lua`. Each transaction has its own call, unless many arrive at the same time; see `group.rs`. All calls to a
//! server share one connection and never block on it. Notifications use a separate connection, and so does waiting for
//! replicas. A lost connection is re-established, if necessary to another primary. Meanwhile calls fail at once: with
//! [`StoreError::Refusing`] if the server said that it executed nothing, otherwise with [`StoreError::Unavailable`].
//! This module never repeats a call that may have been executed.
//!
//! With `replicas=N`, a commit that was applied but not replicated in time fails with
//! [`StoreError::DurabilityNotReached`]. Transactions that only free memory do not wait. [`Store::losses`] reports
//! acknowledged commits that were lost; `data_loss.rs` explains how they are detected.
//!
//! Time is the server's. Versions derive from it, so that none is reused even if a server loses commits that it
//! acknowledged.

mod cluster;
mod connection;
mod data_loss;
mod error;
mod export;
mod function_call;
mod functions;
mod group;
mod keys;
mod marker;
mod notifications;
mod replicas;
mod reply;
mod sentinel;
mod server;
mod single_flight;
#[cfg(test)]
mod tests;
mod topology;
mod url;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, broadcast},
    task::JoinHandle,
};

use self::{
    data_loss::{Acknowledged, LossDetector},
    function_call::{encode, only_frees_memory, outcome},
    functions::Function,
    group::GroupCommit,
    keys::Keys,
    reply::{array, contents_version, entry, extent, number, pairs, record, time_ms, unparsable, usage},
    topology::Topology,
};
use super::{
    Entry, Extent, Failed, Key, Leases, Loss, NOTIFICATIONS_MAX, Namespace, Notification, Outcome, Range, Record,
    Store, StoreError, Txn, Write, usage::DAY_MS,
};

/// How many times a read of one instant is attempted. A server executes the queries of a read back to back, unless
/// there are too many to arrive in one piece.
const SNAPSHOT_ATTEMPTS_MAX: u32 = 100;

/// The store in Redis. See the [module](self).
#[derive(Debug)]
pub struct RedisStore {
    topology: Topology,
    keys: Keys,
    group: Arc<GroupCommit>,
    notifications: broadcast::Sender<Notification>,
    loss_detector: Arc<LossDetector>,
    /// Maintains the connections, forwards notifications, and detects losses.
    background: JoinHandle<()>,
}

impl RedisStore {
    /// Connects to the servers that a URL names; `docs/redis.md` describes the URLs. All keys start with `prefix`: 1 to
    /// 100 visible ASCII characters without braces. Requires a Tokio runtime, in which the store keeps running tasks
    /// until dropped.
    pub async fn connect(url: &str, prefix: &str) -> Result<Arc<Self>, StoreError> {
        let (endpoint, replication) = url::parse(url)?;
        let keys = Keys::new(prefix, endpoint.is_single()).ok_or_else(|| {
            StoreError::Unavailable(
                "the prefix of the store's keys must be 1 to 100 visible ASCII characters without braces".to_owned(),
            )
        })?;
        let recheck = Arc::new(Notify::new());
        let topology = Topology::new(endpoint, &keys, replication, recheck.clone());
        topology.connect(&keys).await?;
        // Subscribe before anyone can ask for notifications, so that none are missed.
        let subscription = topology.subscribe(keys.channels()).await?;
        let (notifications, _) = broadcast::channel(NOTIFICATIONS_MAX);
        let loss_detector = Arc::new(LossDetector::new(recheck));
        let background = tokio::spawn({
            let (topology, keys, loss_detector, notifications) =
                (topology.clone(), keys.clone(), loss_detector.clone(), notifications.clone());
            async move {
                let listening =
                    notifications::listen(&topology, keys.channels(), &loss_detector, notifications, subscription);
                tokio::join!(topology.watch(), listening, loss_detector.run(&topology, &keys));
            }
        });
        let group = GroupCommit::new(topology.clone(), keys.clone());
        Ok(Arc::new(Self { topology, keys, group, notifications, loss_detector, background }))
    }

    /// Returns whether URLs with this scheme belong to this store, valid or not.
    pub(crate) fn handles_scheme(scheme: &str) -> bool {
        let base = scheme.split('+').next().unwrap_or_default();
        ["redis", "rediss", "valkey", "valkeys"].contains(&base)
    }

    /// Runs queries on a namespace, all as of one instant. Returns the namespace's version at that instant, too.
    ///
    /// The version before and after the queries shows whether a commit came between them. MULTI would do the same, but
    /// a server whose memory is full refuses every command in it, reads included.
    async fn snapshot(&self, namespace: &Namespace, queries: &Pipeline) -> Result<(Value, Vec<Value>), StoreError> {
        let mut version = redis::cmd("HGET");
        version.arg(self.keys.meta(namespace)).arg("v");
        let mut bracketed = Pipeline::new();
        bracketed.add_command(version.clone());
        for query in queries.cmd_iter() {
            bracketed.add_command(query.clone());
        }
        bracketed.add_command(version);
        for _ in 0..SNAPSHOT_ATTEMPTS_MAX {
            let mut answers = self.topology.read(Some(namespace), &bracketed).await?;
            let (after, before) = (answers.pop().ok_or_else(unparsable)?, answers.drain(..1).next());
            if before.as_ref() == Some(&after) {
                return Ok((after, answers));
            }
        }
        Err(StoreError::Unavailable(format!("{namespace:?} changes too fast to be read as of one instant")))
    }

    /// Counts what a namespace holds that an earlier version wrote, which did not count, and stores the count.
    async fn count_usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let call = |function: &str, _: &str| {
            let mut count = redis::cmd("FCALL");
            count.arg(function).arg(1).arg(self.keys.meta(namespace));
            count
        };
        match self.topology.call(namespace, Function::CountUsage, call).await?.value {
            Value::Int(bytes) => u64::try_from(bytes).map_err(|_| unparsable()),
            _ => Err(unparsable()),
        }
    }

    async fn query_one(&self, namespace: Option<&Namespace>, command: redis::Cmd) -> Result<Value, StoreError> {
        let mut query = Pipeline::with_capacity(1);
        query.add_command(command);
        self.topology.read(namespace, &query).await?.pop().ok_or_else(unparsable)
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.background.abort();
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        // One query per kind. `places` locates each key's answer: the query, and the position in its reply.
        let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let query = kinds.iter().position(|(kind, _)| *kind == key.kind).unwrap_or_else(|| {
                kinds.push((key.kind, Vec::new()));
                kinds.len() - 1
            });
            let fields = &mut kinds[query].1;
            places.push((query, fields.len()));
            fields.extend([Keys::version_field(&key.id).to_string(), Keys::data_field(&key.id).to_string()]);
        }
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let mut queries = Pipeline::new();
        for (kind, fields) in &kinds {
            queries.cmd("HMGET").arg(self.keys.records(namespace, kind)).arg(fields);
        }
        let found = match kinds.len() {
            1 => self.topology.read(Some(namespace), &queries).await?,
            _ => self.snapshot(namespace, &queries).await?.1,
        };
        let mut answers = found.into_iter().map(array).collect::<Result<Vec<_>, _>>()?;
        let take = |(query, place): (usize, usize)| {
            let mut field = |place: usize| {
                let value = answers.get_mut(query).and_then(|answer| answer.get_mut(place));
                value.map(std::mem::take).ok_or_else(unparsable)
            };
            record(field(place)?, field(place + 1)?)
        };
        places.into_iter().map(take).collect()
    }

    async fn scan(
        &self,
        namespace: &Namespace,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let mut all = redis::cmd("HGETALL");
        all.arg(self.keys.records(namespace, kind));
        let mut found: BTreeMap<String, (Value, Value)> = BTreeMap::new();
        for (field, value) in pairs(self.query_one(Some(namespace), all).await?)? {
            let Some((sort, id)) = field.split_at_checked(1) else { return Err(unparsable()) };
            if id <= after {
                continue;
            }
            let halves = found.entry(id.to_owned()).or_default();
            *(if sort == "v" { &mut halves.0 } else { &mut halves.1 }) = value;
        }
        let found = found.into_iter().take(limit);
        found.map(|(id, (version, data))| Ok((id, record(version, data)?.ok_or_else(unparsable)?))).collect()
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        if range.first > range.last || range.limit == 0 {
            return Ok(Vec::new());
        }
        let mut query = redis::cmd(if range.newest_first { "XREVRANGE" } else { "XRANGE" });
        let (from, to) = if range.newest_first { (range.last, range.first) } else { (range.first, range.last) };
        // Redis reads the count as a signed number.
        let count = i64::try_from(range.limit).unwrap_or(i64::MAX);
        query.arg(self.keys.stream(namespace, stream)).arg(from).arg(to).arg("COUNT").arg(count);
        array(self.query_one(Some(namespace), query).await?)?.into_iter().map(entry).collect()
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        if streams.is_empty() {
            return Ok(Vec::new());
        }
        let mut queries = Pipeline::new();
        let fields: Vec<String> = streams.iter().map(|stream| Keys::extent_field(stream)).collect();
        queries.cmd("HMGET").arg(self.keys.meta(namespace)).arg(fields);
        for stream in streams {
            queries.cmd("XLEN").arg(self.keys.stream(namespace, stream));
        }
        let mut answers = self.snapshot(namespace, &queries).await?.1.into_iter();
        let counters = array(answers.next().ok_or_else(unparsable)?)?;
        counters.into_iter().zip(answers).map(|(counters, entries)| extent(counters, entries)).collect()
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let mut queries = Pipeline::new();
        queries.cmd("HGETALL").arg(self.keys.leases(namespace)).cmd("TIME");
        let (clock, answers) = self.snapshot(namespace, &queries).await?;
        let [leases, time]: [Value; 2] = answers.try_into().map_err(|_| unparsable())?;
        let clock_ms = if clock == Value::Nil { 0 } else { number(clock)? / 1_000 };
        let mut until_ms = BTreeMap::new();
        for (name, until) in pairs(leases)? {
            until_ms.insert(name, number(until)?);
        }
        Ok(Leases { now_ms: clock_ms.max(time_ms(time)?), until_ms })
    }

    async fn usage(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let mut queries = Pipeline::new();
        queries.cmd("HMGET").arg(self.keys.meta(namespace)).arg(&["v", "u"]).cmd("TIME");
        let answers = self.topology.read(Some(namespace), &queries).await?;
        let [fields, time]: [Value; 2] = answers.try_into().map_err(|_| unparsable())?;
        let [version, counted]: [Value; 2] = array(fields)?.try_into().map_err(|_| unparsable())?;
        match (version, counted) {
            (Value::Nil, _) => Ok(0),
            (_, Value::Nil) => self.count_usage(namespace).await,
            (version, counted) => {
                let now_ms = time_ms(time)?.max(number(version)? / 1_000);
                Ok(usage(counted)?.on(now_ms / DAY_MS).bytes())
            }
        }
    }

    async fn version(&self, namespace: &Namespace) -> Result<u64, StoreError> {
        let mut query = redis::cmd("HMGET");
        query.arg(self.keys.meta(namespace)).arg(&["v", "c"]);
        let [version, leases]: [Value; 2] =
            array(self.query_one(Some(namespace), query).await?)?.try_into().map_err(|_| unparsable())?;
        contents_version(version, leases)
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        time_ms(self.query_one(None, redis::cmd("TIME")).await?)
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let encoded = encode(&self.keys, namespace, txn);
        let mut reply = self.group.execute(namespace, encoded, txn.applies_when_full()).await?;
        let (mut outcome, flags) = outcome(txn, std::mem::take(&mut reply.value), reply.durability)?;
        match &mut outcome {
            Outcome::Committed(commit) if !only_frees_memory(txn) => {
                commit.durability = reply.replicated(|| self.keys.mark(namespace)).await?;
            }
            // The remembered reply becomes the answer to this call, so it must be as durable.
            Outcome::Refused(Failed::KeyUsed { .. }) => {
                reply.replicated(|| self.keys.mark(namespace)).await?;
            }
            _ => (),
        }
        let Outcome::Committed(commit) = &outcome else { return Ok(outcome) };
        let drops = txn.writes.contains(&Write::DropNamespace);
        if flags.is_kept || drops {
            let (version, history) = (commit.version, reply.history);
            let acknowledged = Acknowledged { version, history, born: flags.born, dropped: drops };
            self.loss_detector.record_commit(namespace, acknowledged);
        }
        if !flags.is_published {
            for write in &txn.writes {
                let Write::Notify { topic, by } = write else { continue };
                // There may be no receivers here either.
                let _ = self.notifications.send(Notification::Topic {
                    namespace: namespace.clone(),
                    topic: topic.clone(),
                    by: *by,
                });
            }
        }
        Ok(outcome)
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        // Unlike the transaction that a store applies when it is full, the same one through this function needs room.
        let (directory, nothing) = (Namespace::directory(), Txn::default());
        self.group.execute(&directory, encode(&self.keys, &directory, &nothing), false).await.map(drop)
    }

    async fn has_lost(&self, namespace: &Namespace) -> Result<bool, StoreError> {
        self.topology.check().await;
        self.loss_detector.has_lost(&self.topology, &self.keys, namespace).await
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }

    fn losses(&self) -> broadcast::Receiver<Loss> {
        self.loss_detector.subscribe()
    }
}
