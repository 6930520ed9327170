//! The servers that hold a store: a single server, wherever it is at present, or all nodes of a cluster.

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value, aio::PubSub};
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::{
    cluster::{Cluster, MIGRATION_WAIT_MAX},
    connection::{MarkerPlace, Reply},
    error::CallError,
    functions::{Function, FunctionLibrary},
    keys::Keys,
    marker::Marker,
    replicas::ReplicationPolicy,
    sentinel::Sentinels,
    server::{Context, Location, Server},
    url::Endpoint,
};
use crate::store::{Namespace, StoreError};

/// The interval at which connections and server settings are checked, even without calls.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Routes calls to servers.
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
    /// Makes the topology that a URL names, without connecting. Notifies `recheck` when a server may have lost commits.
    pub(super) fn new(
        endpoint: Endpoint,
        keys: &Keys,
        replication: Option<ReplicationPolicy>,
        recheck: Arc<Notify>,
    ) -> Self {
        let functions = Arc::new(FunctionLibrary::new());
        let marker = endpoint
            .is_single()
            .then(|| MarkerPlace { keys: keys.clone(), create: functions.name_of(Function::MarkStore) });
        let context = Context { functions, recheck, replication, marker };
        match endpoint {
            Endpoint::Server(server) => Self::Single(Server::new(Location::Fixed(Box::new(server)), context)),
            Endpoint::Sentinel { sentinels, service, primary } => Self::Single(Server::new(
                Location::Primary(Box::new(Sentinels::new(sentinels, service, primary))),
                context,
            )),
            Endpoint::Cluster(template, seeds) => Self::Cluster(Cluster::new(&seeds, template, context)),
        }
    }

    /// Connects. Fails if no server is reachable, or if a newer version of teamwire wrote the store.
    pub(super) async fn connect(&self, keys: &Keys) -> Result<(), StoreError> {
        let cluster = match self {
            Self::Single(server) => return server.connect().await.map(drop),
            Self::Cluster(cluster) => cluster,
        };
        cluster.refresh().await?;
        let namespace = Keys::marker_namespace();
        let mut query = Pipeline::new();
        query.add_command(Marker::query(keys));
        let answer = self.read(Some(&namespace), &query).await?.pop();
        let marker = match answer.and_then(Marker::parse) {
            Some(marker) => Some(marker),
            // If the store refuses writes, it has no marker yet.
            None => {
                let created = self.call(&namespace, Function::MarkStore, |name, _| Marker::create(keys, name)).await;
                created.ok().and_then(|reply| Marker::parse(reply.value))
            }
        };
        marker.map_or(Ok(()), |marker| marker.check_format("the cluster"))
    }

    /// Calls a function on a namespace. `command` builds the command from the function's name and the server's history.
    pub(super) async fn call(
        &self,
        namespace: &Namespace,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Reply, StoreError> {
        let answer = self.call_within(namespace, MIGRATION_WAIT_MAX, function, command).await;
        answer.map_err(|failed| failed.error)
    }

    /// Does so without waiting for a slot that migrates: the call then fails with [`Recovery::WaitForSlot`].
    ///
    /// [`Recovery::WaitForSlot`]: super::error::Recovery::WaitForSlot
    pub(super) async fn call_now(
        &self,
        namespace: &Namespace,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Reply, CallError> {
        self.call_within(namespace, Duration::ZERO, function, command).await
    }

    async fn call_within(
        &self,
        namespace: &Namespace,
        migration_wait: Duration,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Reply, CallError> {
        match self {
            Self::Single(server) => server.call(function, command).await,
            Self::Cluster(cluster) => {
                let (slot, command) = (Cluster::slot(namespace.as_str()), &command);
                let call = |server: Arc<Server>| async move { server.call(function, command).await };
                cluster.at_slot(slot, migration_wait, call).await
            }
        }
    }

    /// Returns the history of the server that holds a namespace. `None` if it is not connected.
    pub(super) fn history_of(&self, namespace: &Namespace) -> Option<Arc<str>> {
        match self {
            Self::Single(server) => server.history(),
            Self::Cluster(cluster) => cluster.known_node_of(Cluster::slot(namespace.as_str()))?.history(),
        }
    }

    /// Sends read-only commands to the server that holds a namespace, or to any server if `namespace` is `None`.
    pub(super) async fn read(
        &self,
        namespace: Option<&Namespace>,
        queries: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        let ask = |server: Arc<Server>| async move { server.read(queries).await };
        let answer = match (self, namespace) {
            (Self::Single(server), _) => server.read(queries).await,
            (Self::Cluster(cluster), Some(namespace)) => {
                cluster.at_slot(Cluster::slot(namespace.as_str()), MIGRATION_WAIT_MAX, ask).await
            }
            (Self::Cluster(cluster), None) => cluster.on_any_node(ask).await,
        };
        answer.map_err(|failed: CallError| failed.error)
    }

    /// Checks the connections periodically, forever.
    pub(super) async fn watch(&self) {
        let mut ticks = interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.check().await;
        }
    }

    /// Checks that the connections are alive, and refreshes what the servers say about themselves. Ignores errors: the
    /// next call reports them.
    pub(super) async fn check(&self) {
        if let Self::Cluster(cluster) = self {
            let _ = cluster.refresh().await;
        }
        futures::future::join_all(self.servers().iter().map(Server::check)).await;
    }

    /// Opens a separate connection that subscribes to channels. Cluster nodes forward messages to each other, so any
    /// node will do.
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

    /// Returns the known servers of the store.
    pub(super) fn servers(&self) -> Vec<Arc<Server>> {
        match self {
            Self::Single(server) => vec![server.clone()],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }
}
