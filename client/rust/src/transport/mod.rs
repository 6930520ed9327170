//! Connects to coordinators: one connection at a time, to any of several that share a store.
//!
//! A [`Link`] is one connection with its gRPC channel. It ends with the connection; nothing reconnects beneath it. The
//! transport keeps the current link for all clones of a client, and makes another if there is none. `dial` chooses the
//! coordinator: it resolves the addresses, shuffles the results, moves those that recently failed or drained to the
//! end, and takes the first that answers. `tls` and `trust` authenticate it, and `fault` says what went wrong. `frames`
//! carries calls over the link once it has carried a few.
//!
//! A coordinator that drains says so in the last frame of a stream or in a refusal. The client leaves its link at once:
//! calls in flight may finish there, and new ones go to another coordinator.

mod connect;
mod dial;
mod fault;
mod frames;
mod resolve;
mod socket;
mod tls;
mod trust;
mod wire;

use std::{
    collections::HashMap,
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use teamwire_proto::address::Address;
use tokio::time::Instant;
use tonic::{ConnectError, Status, transport::Channel};

pub use self::{
    connect::{Connect, Duplex},
    resolve::{Resolve, SystemResolver},
    tls::{Pem, TlsOptions},
};
pub(crate) use self::{
    dial::ConnectionEnded,
    fault::DialError,
    frames::{Authorization, FrameStream},
};
use self::{fault::Fault, frames::Frames, tls::Tls};
use crate::Error;

/// How long a draining coordinator is tried after all others. Its hard stop comes after 30 s.
const DRAINED_FOR: Duration = Duration::from_secs(30);

/// How long a coordinator is tried after all others, after a failed attempt or a broken connection.
const BROKEN_FOR: Duration = Duration::from_secs(10);

/// The environment variable that sets [`ConnectOptions::calls_before_frames`].
pub const FRAMES_VARIABLE: &str = "TEAMWIRE_CALLS_BEFORE_FRAMES";

/// How many calls a connection makes one by one, unless something else is asked for. A command makes fewer.
const CALLS_BEFORE_FRAMES: u32 = 8;

/// How a client reaches coordinators, besides their addresses.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// For `https` addresses: the authorities to trust, and the certificate to present. Default: the system's
    /// authorities, and no certificate.
    pub tls: TlsOptions,
    /// Resolves host names. Default: the system.
    pub resolver: Arc<dyn Resolve>,
    /// How many calls a connection makes one by one before further ones travel as frames of one stream, which costs less.
    /// [`u32::MAX`] means all. Default: what [`FRAMES_VARIABLE`] says, else 8.
    pub calls_before_frames: u32,
    /// Makes connections over the network, for simulations. If `None`, the system does, by TCP.
    #[doc(hidden)]
    pub connector: Option<Arc<dyn Connect>>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let given = env::var(FRAMES_VARIABLE).ok().and_then(|text| text.parse().ok());
        Self {
            tls: TlsOptions::default(),
            resolver: Arc::new(SystemResolver),
            calls_before_frames: given.unwrap_or(CALLS_BEFORE_FRAMES),
            connector: None,
        }
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
    /// Unique among the links of one transport.
    id: u64,
    channel: Channel,
    frames: Arc<Frames>,
    peer: Peer,
}

/// What a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Peer {
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Socket(String),
}

impl Link {
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns the stream that carries a call with a credential. `None` if the call must be made alone.
    pub(crate) fn frames(&self, authorization: &Authorization) -> Option<Arc<FrameStream>> {
        self.frames.stream(&self.channel, authorization)
    }
}

type Dialing = Shared<BoxFuture<'static, Result<Link, DialError>>>;

/// The state of the current link.
enum LinkState {
    None,
    /// One is being made, for every caller that waits.
    Dialing(u64, Dialing),
    Up(Link),
}

