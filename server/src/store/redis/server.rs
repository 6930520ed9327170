//! A server, and the one connection to it that all calls share. A lost connection is re-established.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisError, Value, aio::PubSub};
use tokio::{sync::Notify, time::timeout};

use super::{
    connection::{Connection, MarkerPlace, Reply},
    error::{CallError, is_full, is_function_missing},
    functions::{Function, FunctionLibrary},
    marker::Marker,
    replicas::{ReplicaWaits, ReplicationPolicy},
    sentinel::Sentinels,
    single_flight::SingleFlight,
    url,
};
use crate::store::StoreError;

/// How long a server may take to answer. Long enough that most lost connections are noticed first, except silently cut
/// ones.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long connecting may take, including the setup calls.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// A server and the connection to it.
pub(super) struct Server {
    location: Location,
    context: Context,
    connection: RwLock<Option<Arc<Connection>>>,
    connecting: SingleFlight<Arc<Connection>>,
    /// The last known history, on whichever connection.
    history: Mutex<Arc<str>>,
    /// The id in the last known marker.
    store_id: Mutex<Option<String>>,
}

/// What all servers of a store share.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) functions: Arc<FunctionLibrary>,
    /// Notified when a server shows a new history.
    pub(super) recheck: Arc<Notify>,
    /// How commits wait for replicas, if they do.
    pub(super) replication: Option<ReplicationPolicy>,
    /// The store's marker. `None` in a cluster, where one node's marker says nothing about the others.
    pub(super) marker: Option<MarkerPlace>,
}

/// Where a server is.
pub(super) enum Location {
    /// At a fixed address.
    Fixed(Box<ConnectionInfo>),
    /// Where the Sentinels say the primary is.
    Primary(Box<Sentinels>),
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leave out the location: it contains the password.
        f.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Server {
    /// Makes a server without connecting to it.
    pub(super) fn new(location: Location, context: Context) -> Arc<Self> {
        Arc::new(Self {
            location,
            context,
            connection: RwLock::new(None),
            connecting: SingleFlight::new(),
            history: Mutex::new(Arc::from("")),
            store_id: Mutex::new(None),
        })
    }

    /// Returns the server's address, or a name for it while the address is unknown.
    pub(super) fn address(&self) -> String {
        match (&self.location, self.current()) {
            (Location::Fixed(server), _) => server.addr().to_string(),
            (Location::Primary(_), Some(connection)) => connection.address.clone(),
            (Location::Primary(sentinels), None) => sentinels.name(),
        }
    }

    /// Returns the host that the URL or the cluster gives for the server. Empty behind Sentinels.
    pub(super) fn host(&self) -> &str {
        match &self.location {
            Location::Fixed(server) => url::host_of(server),
            Location::Primary(_) => "",
        }
    }

    /// Returns the connection, and connects first if necessary.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let attempt = self.connecting.join(|| self.current(), || self.clone().connect_in_time());
        attempt.await
    }

    /// Calls a function. `command` builds the command from the function's name and the server's history.
    pub(super) async fn call(
        self: &Arc<Self>,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Reply, CallError> {
        let connection = self.connect().await?;
        let history = connection.history();
        let command = command(&self.context.functions.name_of(function), &history);
        let mut answer = connection.send(&command).await;
        if answer.as_ref().is_err_and(is_function_missing) {
            // The call was not executed, so it may be sent again.
            let functions = &self.context.functions;
            answer = match connection.send(&functions.load()).await {
                Ok(_) => connection.send(&command).await,
                Err(error) if is_full(&error) && function.runs_when_full() => {
                    connection.send(&functions.as_script(&command, function)).await
                }
                Err(error) => Err(error),
            };
        }
        let value = answer.map_err(|error| self.handle_error(&connection, &error))?;
        Ok(connection.reply(value, history))
    }

    /// Sends read-only commands. Retries once if the connection turns out to be lost.
    pub(super) async fn read(self: &Arc<Self>, queries: &Pipeline) -> Result<Vec<Value>, CallError> {
        let mut may_retry = true;
        loop {
            let connection = self.connect().await?;
            let answer: Result<Vec<Value>, _> = queries.query_async(&mut connection.handle()).await;
            match answer {
                Ok(answers) => return Ok(answers),
                Err(error) => {
                    let dropped = error.is_connection_dropped();
                    let failed = self.handle_error(&connection, &error);
                    if !(dropped && std::mem::take(&mut may_retry)) {
                        return Err(failed);
                    }
                }
            }
        }
    }

    /// Checks that the connection is alive and leads to the right server, and refreshes what the server says about
    /// itself.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), StoreError> {
        let connection = self.connect().await?;
        if let Location::Primary(sentinels) = &self.location {
            // A primary that is cut off from its Sentinels does not notice that it was replaced.
            if let Ok(primary) = sentinels.primary().await
                && primary.addr().to_string() != connection.address
            {
                tracing::warn!(server = connection.address, by = %primary.addr(), "the primary was replaced");
                self.discard(&connection);
                self.connect().await?;
                return Ok(());
            }
        }
        let refreshed = connection.refresh(self.context.marker.as_ref()).await;
        let marker = refreshed.map_err(|error| self.handle_error(&connection, &error).error)?;
        if let Err(newer) = self.note_marker(&connection, marker) {
            tracing::error!(error = %newer, "the store can no longer be used");
            self.discard(&connection);
            return Err(newer);
        }
        self.note_history(&connection);
        Ok(())
    }

