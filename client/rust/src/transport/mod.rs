//! Ways to coordinators: one connection at a time, to any of several that share a store.
//!
//! A [`Link`] is one connection with its gRPC channel, and ends with it: nothing reconnects beneath it. The transport
//! keeps the present link for all clones of a client, and makes another when there is none. `dial` decides where to:
//! it resolves the addresses, shuffles what it finds, puts those last that failed or drained a moment ago, and takes the
//! first that answers. `tls` and `trust` decide whom to believe, `fault` says in words what was wrong.
//!
//! A coordinator that drains says so in the last frame of a stream or in a refusal. The link to it is given up at once:
//! what is under way on it may end there, and everything new goes to another one.

mod connect;
mod dial;
mod fault;
mod resolve;
mod tls;
mod trust;
mod wire;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use teamwire_proto::{Reason, address::Address};
use tokio::time::Instant;
use tonic::{ConnectError, Status, transport::Channel};

use self::fault::Fault;
use self::tls::Tls;
pub use self::{
    connect::{Connect, Duplex},
    resolve::{Resolve, SystemResolver},
    tls::{Pem, TlsOptions},
};
pub(crate) use self::{dial::Spent, fault::DialError};
use crate::{Error, retry::Failure};

/// How long a coordinator that drains is put last. Its hard stop comes after 30 s.
const DRAINED_FOR: Duration = Duration::from_secs(30);

/// How long a coordinator is put last that could not be reached, or whose connection has broken.
const BROKEN_FOR: Duration = Duration::from_secs(10);

/// How a client reaches coordinators, besides their addresses.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// For `https` addresses: whom to trust, and what to show. Default: the system's authorities, nothing.
    pub tls: TlsOptions,
    /// What finds the IP addresses of hosts. Default: the system.
    pub resolver: Arc<dyn Resolve>,
    /// What makes connections. None: the system, by TCP. For simulations.
    #[doc(hidden)]
    pub connector: Option<Arc<dyn Connect>>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { tls: TlsOptions::default(), resolver: Arc::new(SystemResolver), connector: None }
    }
}

impl From<TlsOptions> for ConnectOptions {
    fn from(tls: TlsOptions) -> Self {
        Self { tls, ..Self::default() }
    }
}

/// One connection to one coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Tells links of one transport apart.
    id: u64,
    channel: Channel,
    peer: SocketAddr,
}

impl Link {
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }
}

type Dialing = Shared<BoxFuture<'static, Result<Link, DialError>>>;

/// What there is of a link.
enum State {
    None,
    /// One is being made, for all who want one.
    Dialing(u64, Dialing),
    Up(Link),
}

/// Keeps a link to one of several coordinators.
pub(crate) struct Transport {
    /// At least one; all with TLS, or all without.
    addresses: Vec<Address>,
    resolver: Arc<dyn Resolve>,
    /// None: the system.
    connector: Option<Arc<dyn Connect>>,
    /// None: the addresses are without.
    tls: Option<Tls>,
    state: Mutex<State>,
    ids: AtomicU64,
    /// Whom to try last, and until when.
    suspects: Mutex<HashMap<SocketAddr, Instant>>,
    /// A coordinator has answered before. Whatever is wrong with one later may be put right again.
    has_connected: Arc<AtomicBool>,
}

impl Transport {
    pub(crate) fn new(addresses: Vec<Address>, options: ConnectOptions) -> Result<Self, Error> {
        let is_tls = addresses.first().is_some_and(|address| address.is_tls);
        let tls = is_tls.then(|| Tls::new(options.tls)).transpose()?;
        Ok(Self {
            addresses,
            resolver: options.resolver,
            connector: options.connector,
            tls,
            state: Mutex::new(State::None),
            ids: AtomicU64::new(0),
            suspects: Mutex::default(),
            has_connected: Arc::default(),
        })
    }

    /// Returns what another client needs to reach the same coordinators.
    ///
    /// After a connection whose authority was known by its fingerprint it is the authority itself.
    pub(crate) fn tls_options(&self) -> TlsOptions {
        self.tls.as_ref().map(Tls::options).unwrap_or_default()
    }

    /// Returns the present link, or makes one; one at a time, whoever asks. A status that it returns says that nothing
    /// was sent.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Link, Status> {
        let (id, dialing) = {
            let mut state = lock(&self.state);
            match &*state {
                State::Up(link) => return Ok(link.clone()),
                State::Dialing(id, dialing) => (*id, dialing.clone()),
                State::None => {
                    let id = self.ids.fetch_add(1, Ordering::Relaxed);
                    let transport = Arc::clone(self);
                    // On a task of its own: whoever waits may be put aside, and the others wait for it, too.
                    let task = tokio::spawn(async move { transport.dial(id).await });
                    let dialing = async move { task.await.unwrap_or_else(|error| Err(DialError::interrupted(&error))) };
                    let dialing = dialing.boxed().shared();
                    *state = State::Dialing(id, dialing.clone());
                    (id, dialing)
                }
            }
        };
        let made = dialing.await;
        let mut state = lock(&self.state);
        if matches!(&*state, State::Dialing(of, _) if *of == id) {
            *state = made.as_ref().map_or(State::None, |link| State::Up(link.clone()));
        }
        drop(state);
        made.map_err(|error| {
            let error = if self.has_connected.load(Ordering::Relaxed) { error.not_final() } else { error };
            Status::from_error(Box::new(ConnectError(Box::new(error))))
        })
    }

    /// Says what the failure of a call means, and gives the link up where another one is better.
    pub(crate) fn judge(&self, link: &Link, status: &Status) -> Failure {
        let failure = Failure::of(status);
        match &failure {
            Failure::NotNow { refusal, .. } if refusal.reason == Reason::Draining => self.leave_drained(link),
            Failure::Stale => self.leave(link),
            _ => {}
        }
        failure
    }

    /// Gives a link up whose coordinator goes away.
    pub(crate) fn leave_drained(&self, link: &Link) {
        self.leave_for(link, DRAINED_FOR);
    }

    /// Gives a link up that is broken, or from which nothing is heard.
    pub(crate) fn leave(&self, link: &Link) {
        self.leave_for(link, BROKEN_FOR);
    }

    fn leave_for(&self, link: &Link, long: Duration) {
        self.suspect(link.peer, long);
        let mut state = lock(&self.state);
        if matches!(&*state, State::Up(up) if up.id == link.id) {
            *state = State::None;
        }
    }

    /// Notes that a peer is to be tried last for a while, never for less than was noted before.
    fn suspect(&self, peer: SocketAddr, long: Duration) {
        let now = Instant::now();
        let mut suspects = lock(&self.suspects);
        suspects.retain(|_, until| *until > now);
        let until = suspects.entry(peer).or_insert(now);
        *until = (*until).max(now + long);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