/// Keeps a link to one of several coordinators.
pub(crate) struct Transport {
    /// At least one; all with the same scheme.
    addresses: Vec<Address>,
    resolver: Arc<dyn Resolve>,
    /// `None` if the system connects.
    connector: Option<Arc<dyn Connect>>,
    calls_before_frames: u32,
    /// `None` if the addresses are not https.
    tls: Option<Tls>,
    state: Mutex<LinkState>,
    ids: AtomicU64,
    /// The peers to try last, and until when.
    suspects: Mutex<HashMap<Peer, Instant>>,
    /// A coordinator has answered before, so a later fault may be repaired and is not final.
    has_connected: Arc<AtomicBool>,
}

impl Transport {
    pub(crate) fn new(addresses: Vec<Address>, options: ConnectOptions) -> Result<Self, Error> {
        let is_tls = addresses.first().is_some_and(|address| address.is_tls());
        let tls = is_tls.then(|| Tls::new(options.tls)).transpose()?;
        Ok(Self {
            addresses,
            resolver: options.resolver,
            connector: options.connector,
            calls_before_frames: options.calls_before_frames,
            tls,
            state: Mutex::new(LinkState::None),
            ids: AtomicU64::new(0),
            suspects: Mutex::default(),
            has_connected: Arc::default(),
        })
    }

    /// Returns the options that another client needs to connect to the same coordinators.
    ///
    /// After a connection that was trusted by fingerprint, they hold the authority's certificate.
    pub(crate) fn tls_options(&self) -> TlsOptions {
        self.tls.as_ref().map(Tls::options).unwrap_or_default()
    }

    /// Returns the current link, or makes one; all callers wait for the same attempt. A status means that nothing was
    /// sent.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Link, Status> {
        let (id, dialing) = {
            let mut state = self.state.lock();
            match &*state {
                LinkState::Up(link) => return Ok(link.clone()),
                LinkState::Dialing(id, dialing) => (*id, dialing.clone()),
                LinkState::None => {
                    let id = self.ids.fetch_add(1, Ordering::Relaxed);
                    let transport = Arc::clone(self);
                    // Spawned, since other callers wait for it even if this one is cancelled.
                    let task = tokio::spawn(async move { transport.dial(id).await });
                    let dialing = async move { task.await.unwrap_or_else(|error| Err(DialError::interrupted(&error))) };
                    let dialing = dialing.boxed().shared();
                    *state = LinkState::Dialing(id, dialing.clone());
                    (id, dialing)
                }
            }
        };
        let made = dialing.await;
        let mut state = self.state.lock();
        if matches!(&*state, LinkState::Dialing(of, _) if *of == id) {
            *state = made.as_ref().map_or(LinkState::None, |link| LinkState::Up(link.clone()));
        }
        drop(state);
        made.map_err(|error| {
            let error = if self.has_connected() { error.not_final() } else { error };
            Status::from_error(Box::new(ConnectError(Box::new(error))))
        })
    }

    /// Returns whether a coordinator has answered before.
    pub(crate) fn has_connected(&self) -> bool {
        self.has_connected.load(Ordering::Relaxed)
    }

    /// Leaves a link whose coordinator drains.
    pub(crate) fn leave_drained(&self, link: &Link) {
        self.leave_for(link, DRAINED_FOR);
    }

    /// Leaves a link that is broken or silent.
    pub(crate) fn leave(&self, link: &Link) {
        self.leave_for(link, BROKEN_FOR);
    }

    fn leave_for(&self, link: &Link, long: Duration) {
        self.suspect(link.peer.clone(), long);
        let mut state = self.state.lock();
        if matches!(&*state, LinkState::Up(up) if up.id == link.id) {
            *state = LinkState::None;
        }
    }

    /// Makes a peer the last to try for some time. Never shortens the time that was set before.
    fn suspect(&self, peer: Peer, long: Duration) {
        let now = Instant::now();
        let mut suspects = self.suspects.lock();
        suspects.retain(|_, until| *until > now);
        let until = suspects.entry(peer).or_insert(now);
        *until = (*until).max(now + long);
    }
}
