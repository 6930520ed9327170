//! The connection to Redis that all calls share, made anew whenever it is lost.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, RedisError, Value,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::store::{Durability, StoreError};

/// How long the server may take to answer. Longer than it takes to notice any lost connection but one cut in silence.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long making a connection may take, with all that is asked on it first.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How often the connection is looked at while nobody may be using it, and the server's settings with it.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// After how long without an acknowledgement the system gives up a connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// What carries out transactions, and under which name.
const BODY: &str = include_str!("commit.lua");

/// The way to the server.
pub(super) struct Link {
    client: Client,
    library: Library,
    connected: RwLock<Option<Arc<Connected>>>,
    /// The attempt to connect that is under way.
    attempt: Mutex<Option<Attempt>>,
}

/// An attempt to connect, which goes on whether or not anybody waits for it.
type Attempt = Shared<BoxFuture<'static, Result<Arc<Connected>, StoreError>>>;

/// One connection.
pub(super) struct Connected {
    connection: MultiplexedConnection,
    fsynced: AtomicBool,
}

/// The functions, under a name that changes with their text, so that coordinators of different versions that share a
/// server do not replace each other's.
#[derive(Debug)]
struct Library {
    code: String,
    commit: String,
    free: String,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client knows the password.
        f.debug_struct("Link").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Link {
    /// Prepares a link to the server of a `redis://` URL. Nothing is sent yet.
    pub(super) fn new(url: &str) -> Result<Self, StoreError> {
        // Errors of the URL do not repeat it, and it may hold a password.
        let wrong = |error: RedisError| StoreError::Unavailable(format!("the URL of the store is wrong: {error}"));
        let client = Client::open(url).map_err(wrong)?;
        let tcp = TcpSettings::default().set_nodelay(true);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(UNACKNOWLEDGED_MAX);
        let server = client.get_connection_info().clone();
        // Whatever the URL says: the answers are read as the older protocol has them.
        let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
        let client = Client::open(server.set_tcp_settings(tcp).set_redis_settings(settings)).map_err(wrong)?;
        Ok(Self { client, library: Library::new(), connected: RwLock::new(None), attempt: Mutex::new(None) })
    }

    /// Returns the server's address.
    pub(super) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Returns the connection, after making it if need be.
    ///
    /// Whoever asks while an attempt is under way shares its outcome, or a crowd would wait for an attempt each. It has
    /// a task of its own: a caller that made it itself might not be polled for as long as it waits for another caller.
    pub(super) async fn connected(self: &Arc<Self>) -> Result<Arc<Connected>, StoreError> {
        if let Some(connected) = self.current() {
            return Ok(connected);
        }
        let attempt = {
            let mut attempt = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
            // The attempt may have succeeded in between.
            if let Some(connected) = self.current() {
                return Ok(connected);
            }
            attempt.get_or_insert_with(|| self.attempt()).clone()
        };
        attempt.await
    }

    /// Starts an attempt to connect.
    fn attempt(self: &Arc<Self>) -> Attempt {
        let link = Arc::clone(self);
        let attempt = tokio::spawn(async move {
            let connected = timeout(CONNECT_TIMEOUT, link.connect()).await;
            let connected = connected.unwrap_or_else(|_| Err(link.unavailable("no answer to a new connection")));
            let connected = connected.map(Arc::new);
            if let Ok(connected) = &connected {
                *link.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(connected.clone());
            }
            *link.attempt.lock().unwrap_or_else(PoisonError::into_inner) = None;
            connected
        });
        let cut_off = |_| Err(StoreError::Unavailable("the attempt to connect was cut off".to_owned()));
        attempt.map(move |ended| ended.unwrap_or_else(cut_off)).boxed().shared()
    }

    /// Calls the function that carries out transactions.
    pub(super) async fn call(
        self: &Arc<Self>,
        frees: bool,
        command: impl Fn(&str) -> Cmd,
    ) -> Result<(Value, Durability), StoreError> {
        let function = if frees { &self.library.free } else { &self.library.commit };
        let command = command(function);
        let connected = self.connected().await?;
        let mut answer = connected.send(&command).await;
        if answer.as_ref().is_err_and(is_function_missing) {
            // Nothing was carried out, so it may be sent again.
            self.load(&connected).await.map_err(|error| self.explain(&connected, &error))?;
            answer = connected.send(&command).await;
        }
        let answer = answer.map_err(|error| self.explain(&connected, &error))?;
        Ok((answer, connected.durability()))
    }

    /// Asks what changes nothing; twice, where the connection turned out to be lost.
    pub(super) async fn read(self: &Arc<Self>, questions: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let mut again = true;
        loop {
            let connected = self.connected().await?;
            let answer: Result<Vec<Value>, _> = questions.query_async(&mut connected.connection.clone()).await;
            match answer {
                Ok(answers) => return Ok(answers),
                Err(error) => {
                    let lost = error.is_connection_dropped();
                    let error = self.explain(&connected, &error);
                    if !(lost && std::mem::take(&mut again)) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Keeps looking at the connection for as long as it runs.
    pub(super) async fn watch(self: &Arc<Self>) {
        let mut ticks = interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Whoever needs the connection is told why there is none.
            let _ = self.check().await;
        }
    }

    /// Looks whether the connection is alive, and how durable commits are by now.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), StoreError> {
        let connected = self.connected().await?;
        match connected.ask_durability().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(&connected, &error)),
        }
    }

    /// Warns when the server may drop keys by itself as its memory runs out. One that does not tell is taken to be right.
    pub(super) async fn warn_of_eviction(self: &Arc<Self>) {
        let mut ask = Pipeline::new();
        ask.cmd("CONFIG").arg("GET").arg("maxmemory-policy");
        let Ok(answers) = self.read(&ask).await else { return };
        let settings: Vec<Vec<String>> = answers.into_iter().filter_map(|a| redis::from_redis_value(a).ok()).collect();
        if let Some(policy) = settings.first().and_then(|setting| setting.get(1))
            && policy != "noeviction"
        {
            tracing::warn!(
                server = self.address(),
                policy,
                "the server drops keys when its memory is full, and messages with them: set maxmemory-policy noeviction"
            );
        }
    }

    /// Makes a connection of its own that listens to a channel.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<PubSub, StoreError> {
        let subscribing = async {
            let mut subscription = self.client.get_async_pubsub().await?;
            subscription.subscribe(channel).await?;
            Ok::<_, RedisError>(subscription)
        };
        match timeout(CONNECT_TIMEOUT, subscribing).await {
            Ok(Ok(subscription)) => Ok(subscription),
            Ok(Err(error)) => Err(self.say(&error)),
            Err(_) => Err(self.unavailable("no answer to a subscription")),
        }
    }

