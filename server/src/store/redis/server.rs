//! The connection to one server that all calls share, made anew whenever it is lost.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, FromRedisValue, Pipeline, RedisError, Value,
    aio::{MultiplexedConnection, PubSub},
};
use tokio::{sync::Notify, time::timeout};

use super::{
    error::{CallError, is_function_missing},
    functions::{Function, FunctionLibrary},
    replicas::{ReplicaWaits, ReplicationPolicy},
    sentinel::Sentinels,
    single_flight::SingleFlight,
    url,
};
use crate::store::{Durability, StoreError};

/// How long the server may take to answer. Longer than it takes to notice any lost connection but one cut in silence.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long making a connection may take, with all that is asked on it first.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How much of a replication id tells it from others.
const HISTORY_LENGTH: usize = 16;

/// The way to one server.
pub(super) struct Server {
    place: Location,
    context: Context,
    connected: RwLock<Option<Arc<Connection>>>,
    connecting: SingleFlight<Arc<Connection>>,
    /// The last that was heard of, by whichever connection.
    history: Mutex<Arc<str>>,
}

/// What all servers of a store have in context.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) library: Arc<FunctionLibrary>,
    /// Told of every history that is a new one.
    pub(super) recheck: Arc<Notify>,
    /// What is asked of replicas, if anything.
    pub(super) wanted: Option<ReplicationPolicy>,
}

/// Where the server is.
pub(super) enum Location {
    /// Always there.
    Fixed(Box<ConnectionInfo>),
    /// Wherever Sentinels say.
    Primary(Box<Sentinels>),
}

/// One connection.
pub(super) struct Connection {
    address: String,
    connection: MultiplexedConnection,
    fsynced: AtomicBool,
    history: RwLock<Arc<str>>,
    /// None where nothing is asked of replicas.
    rounds: Option<ReplicaWaits>,
}

/// What a function has answered.
pub(super) struct Answered {
    pub(super) value: Value,
    pub(super) durability: Durability,
    /// Under which history the server answered; see `losses.rs`. Empty where it does not tell.
    pub(super) history: Arc<str>,
    by: Arc<Connection>,
}

