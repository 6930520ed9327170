//! The servers that a store is kept in: one, wherever it may be, or all of a cluster.

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value, aio::PubSub};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::{
    cluster::Cluster,
    error::CallError,
    functions::{Function, FunctionLibrary},
    replicas::ReplicationPolicy,
    sentinel::Sentinels,
    server::{Answered, Context, Location, Server},
    url::Endpoint,
};
use crate::store::{Namespace, StoreError};

/// How often the servers are looked at while nobody may be using them, and their settings with them.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Where calls go.
#[derive(Clone)]
pub(super) enum Topology {
    /// One server.
    Single(Arc<Server>),
    /// The nodes of a cluster.
    Cluster(Arc<Cluster>),
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.servers()).finish()
    }
}

impl Topology {
    /// Prepares the way to the servers that a URL names. Nothing is sent yet. `recheck` is told when a server may have lost
    /// something.
    pub(super) fn new(endpoint: Endpoint, wanted: Option<ReplicationPolicy>, recheck: Arc<Notify>) -> Self {
        let context = Context { library: Arc::new(FunctionLibrary::new()), recheck, wanted };
        match endpoint {
            Endpoint::Server(server) => Self::Single(Server::new(Location::Fixed(Box::new(server)), context)),
            Endpoint::Sentinel { sentinels, service, primary } => Self::Single(Server::new(
                Location::Primary(Box::new(Sentinels::new(sentinels, service, primary))),
                context,
            )),
            Endpoint::Cluster(template, seeds) => Self::Cluster(Cluster::new(&seeds, template, context)),
        }
    }

    /// Connects. Fails where there is nobody.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        match self {
            Self::Single(server) => server.connected().await.map(drop),
            Self::Cluster(cluster) => cluster.refresh().await,
        }
    }

    /// Calls a function on a namespace. `command` makes the command out of its name and the server's history.
    pub(super) async fn call(
        &self,
        namespace: &Namespace,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Answered, StoreError> {
        let answer = match self {
            Self::Single(server) => server.call(function, command).await,
            Self::Cluster(cluster) => {
                let (slot, command) = (Cluster::slot(namespace.as_str()), &command);
                cluster.at_slot(slot, |server| async move { server.call(function, command).await }).await
            }
        };
        answer.map_err(|failed| failed.error)
    }

    /// Returns the history of the server that has a namespace, if there is a connection.
    pub(super) fn history_of(&self, namespace: &Namespace) -> Option<Arc<str>> {
        match self {
            Self::Single(server) => server.history(),
            Self::Cluster(cluster) => cluster.known_node_of(Cluster::slot(namespace.as_str()))?.history(),
        }
    }

    /// Asks what changes nothing, about one namespace; anyone, where it is about none.
    pub(super) async fn read(
        &self,
        namespace: Option<&Namespace>,
        questions: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let ask = |server: Arc<Server>| async move { server.read(questions).await };
        let answer = match (self, namespace) {
            (Self::Single(server), _) => server.read(questions).await,
            (Self::Cluster(cluster), Some(namespace)) => cluster.at_slot(Cluster::slot(namespace.as_str()), ask).await,
            (Self::Cluster(cluster), None) => cluster.on_any_node(ask).await,
        };
        answer.map_err(|failed: CallError| failed.error)
    }

    /// Keeps looking at the connections for as long as it runs.
    pub(super) async fn watch(&self) {
        let mut ticks = interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check().await;
        }
    }

    /// Looks whether the connections are alive, and how durable commits are by now. Whoever needs one is told why there
    /// is none.
    pub(super) async fn check(&self) {
        if let Self::Cluster(cluster) = self {
            let _ = cluster.refresh().await;
        }
        futures::future::join_all(self.servers().iter().map(Server::check)).await;
    }

    /// Warns when a server may drop keys by itself as its memory runs out. One that does not tell is taken to be right.
    pub(super) async fn warn_of_eviction(&self) {
        let mut ask = Pipeline::new();
        ask.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        for server in self.servers() {
            let Ok(answers) = server.read(&ask).await else { continue };
            let settings: Vec<Vec<String>> =
                answers.into_iter().filter_map(|a| redis::from_redis_value(a).ok()).collect();
            if let Some(policy) = settings.first().and_then(|setting| setting.get(1))
                && policy != "noeviction"
            {
                tracing::warn!(
                    server = server.address(),
                    policy,
                    "the server drops keys when its memory is full, and messages with them: set maxmemory-policy noeviction"
                );
            }
        }
    }

    /// Makes a connection of its own that listens to channels. Whatever one node of a cluster publishes, all do.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<PubSub, StoreError> {
        match self {
            Self::Single(server) => server.subscribe(channels).await,
            Self::Cluster(cluster) => {
                let subscribed =
                    cluster.on_any_node(|server| async move { Ok(server.subscribe(channels).await?) }).await;
                subscribed.map_err(|failed| failed.error)
            }
        }
    }

    /// Returns the servers that have a part of the store, as far as is known.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        match self {
            Self::Single(server) => vec![server.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }
}
