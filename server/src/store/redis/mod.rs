//! The store in Redis, for any number of coordinators: one server, the primary that Sentinels name, or a cluster.
//!
//! A transaction is one call of a function that runs inside Redis, which looks at everything before it writes anything;
//! see `commit.lua`. All calls to a server share one connection, on which they wait for nobody; notifications have another, and so
//! has the wait for replicas. Lost connections are made again, and another primary is looked for; meanwhile calls answer
//! [`StoreError::Unavailable`] at once, and [`StoreError::Refusing`] where the server said that it did nothing. A call that
//! may have been carried out is never repeated here.
//!
//! # URLs
//!
//! | URL | names |
//! |---|---|
//! | `redis://[[USER]:PASSWORD@]HOST[:6379][/DB]` | one server |
//! | `redis+unix:///PATH[?db=DB&user=USER&pass=PASSWORD]` | one server of this machine, by its socket |
//! | `redis+sentinel://[[USER]:PASSWORD@]HOST[:26379][,HOST…]/SERVICE[/DB]` | the primary that Sentinels name |
//! | `redis+cluster://[[USER]:PASSWORD@]HOST[:6379][,HOST…]` | all nodes of the cluster that these belong to |
//!
//! With `rediss` in place of `redis` all connections use TLS; `valkey` and `valkeys` mean the same as these. User and
//! password are percent-encoded where need be. After the `?`, joined by `&`:
//!
//! | parameter | says | without it |
//! |---|---|---|
//! | `ca=FILE` | who may have signed the servers' certificates (PEM) | the roots of this system |
//! | `cert=FILE`, `key=FILE` | who the coordinator is (PEM) | no client certificate |
//! | `replicas=N` | how many replicas shall have a commit before it is answered, up to 100 | 0 |
//! | `fsync=yes` | with `replicas`: the server and those replicas shall have it on disk; takes Redis 7.2 or Valkey, with `appendonly yes` on each | no |
//! | `wait=500ms` | how long they may take, from `10ms` to `60s` | `1s` |
//! | `sentinel_user=`, `sentinel_password=` | for the Sentinels | none is sent to them |
//!
//! # What an answered commit is worth
//!
//! Redis 7.0 or newer, or Valkey. Their settings decide what the loss of a server can cost:
//!
//! | setting | a commit is | what may be lost |
//! |---|---|---|
//! | `appendonly yes`, `appendfsync always` | `Fsynced` | nothing when the process or the machine dies; what a replica lacked when it took over |
//! | `appendfsync everysec` | `Applied` | about the last second, when the machine dies |
//! | no append-only file | `Applied` | all since the last snapshot |
//! | `replicas=N` in the URL | `Replicated` | what none of those N replicas had when another one took over |
//!
//! - `maxmemory-policy noeviction` is a must, or Redis drops keys by itself; a warning says so. Full memory then refuses
//!   what grows, and what only frees still succeeds.
//! - `min-replicas-to-write 1` keeps a primary that was cut off from taking writes for longer than `min-replicas-max-lag`,
//!   which another primary then does not know of. It refuses them, and nothing is lost.
//! - With `replicas=N`, a commit that was carried out but that replicas did not take in time is answered by
//!   [`StoreError::DurabilityNotReached`]. Transactions that only free do not wait.
//! - What was answered and lost is found out and reported by [`Store::losses`]; `losses.rs` says how, and what is not found.
//! - A user needs its own keys and channels and `+@all -@admin -@dangerous`; with Sentinels also `role`. Without
//!   `config|get` commits count as `Applied`; without `info` nothing lost is found out, and no wait for replicas succeeds.
//!
//! Time is the server's. Versions come from it, so that none is given twice even when a server lost what it had answered.

mod attempt;
mod cluster;
mod fault;
mod keys;
mod library;
mod link;
mod losses;
mod notifications;
mod replicas;
mod sentinel;
mod servers;
mod target;
#[cfg(test)]
mod tests;
mod transaction;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, broadcast},
    task::JoinHandle,
};