    /// Returns an error that names the server.
    pub(super) fn unavailable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable(format!("{}: {reason}", self.address()))
    }

    fn current(&self) -> Option<Arc<Connected>> {
        self.connected.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn connect(&self) -> Result<Connected, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| self.say(&error))?;
        let connected = Connected { connection, fsynced: AtomicBool::new(false) };
        match self.load(&connected).await.map_err(|error| self.say(&error)) {
            // It may well have the function already; and what only frees must get through to a full server.
            Ok(()) | Err(StoreError::Refusing(_)) => (),
            Err(error) => return Err(error),
        }
        connected.ask_durability().await.map_err(|error| self.say(&error))?;
        Ok(connected)
    }

    async fn load(&self, connected: &Connected) -> Result<(), RedisError> {
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg("REPLACE").arg(&self.library.code);
        connected.send(&load).await.map(drop)
    }

    /// Says what went wrong on a connection, and gives the connection up where it is of no more use.
    fn explain(&self, connected: &Arc<Connected>, error: &RedisError) -> StoreError {
        // A server that has become a replica keeps its connections; its name may lead elsewhere by now.
        let demoted = code(error).as_deref() == Some("READONLY");
        if error.is_unrecoverable_error() || error.is_timeout() || demoted {
            let mut current = self.connected.write().unwrap_or_else(PoisonError::into_inner);
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, connected)) {
                *current = None;
            }
        }
        self.say(error)
    }

    fn say(&self, error: &RedisError) -> StoreError {
        let text = format!("{}: {error}", self.address());
        match code(error).as_deref() {
            Some("OOM" | "READONLY" | "MISCONF" | "NOREPLICAS") => StoreError::Refusing(text),
            Some("WRONGTYPE" | "CORRUPT") => StoreError::Corrupt(text),
            // The function itself failed, which it does on content that it cannot read, before it writes.
            Some("ERR") if text.contains(&self.library.commit) => StoreError::Corrupt(text),
            Some("ERR") if text.contains("unknown command") && text.contains("FUNCTION") => {
                StoreError::Unavailable(format!("{}: Redis 7.0 or newer is needed: {error}", self.address()))
            }
            _ => StoreError::Unavailable(text),
        }
    }
}

impl Connected {
    async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        command.query_async(&mut self.connection.clone()).await
    }

    fn durability(&self) -> Durability {
        if self.fsynced.load(Ordering::Relaxed) { Durability::Fsynced } else { Durability::Applied }
    }

    /// Asks how durable a commit is. A server that does not tell counts as one that promises nothing.
    async fn ask_durability(&self) -> Result<(), RedisError> {
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendonly").arg("appendfsync");
        let settings: Vec<String> = match ask.query_async(&mut self.connection.clone()).await {
            Ok(settings) => settings,
            Err(error) if error.is_io_error() || error.is_timeout() => return Err(error),
            Err(_) => Vec::new(),
        };
        let is = |name, value| settings.chunks(2).any(|setting| setting == [name, value]);
        self.fsynced.store(is("appendonly", "yes") && is("appendfsync", "always"), Ordering::Relaxed);
        Ok(())
    }
}

impl Library {
    fn new() -> Self {
        let name = format!("teamwire_{}", &blake3::hash(BODY.as_bytes()).to_hex()[..16]);
        Self {
            code: format!("#!lua name={name}\nlocal NAME = '{name}'\n{BODY}"),
            commit: format!("{name}_commit"),
            free: format!("{name}_free"),
        }
    }
}

fn is_function_missing(error: &RedisError) -> bool {
    code(error).as_deref() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains("Function not found"))
}

/// Returns the first word of what the server answered, also where it answered to one command of several.
fn code(error: &RedisError) -> Option<String> {
    match error.code() {
        Some(code) => Some(code.to_owned()),
        None => error.clone().into_server_errors()?.first().map(|(_, error)| error.code().to_owned()),
    }
}
