//! One established connection to a server, and what the server said about itself.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use redis::{Cmd, FromRedisValue, RedisError, Value, aio::MultiplexedConnection};

use super::{
    keys::Keys,
    marker::Marker,
    replicas::{ReplicaWaits, history_in},
};
use crate::store::{Durability, StoreError};

/// Where the marker is, and how to create it.
#[derive(Clone)]
pub(super) struct MarkerPlace {
    pub(super) keys: Keys,
    /// The name of the function that creates it.
    pub(super) create: String,
}

/// An established connection.
pub(super) struct Connection {
    pub(super) address: String,
    multiplexed: MultiplexedConnection,
    fsynced: AtomicBool,
    /// Whether the server evicts keys when its memory is full.
    evicts: AtomicBool,
    history: RwLock<Arc<str>>,
    /// `None` if commits do not wait for replicas.
    waits: Option<ReplicaWaits>,
}

/// A function's reply.
pub(super) struct Reply {
    pub(super) value: Value,
    pub(super) durability: Durability,
    /// The history under which the server replied; see `data_loss.rs`. Empty if the server does not reveal it.
    pub(super) history: Arc<str>,
    by: Arc<Connection>,
}

impl Reply {
    /// Returns this reply with another value, which came with it.
    pub(super) fn with(&self, value: Value) -> Self {
        Self { value, durability: self.durability, history: self.history.clone(), by: self.by.clone() }
    }

    /// Waits until enough replicas have the commit, and returns its durability. `mark` names a key in the same slot
    /// that may be set and deleted.
    pub(super) async fn replicated(&self, mark: impl FnOnce() -> String) -> Result<Durability, StoreError> {
        match &self.by.waits {
            Some(waits) => waits.wait(mark(), self.history.clone()).await.map(|()| Durability::Replicated),
            None => Ok(self.durability),
        }
    }
}

impl Connection {
    /// Wraps a connection to the server at `address`. Call [`Connection::refresh`] before use.
    pub(super) fn new(address: String, multiplexed: MultiplexedConnection, waits: Option<ReplicaWaits>) -> Self {
        let (fsynced, evicts, history) = (AtomicBool::default(), AtomicBool::default(), RwLock::new(Arc::from("")));
        Self { address, multiplexed, fsynced, evicts, history, waits }
    }

    /// Returns a handle for pipelines. All handles share the connection.
    pub(super) fn handle(&self) -> MultiplexedConnection {
        self.multiplexed.clone()
    }

    /// Sends a command.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        command.query_async(&mut self.handle()).await
    }

    /// Wraps the value that a function returned. `history`: the server's history before the call.
    pub(super) fn reply(self: Arc<Self>, value: Value, history: Arc<str>) -> Reply {
        let fsynced = self.fsynced.load(Ordering::Relaxed);
        Reply { value, durability: if fsynced { Durability::Fsynced } else { Durability::Applied }, history, by: self }
    }

    /// Returns the server's history as of the last refresh.
    pub(super) fn history(&self) -> Arc<str> {
        self.history.read().clone()
    }

    /// Asks whether the server is a primary.
    pub(super) async fn is_primary(&self) -> Result<bool, RedisError> {
        match self.send(&redis::cmd("ROLE")).await? {
            Value::Array(role) => Ok(role.first() == Some(&Value::BulkString(b"master".to_vec()))),
            _ => Ok(false),
        }
    }

    /// Reads the server's durability settings, its history, and the store's marker if it is at `marker`. If the server
    /// refuses to reveal its settings, commits count as not fsynced; if it refuses to reveal its replication ID, what a
    /// failover loses goes undetected.
    pub(super) async fn refresh(&self, marker: Option<&MarkerPlace>) -> Result<Option<Marker>, RedisError> {
        let mut query = redis::cmd("CONFIG");
        query.arg("GET").arg("appendonly").arg("appendfsync").arg("maxmemory-policy");
        let settings: Vec<String> = self.query_or_default(&query).await?;
        let is = |name, value| settings.chunks(2).any(|setting| setting == [name, value]);
        self.watch_eviction(settings.chunks(2).find(|setting| setting[0] == "maxmemory-policy"));
        self.fsynced.store(is("appendonly", "yes") && is("appendfsync", "always"), Ordering::Relaxed);
        let mut query = redis::cmd("INFO");
        let info: String = self.query_or_default(query.arg("replication")).await?;
        let marker = match marker {
            Some(place) => self.marker(place).await?,
            None => None,
        };
        let id = marker.as_ref().map_or("", |marker| &marker.id);
        *self.history.write() = [history_in(&info), id].concat().into();
        Ok(marker)
    }

    /// Warns when the server begins to evict keys, which it does while its memory is full. Trusts a server that hides its policy.
    fn watch_eviction(&self, setting: Option<&[String]>) {
        let policy = setting.and_then(|setting| setting.get(1)).map_or("noeviction", String::as_str);
        let evicts = policy != "noeviction";
        let server = &self.address;
        match (self.evicts.swap(evicts, Ordering::Relaxed), evicts) {
            (false, true) => tracing::warn!(
                server,
                policy,
                "the server evicts keys, and messages with them, when its memory is full: set maxmemory-policy noeviction"
            ),
            (true, false) => tracing::info!(server, "the server no longer evicts keys"),
            _ => {}
        }
    }

    /// Reads the store's marker, and creates it first if there is none. `None` if the server refuses.
    async fn marker(&self, place: &MarkerPlace) -> Result<Option<Marker>, RedisError> {
        let answer: Option<Value> = self.query_or_default(&Marker::query(&place.keys)).await?;
        if let Some(marker) = answer.and_then(Marker::parse) {
            return Ok(Some(marker));
        }
        let answer: Option<Value> = self.query_or_default(&Marker::create(&place.keys, &place.create)).await?;
        Ok(answer.and_then(Marker::parse))
    }

    /// Sends a query. Returns the default if the server refuses to answer it.
    async fn query_or_default<T: FromRedisValue + Default>(&self, query: &Cmd) -> Result<T, RedisError> {
        match query.query_async(&mut self.handle()).await {
            Err(error) if error.is_io_error() || error.is_timeout() => Err(error),
            answer => Ok(answer.unwrap_or_default()),
        }
    }
}