use self::{
    keys::Keys,
    library::Function,
    losses::Losses,
    servers::Servers,
    transaction::{Call, only_frees},
};
use super::{
    Entry, Extent, Failed, Key, Leases, Loss, NOTIFICATIONS_MAX, Namespace, Notification, Outcome, Range, Record,
    Store, StoreError, Txn, Write,
};

/// The store in a Redis server. See the [module](self).
#[derive(Debug)]
pub struct RedisStore {
    servers: Servers,
    keys: Keys,
    notifications: broadcast::Sender<Notification>,
    losses: Arc<Losses>,
    /// Keeps the connections alive.
    caretaker: JoinHandle<()>,
}

impl RedisStore {
    /// Connects to the servers that a URL names; see the [module](self). `prefix` is what all keys begin with: up to 100
    /// visible ASCII characters without braces. Must be called within a Tokio runtime, which the store then lives in.
    pub async fn connect(url: &str, prefix: &str) -> Result<Arc<Self>, StoreError> {
        let (target, wanted) = target::parse(url)?;
        let keys = Keys::new(prefix, target.is_one()).ok_or_else(|| {
            StoreError::Unavailable(
                "the prefix of the store's keys is not 1 to 100 visible ASCII characters".to_owned(),
            )
        })?;
        let doubt = Arc::new(Notify::new());
        let servers = Servers::new(target, wanted, doubt.clone());
        servers.connect().await?;
        servers.warn_of_eviction().await;
        // Before anyone can ask for notifications, so that none is missed.
        let subscription = servers.subscribe(keys.channels()).await?;
        let (notifications, _) = broadcast::channel(NOTIFICATIONS_MAX);
        let losses = Arc::new(Losses::new(doubt));
        let caretaker = tokio::spawn({
            let (servers, keys, losses, notifications) =
                (servers.clone(), keys.clone(), losses.clone(), notifications.clone());
            async move {
                let listening = notifications::listen(&servers, keys.channels(), &losses, notifications, subscription);
                tokio::join!(servers.watch(), listening, losses.watch(&servers, &keys));
            }
        });
        Ok(Arc::new(Self { servers, keys, notifications, losses, caretaker }))
    }

    /// Returns whether URLs with this scheme name a store of this kind, right or wrong.
    pub(crate) fn takes(scheme: &str) -> bool {
        let base = scheme.split('+').next().unwrap_or_default();
        ["redis", "rediss", "valkey", "valkeys"].contains(&base)
    }

