//! A listener for clients that present no credential: probes and scrapers.
//!
//! It holds few connections, each for a short time, so that its clients cannot use up the file descriptors of the
//! protocol's listener. When too many are open, it closes the oldest one, and those from this machine last. So a client
//! that holds many idle connections keeps no one out.

use std::{
    collections::VecDeque,
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::Fuse};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use super::pace::AcceptPace;

/// How many connections may be open. Probes and scrapers need one each.
const CONNECTIONS_MAX: usize = 32;

/// How long a connection may be open. Longer than a probe or a scrape takes.
const LIFETIME: Duration = Duration::from_secs(10);

/// How long to wait if the system cannot accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The open connections, the oldest first.
type Open = Arc<Mutex<VecDeque<ConnectionSlot>>>;

/// A listener for clients that present no credential.
#[derive(Debug)]
pub struct PublicListener {
    listener: TcpListener,
    open: Open,
    accepted: u64,
    pace: AcceptPace,
}

/// An open connection.
#[derive(Debug)]
struct ConnectionSlot {
    number: u64,
    is_local: bool,
    /// Closes the connection.
    evict: CancellationToken,
}

impl PublicListener {
    /// Bounds the connections of a listener.
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, open: Open::default(), accepted: 0, pace: AcceptPace::default() }
    }

    /// Returns the connections, for a gRPC server.
    pub fn incoming(self) -> impl futures::Stream<Item = io::Result<PublicConnection>> {
        futures::stream::unfold(self, |mut listener| async {
            let (connection, _) = axum::serve::Listener::accept(&mut listener).await;
            Some((connection, listener))
        })
        .map(Ok)
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) -> PublicConnection {
        let evict = CancellationToken::new();
        let mut open = self.open.lock();
        if open.len() >= CONNECTIONS_MAX {
            let oldest = open.iter().position(|slot| !slot.is_local).unwrap_or(0);
            if let Some(slot) = open.remove(oldest) {
                tracing::debug!(max = CONNECTIONS_MAX, "closed: too many connections are open");
                slot.evict.cancel();
                self.pace.pushed_out();
            }
        }
        self.accepted += 1;
        open.push_back(ConnectionSlot {
            number: self.accepted,
            is_local: peer.ip().is_loopback(),
            evict: evict.clone(),
        });
        drop(open);
        let over: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { timeout(LIFETIME, evict.cancelled()).await.unwrap_or_default() });
        PublicConnection { stream, over: over.fuse(), number: self.accepted, open: Arc::clone(&self.open) }
    }
}

impl axum::serve::Listener for PublicListener {
    type Io = PublicConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (PublicConnection, SocketAddr) {
        loop {
            self.pace.wait().await;
            match self.listener.accept().await {
                Ok((stream, peer)) => return (self.admit(stream, peer), peer),
                Err(error) => {
                    tracing::debug!(%error, "no connection can be accepted at the moment");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that fails once it is too old, or the oldest of too many.
///
/// Every read and write checks this: hyper always has a read under way, unless it waits to write.
pub struct PublicConnection {
    stream: TcpStream,
    over: Fuse<Pin<Box<dyn Future<Output = ()> + Send>>>,
    number: u64,
    open: Open,
}

impl fmt::Debug for PublicConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicConnection").field("number", &self.number).finish_non_exhaustive()
    }
}

impl PublicConnection {
    fn poll_over(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.over.poll_unpin(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Drop for PublicConnection {
    fn drop(&mut self) {
        self.open.lock().retain(|slot| slot.number != self.number);
    }
}

impl Connected for PublicConnection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for PublicConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PublicConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_over(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