    /// Checks that this version can read the store, and reports a store that was emptied.
    fn note_marker(&self, connection: &Connection, marker: Option<Marker>) -> Result<(), StoreError> {
        let Some(marker) = marker else { return Ok(()) };
        marker.check_format(&connection.address)?;
        let before = self.store_id.lock().replace(marker.id.clone());
        if before.is_some_and(|before| before != marker.id) {
            tracing::error!(
                server = connection.address,
                "the store was emptied, for example by FLUSHALL, or replaced by another one: everything that was in it is gone"
            );
        }
        Ok(())
    }

    /// Opens a separate connection that subscribes to channels.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<PubSub, StoreError> {
        let subscribing = async {
            let server = self.locate().await?;
            let address = server.addr().to_string();
            let subscribing = async {
                let mut subscription = Client::open(server)?.get_async_pubsub().await?;
                subscription.subscribe(channels).await?;
                Ok::<_, RedisError>(subscription)
            };
            subscribing.await.map_err(|error| self.explain(&address, &error))
        };
        timeout(CONNECT_TIMEOUT, subscribing)
            .await
            .unwrap_or_else(|_| Err(self.unavailable("no answer to a subscription")))
    }

    /// Returns the history of the connected server.
    pub(super) fn history(&self) -> Option<Arc<str>> {
        self.current().map(|connection| connection.history())
    }

    fn unavailable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {reason}", self.address()))
    }

    fn current(&self) -> Option<Arc<Connection>> {
        self.connection.read().clone()
    }

    async fn connect_in_time(self: Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        let connection = timeout(CONNECT_TIMEOUT, self.establish()).await;
        let connection =
            Arc::new(connection.unwrap_or_else(|_| Err(self.unavailable("no answer to a new connection")))?);
        *self.connection.write() = Some(connection.clone());
        self.note_history(&connection);
        Ok(connection)
    }

    fn note_history(&self, connection: &Connection) {
        let history = connection.history();
        let mut last = self.history.lock();
        if *last != history {
            *last = history;
            self.context.recheck.notify_one();
        }
    }

    async fn establish(&self) -> Result<Connection, StoreError> {
        let server = self.locate().await?;
        let address = server.addr().to_string();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let start_waits = |policy| ReplicaWaits::start(server.clone(), self.context.functions.clone(), policy);
        let waits = self.context.replication.map(start_waits);
        let connecting = async { Client::open(server)?.get_multiplexed_async_connection_with_config(&config).await };
        let multiplexed = connecting.await.map_err(|error| self.explain(&address, &error))?;
        let connection = Connection::new(address, multiplexed, waits);
        let explain = |error: RedisError| self.explain(&connection.address, &error);
        if let Location::Primary(_) = self.location
            && !connection.is_primary().await.map_err(explain)?
        {
            return Err(StoreError::Refusing(format!("{}: it is not a primary at present", connection.address)));
        }
        match connection.send(&self.context.functions.load()).await.map_err(explain) {
            // The server may have the library already, and a full server must still be read and drained.
            Ok(_) | Err(StoreError::Refusing(_) | StoreError::Full(_)) => (),
            Err(error) => return Err(error),
        }
        let marker = connection.refresh(self.context.marker.as_ref()).await.map_err(explain)?;
        self.note_marker(&connection, marker)?;
        Ok(connection)
    }

    async fn locate(&self) -> Result<ConnectionInfo, StoreError> {
        match &self.location {
            Location::Fixed(server) => Ok((**server).clone()),
            Location::Primary(sentinels) => sentinels.primary().await,
        }
    }

    /// Classifies an error, and discards the connection if it is unusable.
    fn handle_error(&self, connection: &Arc<Connection>, error: &RedisError) -> CallError {
        let failed = CallError::new(error, &connection.address, &self.context.functions);
        if failed.connection_lost {
            self.discard(connection);
        }
        failed
    }

    fn discard(&self, connection: &Arc<Connection>) {
        let mut current = self.connection.write();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *current = None;
        }
    }

    fn explain(&self, address: &str, error: &RedisError) -> StoreError {
        CallError::new(error, address, &self.context.functions).error
    }
}
