//! The servers that a store is kept in: one, wherever it may be, or all of a cluster.

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value, aio::PubSub};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::{
    cluster::Cluster,
    fault::Fault,
    library::{Function, Library},
    link::{Answered, Common, Link, Place},
    replicas::Wanted,
    sentinel::Sentinels,
    target::Target,
};
use crate::store::{Namespace, StoreError};

/// How often the servers are looked at while nobody may be using them, and their settings with them.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Where calls go.
#[derive(Clone)]
pub(super) enum Servers {
    /// One server.
    One(Arc<Link>),
    /// The nodes of a cluster.
    Many(Arc<Cluster>),
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.links()).finish()
    }
}

impl Servers {
    /// Prepares the way to the servers that a URL names. Nothing is sent yet. `doubt` is told when a server may have lost
    /// something.
    pub(super) fn new(target: Target, wanted: Option<Wanted>, doubt: Arc<Notify>) -> Self {
        let common = Common { library: Arc::new(Library::new()), doubt, wanted };
        match target {
            Target::Server(server) => Self::One(Link::new(Place::At(Box::new(server)), common)),
            Target::Sentinel { sentinels, service, primary } => {
                Self::One(Link::new(Place::Primary(Box::new(Sentinels::new(sentinels, service, primary))), common))
            }
            Target::Cluster(like, seeds) => Self::Many(Cluster::new(&seeds, like, common)),
        }
    }

    /// Connects. Fails where there is nobody.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        match self {
            Self::One(link) => link.connected().await.map(drop),
            Self::Many(cluster) => cluster.look().await,
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
            Self::One(link) => link.call(function, command).await,
            Self::Many(cluster) => {
                let (slot, command) = (Cluster::slot(namespace.as_str()), &command);
                cluster.at_slot(slot, |link| async move { link.call(function, command).await }).await
            }
        };
        answer.map_err(|fault| fault.error)
    }

    /// Returns the history of the server that has a namespace, if there is a connection.
    pub(super) fn history_of(&self, namespace: &Namespace) -> Option<Arc<str>> {
        match self {
            Self::One(link) => link.history(),
            Self::Many(cluster) => cluster.known_node_of(Cluster::slot(namespace.as_str()))?.history(),
        }
    }

    /// Asks what changes nothing, about one namespace; anyone, where it is about none.
    pub(super) async fn read(
        &self,
        namespace: Option<&Namespace>,
        questions: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let ask = |link: Arc<Link>| async move { link.read(questions).await };
        let answer = match (self, namespace) {
            (Self::One(link), _) => link.read(questions).await,
            (Self::Many(cluster), Some(namespace)) => cluster.at_slot(Cluster::slot(namespace.as_str()), ask).await,
            (Self::Many(cluster), None) => cluster.anywhere(ask).await,
        };
        answer.map_err(|fault: Fault| fault.error)
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
        if let Self::Many(cluster) = self {
            let _ = cluster.look().await;
        }
        futures::future::join_all(self.links().iter().map(Link::check)).await;
    }

    /// Warns when a server may drop keys by itself as its memory runs out. One that does not tell is taken to be right.
    pub(super) async fn warn_of_eviction(&self) {
        let mut ask = Pipeline::new();
        ask.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        for link in self.links() {
            let Ok(answers) = link.read(&ask).await else { continue };
            let settings: Vec<Vec<String>> =
                answers.into_iter().filter_map(|a| redis::from_redis_value(a).ok()).collect();
            if let Some(policy) = settings.first().and_then(|setting| setting.get(1))
                && policy != "noeviction"
            {
                tracing::warn!(
                    server = link.address(),
                    policy,
                    "the server drops keys when its memory is full, and messages with them: set maxmemory-policy noeviction"
                );
            }
        }
    }

    /// Makes a connection of its own that listens to channels. Whatever one node of a cluster publishes, all do.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<PubSub, StoreError> {
        match self {
            Self::One(link) => link.subscribe(channels).await,
            Self::Many(cluster) => {
                let subscribed = cluster.anywhere(|link| async move { Ok(link.subscribe(channels).await?) }).await;
                subscribed.map_err(|fault| fault.error)
            }
        }
    }

    /// Returns the servers that have a part of the store, as far as is known.
    pub(super) fn links(&self) -> Vec<Arc<Link>> {
        match self {
            Self::One(link) => vec![link.clone()],
            Self::Many(cluster) => cluster.nodes(),
        }
    }
}