    async fn ask_one(&self, namespace: Option<&Namespace>, command: redis::Cmd) -> Result<Value, StoreError> {
        let mut question = Pipeline::with_capacity(1);
        question.add_command(command);
        self.servers.read(namespace, &question).await?.pop().ok_or_else(unreadable)
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.caretaker.abort();
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn read(&self, namespace: &Namespace, keys: &[Key]) -> Result<Vec<Option<Record>>, StoreError> {
        // One question for each kind; where each key's answer is: the question, and the place in it.
        let mut kinds: Vec<(&'static str, Vec<String>)> = Vec::new();
        let mut places = Vec::with_capacity(keys.len());
        for key in keys {
            let question = kinds.iter().position(|(kind, _)| *kind == key.kind).unwrap_or_else(|| {
                kinds.push((key.kind, Vec::new()));
                kinds.len() - 1
            });
            let fields = &mut kinds[question].1;
            places.push((question, fields.len()));
            fields.extend([Keys::version_field(&key.id).to_string(), Keys::data_field(&key.id).to_string()]);
        }
        if kinds.is_empty() {
            return Ok(Vec::new());
        }
        let mut questions = Pipeline::new();
        if kinds.len() > 1 {
            // All of one instant.
            questions.atomic();
        }
        for (kind, fields) in &kinds {
            questions.cmd("HMGET").arg(self.keys.records(namespace, kind)).arg(fields);
        }
        let mut answers = Vec::with_capacity(kinds.len());
        for answer in self.servers.read(Some(namespace), &questions).await? {
            answers.push(array(answer)?);
        }
        let take = |(question, place): (usize, usize)| {
            let mut field = |place: usize| {
                let value = answers.get_mut(question).and_then(|answer| answer.get_mut(place));
                value.map(std::mem::take).ok_or_else(unreadable)
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
        for (field, value) in pairs(self.ask_one(Some(namespace), all).await?)? {
            let Some((sort, id)) = field.split_at_checked(1) else { return Err(unreadable()) };
            if id <= after {
                continue;
            }
            let halves = found.entry(id.to_owned()).or_default();
            *(if sort == "v" { &mut halves.0 } else { &mut halves.1 }) = value;
        }
        let found = found.into_iter().take(limit);
        found.map(|(id, (version, data))| Ok((id, record(version, data)?.ok_or_else(unreadable)?))).collect()
    }

    async fn range(&self, namespace: &Namespace, stream: &str, range: Range) -> Result<Vec<Entry>, StoreError> {
        if range.first > range.last || range.limit == 0 {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd(if range.newest_first { "XREVRANGE" } else { "XRANGE" });
        let (from, to) = if range.newest_first { (range.last, range.first) } else { (range.first, range.last) };
        // Redis reads the count as a signed number.
        let count = i64::try_from(range.limit).unwrap_or(i64::MAX);
        ask.arg(self.keys.stream(namespace, stream)).arg(from).arg(to).arg("COUNT").arg(count);
        array(self.ask_one(Some(namespace), ask).await?)?.into_iter().map(entry).collect()
    }

    async fn extents(&self, namespace: &Namespace, streams: &[String]) -> Result<Vec<Extent>, StoreError> {
        if streams.is_empty() {
            return Ok(Vec::new());
        }
        let mut questions = Pipeline::new();
        questions.atomic();
        let fields: Vec<String> = streams.iter().map(|stream| Keys::extent_field(stream)).collect();
        questions.cmd("HMGET").arg(self.keys.meta(namespace)).arg(fields);
        for stream in streams {
            questions.cmd("XLEN").arg(self.keys.stream(namespace, stream));
        }
        let mut answers = self.servers.read(Some(namespace), &questions).await?.into_iter();
        let counters = array(answers.next().ok_or_else(unreadable)?)?;
        counters.into_iter().zip(answers).map(|(counters, entries)| extent(counters, entries)).collect()
    }

    async fn leases(&self, namespace: &Namespace) -> Result<Leases, StoreError> {
        let mut questions = Pipeline::new();
        questions.atomic();
        questions.cmd("HGETALL").arg(self.keys.leases(namespace));
        questions.cmd("HGET").arg(self.keys.meta(namespace)).arg("v");
        questions.cmd("TIME");
        let answers: [Value; 3] =
            self.servers.read(Some(namespace), &questions).await?.try_into().map_err(|_| unreadable())?;
        let [leases, clock, time] = answers;
        let clock_ms = if clock == Value::Nil { 0 } else { number(clock)? / 1_000 };
        let mut until_ms = BTreeMap::new();
        for (name, until) in pairs(leases)? {
            until_ms.insert(name, number(until)?);
        }
        Ok(Leases { now_ms: clock_ms.max(time_ms(time)?), until_ms })
    }

    async fn now_ms(&self) -> Result<u64, StoreError> {
        time_ms(self.ask_one(None, redis::cmd("TIME")).await?)
    }

    async fn commit(&self, namespace: &Namespace, txn: &Txn) -> Result<Outcome, StoreError> {
        let call = Call::new(&self.keys, namespace, txn);
        let frees = only_frees(txn);
        let function = if frees { Function::Free } else { Function::Commit };
        let answered = self.servers.call(namespace, function, |name, history| call.command(name, history)).await?;
        let (mut outcome, said) = call.outcome(txn, &answered.value, answered.durability)?;
        match &mut outcome {
            Outcome::Committed(commit) if !frees => {
                commit.durability = answered.replicated(|| self.keys.mark(namespace)).await?;
            }
            // What was remembered is taken for the answer, so it must be as durable.
            Outcome::Refused(Failed::KeyUsed { .. }) => {
                answered.replicated(|| self.keys.mark(namespace)).await?;
            }
            _ => (),
        }
        let Outcome::Committed(commit) = &outcome else { return Ok(outcome) };
        let drops = txn.writes.contains(&Write::DropNamespace);
        if said.is_kept || drops {
            self.losses.acknowledged(namespace, commit.version, answered.history, drops);
        }
        if !said.is_published {
            for write in &txn.writes {
                let Write::Notify { topic, by } = write else { continue };
                // Nobody listens here either.
                let _ = self.notifications.send(Notification::Topic {
                    namespace: namespace.clone(),
                    topic: topic.clone(),
                    by: *by,
                });
            }
        }
        Ok(outcome)
    }

    fn notifications(&self) -> broadcast::Receiver<Notification> {
        self.notifications.subscribe()
    }

    fn losses(&self) -> broadcast::Receiver<Loss> {
        self.losses.subscribe()
    }
}

fn unreadable() -> StoreError {
    StoreError::Corrupt("a key of the coordinator holds what it never put there".to_owned())
}

fn array(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(unreadable()),
    }
}

fn data(value: Value) -> Result<Vec<u8>, StoreError> {
    match value {
        Value::BulkString(data) => Ok(data),
        _ => Err(unreadable()),
    }
}

fn text(value: Value) -> Result<String, StoreError> {
    String::from_utf8(data(value)?).map_err(|_| unreadable())
}

fn number(value: Value) -> Result<u64, StoreError> {
    text(value)?.parse().map_err(|_| unreadable())
}

fn pairs(value: Value) -> Result<Vec<(String, Value)>, StoreError> {
    let mut values = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(field), Some(value)) = (values.next(), values.next()) {
        pairs.push((text(field)?, value));
    }
    Ok(pairs)
}

fn record(version: Value, content: Value) -> Result<Option<Record>, StoreError> {
    match (version, content) {
        (Value::Nil, Value::Nil) => Ok(None),
        (version, content) => Ok(Some(Record { version: number(version)?, data: Bytes::from(data(content)?) })),
    }
}

fn entry(value: Value) -> Result<Entry, StoreError> {
    let [id, fields]: [Value; 2] = array(value)?.try_into().map_err(|_| unreadable())?;
    let sequence = text(id)?.strip_suffix("-0").and_then(|sequence| sequence.parse().ok()).ok_or_else(unreadable)?;
    let (_, content) = pairs(fields)?.into_iter().find(|(field, _)| field == "d").ok_or_else(unreadable)?;
    Ok(Entry { sequence, data: Bytes::from(data(content)?) })
}

fn extent(counters: Value, entries: Value) -> Result<Extent, StoreError> {
    let entries = match entries {
        Value::Int(entries) => u64::try_from(entries).map_err(|_| unreadable())?,
        _ => return Err(unreadable()),
    };
    if counters == Value::Nil && entries == 0 {
        return Ok(Extent { next: 1, entries, weight: 0 });
    }
    let counters = text(counters)?;
    let (next, weight) = counters.split_once(' ').ok_or_else(unreadable)?;
    let parse = |number: &str| number.parse().map_err(|_| unreadable());
    Ok(Extent { next: parse(next)?, entries, weight: parse(weight)? })
}

fn time_ms(value: Value) -> Result<u64, StoreError> {
    let [seconds, micros]: [Value; 2] = array(value)?.try_into().map_err(|_| unreadable())?;
    Ok(number(seconds)? * 1_000 + number(micros)? / 1_000)
}