impl Answered {
    /// Waits until as many replicas have it as are wanted, and returns how durable it is then. `mark` names a key in the same
    /// slot that may be set and deleted.
    pub(super) async fn replicated(&self, mark: impl FnOnce() -> String) -> Result<Durability, StoreError> {
        match &self.by.rounds {
            Some(rounds) => rounds.reached(mark(), self.history.clone()).await.map(|()| Durability::Replicated),
            None => Ok(self.durability),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The place knows the password.
        f.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Server {
    /// Prepares a server. Nothing is sent yet.
    pub(super) fn new(place: Location, context: Context) -> Arc<Self> {
        Arc::new(Self {
            place,
            context,
            connected: RwLock::new(None),
            connecting: SingleFlight::new(),
            history: Mutex::new(Arc::from("")),
        })
    }

    /// Returns the server's address, or what it is called while that is not known.
    pub(super) fn address(&self) -> String {
        match (&self.place, self.current()) {
            (Location::Fixed(server), _) => server.addr().to_string(),
            (Location::Primary(_), Some(connected)) => connected.address.clone(),
            (Location::Primary(sentinels), None) => sentinels.name(),
        }
    }

    /// Returns the server's host, as it is connected to.
    pub(super) fn host(&self) -> &str {
        match &self.place {
            Location::Fixed(server) => url::host_of(server),
            Location::Primary(_) => "",
        }
    }

    /// Returns the connection, after making it if need be.
    pub(super) async fn connected(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        if let Some(connected) = self.current() {
            return Ok(connected);
        }
        let attempt = self.connecting.join(|| self.current(), || self.clone().connect_in_time());
        attempt.await
    }

    /// Calls a function. `command` makes the command out of its name and the server's history.
    pub(super) async fn call(
        self: &Arc<Self>,
        function: Function,
        command: impl Fn(&str, &str) -> Cmd,
    ) -> Result<Answered, CallError> {
        let connected = self.connected().await?;
        let history = connected.history();
        let command = command(&self.context.library.name_of(function), &history);
        let mut answer = connected.send(&command).await;
        if answer.as_ref().is_err_and(is_function_missing) {
            // Nothing was carried out, so it may be sent again.
            connected.send(&self.context.library.load()).await.map_err(|error| self.explain(&connected, &error))?;
            answer = connected.send(&command).await;
        }
        let value = answer.map_err(|error| self.explain(&connected, &error))?;
        Ok(Answered { value, durability: connected.durability(), history, by: connected })
    }

    /// Asks what changes nothing; twice, where the connection turned out to be lost.
    pub(super) async fn read(self: &Arc<Self>, questions: &Pipeline) -> Result<Vec<Value>, CallError> {
        let mut again = true;
        loop {
            let connected = self.connected().await?;
            let answer: Result<Vec<Value>, _> = questions.query_async(&mut connected.connection.clone()).await;
            match answer {
                Ok(answers) => return Ok(answers),
                Err(error) => {
                    let lost = error.is_connection_dropped();
                    let failed = self.explain(&connected, &error);
                    if !(lost && std::mem::take(&mut again)) {
                        return Err(failed);
                    }
                }
            }
        }
    }

    /// Looks whether the connection is alive and leads to the right server, and how durable commits are by now.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), StoreError> {
        let connected = self.connected().await?;
        if let Location::Primary(sentinels) = &self.place {
            // A primary that was cut off from its Sentinels does not learn that another one has taken its place.
            if let Ok(primary) = sentinels.primary().await
                && primary.addr().to_string() != connected.address
            {
                tracing::warn!(server = connected.address, by = %primary.addr(), "the primary was replaced");
                self.give_up(&connected);
                self.connected().await?;
                return Ok(());
            }
        }
        connected.ask().await.map_err(|error| self.explain(&connected, &error).error)?;
        self.note_history(&connected);
        Ok(())
    }

    /// Makes a connection of its own that listens to channels.
    pub(super) async fn subscribe(&self, channels: &[String]) -> Result<PubSub, StoreError> {
        let subscribing = async {
            let server = self.locate().await?;
            let address = server.addr().to_string();
            let subscribing = async {
                let mut subscription = Client::open(server)?.get_async_pubsub().await?;
                subscription.subscribe(channels).await?;
                Ok::<_, RedisError>(subscription)
            };
            subscribing.await.map_err(|error| self.say(&address, &error))
        };
        timeout(CONNECT_TIMEOUT, subscribing)
            .await
            .unwrap_or_else(|_| Err(self.unavailable("no answer to a subscription")))
    }

    /// Returns the history of the server that is connected to.
    pub(super) fn history(&self) -> Option<Arc<str>> {
        self.current().map(|connected| connected.history())
    }

    fn unavailable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {reason}", self.address()))
    }

    fn current(&self) -> Option<Arc<Connection>> {
        self.connected.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn connect_in_time(self: Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        let connected = timeout(CONNECT_TIMEOUT, self.connect()).await;
        let connected = Arc::new(connected.unwrap_or_else(|_| Err(self.unavailable("no answer to a new connection")))?);
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(connected.clone());
        self.note_history(&connected);
        Ok(connected)
    }

    fn note_history(&self, connected: &Connection) {
        let history = connected.history();
        let mut last = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != history {
            *last = history;
            self.context.recheck.notify_one();
        }
    }

    async fn connect(&self) -> Result<Connection, StoreError> {
        let server = self.locate().await?;
        let address = server.addr().to_string();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let rounds =
            self.context.wanted.map(|wanted| ReplicaWaits::start(server.clone(), self.context.library.clone(), wanted));
        let connecting = async { Client::open(server)?.get_multiplexed_async_connection_with_config(&config).await };
        let connection = connecting.await.map_err(|error| self.say(&address, &error))?;
        let (fsynced, history) = (AtomicBool::new(false), RwLock::new(Arc::from("")));
        let connected = Connection { address, connection, fsynced, history, rounds };
        let say = |error: RedisError| self.say(&connected.address, &error);
        if let Location::Primary(_) = self.place
            && !connected.is_primary().await.map_err(say)?
        {
            return Err(StoreError::Refusing(format!("{}: it is no primary any more, or not yet", connected.address)));
        }
        match connected.send(&self.context.library.load()).await.map_err(say) {
            // It may well have the function already; and what only frees must get through to a full server.
            Ok(_) | Err(StoreError::Refusing(_)) => (),
            Err(error) => return Err(error),
        }
        connected.ask().await.map_err(say)?;
        Ok(connected)
    }

    async fn locate(&self) -> Result<ConnectionInfo, StoreError> {
        match &self.place {
            Location::Fixed(server) => Ok((**server).clone()),
            Location::Primary(sentinels) => sentinels.primary().await,
        }
    }

    /// Says what went wrong on a connection, and gives the connection up where it is of no more use.
    fn explain(&self, connected: &Arc<Connection>, error: &RedisError) -> CallError {
        let failed = CallError::new(error, &connected.address, &self.context.library);
        if failed.lost {
            self.give_up(connected);
        }
        failed
    }

    fn give_up(&self, connected: &Arc<Connection>) {
        let mut current = self.connected.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connected)) {
            *current = None;
        }
    }

    fn say(&self, address: &str, error: &RedisError) -> StoreError {
        CallError::new(error, address, &self.context.library).error
    }
}

impl Connection {
    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        command.query_async(&mut self.connection.clone()).await
    }

    fn durability(&self) -> Durability {
        if self.fsynced.load(Ordering::Relaxed) { Durability::Fsynced } else { Durability::Applied }
    }

    fn history(&self) -> Arc<str> {
        self.history.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn is_primary(&self) -> Result<bool, RedisError> {
        match self.send(&redis::cmd("ROLE")).await? {
            Value::Array(role) => Ok(role.first() == Some(&Value::BulkString(b"master".to_vec()))),
            _ => Ok(false),
        }
    }

    /// Asks how durable a commit is, and for the server's history. A server that does not tell counts as one that
    /// promises nothing, and as one that loses nothing.
    async fn ask(&self) -> Result<(), RedisError> {
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendonly").arg("appendfsync");
        let settings: Vec<String> = self.ask_for(&ask).await?;
        let is = |name, value| settings.chunks(2).any(|setting| setting == [name, value]);
        self.fsynced.store(is("appendonly", "yes") && is("appendfsync", "always"), Ordering::Relaxed);
        let mut ask = redis::cmd("INFO");
        let info: String = self.ask_for(ask.arg("replication")).await?;
        *self.history.write().unwrap_or_else(PoisonError::into_inner) = history_in(&info).into();
        Ok(())
    }

    async fn ask_for<T: FromRedisValue + Default>(&self, ask: &Cmd) -> Result<T, RedisError> {
        match ask.query_async(&mut self.connection.clone()).await {
            Err(error) if error.is_io_error() || error.is_timeout() => Err(error),
            answer => Ok(answer.unwrap_or_default()),
        }
    }
}

/// Returns the history that a server names as it tells of its replication. Empty where it names none.
pub(super) fn history_in(info: &str) -> &str {
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
    id.and_then(|id| id.get(..HISTORY_LENGTH)).unwrap_or_default()
}
