//! Accepts connections, and prepares each up to where HTTP/2 starts.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::either::Either;

use super::{
    Bounds,
    connection::Connection,
    listen::{Listen, SOCKET_PEER},
    pace::AcceptPace,
    slots::{self, ConnectionSlot, ConnectionSlots},
    tls::Tls,
};
use crate::budget::Budgets;

/// How long to wait if the system cannot accept a connection, for example because file descriptors are used up.
const PAUSE: Duration = Duration::from_millis(100);

/// The shortest time between two log lines about that.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// How many prepared connections wait for the server. There are never more than are open.
const READY_MAX: usize = 64;

/// Accepts connections.
#[derive(Debug)]
pub struct Acceptor<L = TcpListener> {
    listener: L,
    tls: Option<Arc<Tls>>,
    bounds: Bounds,
    slots: Arc<ConnectionSlots>,
}

impl<L: Listen> Acceptor<L> {
    /// Accepts the connections of a listener; with TLS if certificates are given.
    pub fn new(listener: L, tls: Option<Arc<Tls>>, bounds: Bounds, budgets: Arc<Budgets>) -> Self {
        let of_all = slots::Bounds {
            all: bounds.connections_max,
            reserved: bounds.connections_max * bounds.reserved_percent / 100,
            strangers_per_address: bounds.strangers_per_address_max,
        };
        let slots = Arc::new(ConnectionSlots::new(budgets, of_all));
        Self { listener, tls, bounds, slots }
    }

    /// Returns the connections that are ready for HTTP/2. The listener is closed when the stream is dropped.
    pub fn incoming(self) -> impl tokio_stream::Stream<Item = io::Result<Connection<L::Stream>>> {
        let (ready, incoming) = mpsc::channel(READY_MAX);
        tokio::spawn(self.run(ready));
        ReceiverStream::new(incoming).map(Ok)
    }

    async fn run(self, ready: mpsc::Sender<Connection<L::Stream>>) {
        let mut pace = AcceptPace::default();
        let mut say_at = Instant::now();
        loop {
            pace.wait().await;
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = ready.closed() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if self.admit(stream, peer, &ready) {
                        pace.pushed_out();
                    }
                }
                // Only this connection has failed.
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    if Instant::now() >= say_at {
                        tracing::warn!(%error, "no connection can be accepted at the moment");
                        say_at = Instant::now() + SAID_EVERY;
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Admits a connection, or closes it. Returns whether it or another one had to make way.
    fn admit(&self, stream: L::Stream, peer: SocketAddr, ready: &mpsc::Sender<Connection<L::Stream>>) -> bool {
        let Some(slot) = self.slots.admit(peer) else {
            tracing::debug!(%peer, max = self.bounds.connections_max, "closed: too many connections are open");
            return true;
        };
        let pushes_out = slot.pushes_out();
        // Nothing that is sent over the socket leaves the machine.
        let tls = self.tls.clone().filter(|_| peer != SOCKET_PEER);
        let (bounds, ready) = (self.bounds.clone(), ready.clone());
        tokio::spawn(async move {
            match prepare(stream, peer, tls.as_deref(), &bounds, slot).await {
                // If the server no longer takes it, the coordinator is shutting down.
                Ok(connection) => drop(ready.send(connection).await),
                Err(error) => tracing::debug!(%peer, %error, "closed: no handshake"),
            }
        });
        pushes_out
    }
}

async fn prepare<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: SocketAddr,
    tls: Option<&Tls>,
    bounds: &Bounds,
    slot: ConnectionSlot,
) -> io::Result<Connection<S>> {
    let began = Instant::now();
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => {
            let shaken = timeout_at(began + bounds.handshake_timeout, tls.acceptor().accept(stream));
            let shaken = tokio::select! {
                shaken = shaken => shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?,
                () = slot.evicted() => return Err(io::Error::other("another connection took its slot")),
            };
            Either::Right(Box::new(shaken?))
        }
    };
    Ok(Connection::new(stream, peer, began + bounds.authentication_timeout, slot))
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
