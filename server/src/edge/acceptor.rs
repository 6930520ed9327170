//! Takes connections, and brings each to where HTTP/2 begins.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::either::Either;

use super::{Bounds, connection::Connection, tls::Tls};

/// How long to wait when the system gives no connection, for example for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// How many connections wait to be taken over. There are never more than are open.
const READY_MAX: usize = 64;

/// Where connections come from: the system, or the network of a simulation.
pub trait Listen: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection, and says from where it comes.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // A setting that cannot be made costs speed only.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

/// Takes connections.
#[derive(Debug)]
pub struct Acceptor<L = TcpListener> {
    listener: L,
    tls: Option<Arc<Tls>>,
    bounds: Bounds,
    places: Arc<Semaphore>,
}

impl<L: Listen> Acceptor<L> {
    /// Takes what comes to a listener; with TLS if certificates are given.
    pub fn new(listener: L, tls: Option<Arc<Tls>>, bounds: Bounds) -> Self {
        let places = Arc::new(Semaphore::new(bounds.connections_max));
        Self { listener, tls, bounds, places }
    }

    /// Returns the connections that are ready for HTTP/2. The listener is closed when the stream is dropped.
    pub fn incoming(self) -> impl tokio_stream::Stream<Item = io::Result<Connection<L::Stream>>> {
        let (ready, incoming) = mpsc::channel(READY_MAX);
        tokio::spawn(self.run(ready));
        ReceiverStream::new(incoming).map(Ok)
    }

    async fn run(self, ready: mpsc::Sender<Connection<L::Stream>>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = ready.closed() => return,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer, &ready),
                // It is over for this one connection only.
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be taken at the moment");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: L::Stream, peer: SocketAddr, ready: &mpsc::Sender<Connection<L::Stream>>) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            tracing::debug!(%peer, max = self.bounds.connections_max, "closed: too many connections are open");
            return;
        };
        let (tls, bounds, ready) = (self.tls.clone(), self.bounds.clone(), ready.clone());
        tokio::spawn(async move {
            match prepare(stream, peer, tls.as_deref(), &bounds, place).await {
                // If nobody takes it any more, the coordinator is going away.
                Ok(connection) => drop(ready.send(connection).await),
                Err(error) => tracing::debug!(%peer, %error, "closed: no handshake"),
            }
        });
    }
}

async fn prepare<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    peer: SocketAddr,
    tls: Option<&Tls>,
    bounds: &Bounds,
    place: OwnedSemaphorePermit,
) -> io::Result<Connection<S>> {
    let began = Instant::now();
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => {
            let shaken = timeout_at(began + bounds.handshake_timeout, tls.acceptor().accept(stream)).await;
            Either::Right(Box::new(shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??))
        }
    };
    Ok(Connection::new(stream, peer, began + bounds.authentication_timeout, place))
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
