//! Makes a connection: which coordinators to try, in which order, and how long to wait for each.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{
    StreamExt as _,
    future::{self, Ready},
    stream::FuturesUnordered,
};
use hyper_util::rt::TokioIo;
use rand::seq::SliceRandom as _;
use teamwire_proto::address::{Address, TcpAddress};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_util::either::Either;
use tonic::transport::{Channel, Endpoint, Uri};
use tower_service::Service;

use super::{
    BROKEN_FOR, DialError, Fault, Frames, Link, Peer, Transport,
    connect::Stream,
    socket,
    wire::{Handshake, Wire},
};

/// How long resolving a name may take, and then connecting, with TLS and the first frame of HTTP/2.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for one coordinator before trying the next in parallel.
const HEAD_START: Duration = Duration::from_millis(500);

/// The connection of a link has ended before its channel was dropped. Nothing was sent.
#[derive(Debug)]
pub(crate) struct ConnectionEnded;

impl fmt::Display for ConnectionEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection has ended")
    }
}

impl std::error::Error for ConnectionEnded {}

impl Transport {
    /// Connects to the first coordinator that answers.
    ///
    /// If one fails, tries the next at once; if one does not answer, after [`HEAD_START`]. A machine that is switched
    /// off thus costs half a second, not the time that TCP takes to notice.
    pub(super) async fn dial(&self, id: u64) -> Result<Link, DialError> {
        let (candidates, mut faults) = self.candidates().await;
        let mut candidates = candidates.into_iter();
        let mut running = FuturesUnordered::new();
        loop {
            if let Some((address, peer)) = candidates.next() {
                running
                    .push(async move { self.open(id, address, &peer).await.map_err(|fault| (address, peer, fault)) });
            } else if running.is_empty() {
                return Err(DialError::new(faults));
            }
            tokio::select! {
                Some(opened) = running.next() => match opened {
                    Ok(link) => return Ok(link),
                    Err((address, peer, fault)) => {
                        faults.push((name(address, &peer), fault));
                        self.suspect(peer, BROKEN_FOR);
                    }
                },
                () = sleep(HEAD_START), if candidates.len() > 0 => {}
            }
        }
    }

    /// Returns the coordinators to try, in order, and the names that could not be resolved.
    async fn candidates(&self) -> (Vec<(&Address, Peer)>, Vec<(String, Fault)>) {
        let (mut candidates, mut faults) = (Vec::new(), Vec::new());
        let resolved = self.addresses.iter().map(|address| async move { (address, self.resolve(address).await) });
        for (address, resolved) in future::join_all(resolved).await {
            match resolved {
                Ok(peers) => candidates.extend(peers.into_iter().map(|peer| (address, peer))),
                Err(error) => faults.push((address.to_string(), Fault::passing(error.to_string()))),
            }
        }
        candidates.shuffle(&mut rand::rng());
        let now = Instant::now();
        let suspects = self.suspects.lock();
        // The sort is stable, so the others stay shuffled.
        candidates.sort_by_key(|(_, peer)| suspects.get(peer).copied().filter(|until| *until > now));
        (candidates, faults)
    }

    async fn resolve(&self, address: &Address) -> io::Result<Vec<Peer>> {
        let address = match address {
            Address::Unix(path) => return Ok(vec![Peer::Socket(path.clone())]),
            Address::Tcp(address) => address,
        };
        if let Ok(ip) = address.host.parse::<IpAddr>() {
            return Ok(vec![Peer::Ip(SocketAddr::new(ip, address.port))]);
        }
        let resolving = self.resolver.resolve(address.host.clone(), address.port);
        match timeout(CONNECT_TIMEOUT, resolving).await {
            Ok(Ok(peers)) if peers.is_empty() => Err(io::Error::other("the name has no address")),
            Ok(resolved) => Ok(resolved?.into_iter().map(Peer::Ip).collect()),
            Err(_) => Err(io::Error::other(format!("the name was not resolved within {CONNECT_TIMEOUT:?}"))),
        }
    }

    async fn connect(&self, address: &Address, peer: &Peer) -> Result<Stream, Fault> {
        match peer {
            Peer::Ip(ip) => self.connect_tcp(*ip).await.map_err(|error| Fault::of(&error, address)),
            Peer::Socket(path) => socket::connect(path).await,
        }
    }

    async fn connect_tcp(&self, peer: SocketAddr) -> io::Result<Stream> {
        if let Some(connector) = &self.connector {
            return connector.connect(peer).await.map(Either::Right);
        }
        let stream = TcpStream::connect(peer).await?;
        // Without this setting the connection is only slower.
        let _ = stream.set_nodelay(true);
        Ok(Either::Left(stream))
    }

    async fn open(&self, id: u64, address: &Address, peer: &Peer) -> Result<Link, Fault> {
        let opening = async {
            let handshake = Arc::new(Handshake::new(address, Arc::clone(&self.has_connected)));
            let stream = self.connect(address, peer).await?;
            let stream = match (&self.tls, address) {
                (Some(tls), Address::Tcp(of)) => Either::Left(tls.connect(of, stream, &handshake).await?),
                _ => Either::Right(stream),
            };
            let channel = channel(address, Wire::new(stream, Arc::clone(&handshake))).await?;
            handshake.completed().await?;
            let frames = Arc::new(Frames::new(self.calls_before_frames));
            Ok(Link { id, channel, frames, peer: peer.clone() })
        };
        timeout(CONNECT_TIMEOUT, opening)
            .await
            .unwrap_or_else(|_| Err(Fault::passing(format!("no answer within {CONNECT_TIMEOUT:?}"))))
    }
}

/// Builds a channel on a connection. Keepalive detects within 30 s that a coordinator has vanished, even while a stream
/// is quiet.
async fn channel(address: &Address, wire: Wire) -> Result<Channel, Fault> {
    let authority = address.authority();
    let scheme = if address.is_tls() { "https" } else { "http" };
    let origin: Uri = format!("{scheme}://{authority}")
        .parse()
        .map_err(|error| Fault::passing(format!("{address} is not a valid origin: {error}")))?;
    // TLS is already beneath it.
    Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|error| Fault::passing(error.to_string()))?
        .origin(origin)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_with_connector(Once(Some(TokioIo::new(wire))))
        .await
        .map_err(|error| Fault::passing(error.to_string()))
}

/// Names the coordinator that a fault is about.
fn name(address: &Address, peer: &Peer) -> String {
    match (address, peer) {
        (Address::Tcp(TcpAddress { host, .. }), Peer::Ip(peer)) if host.parse::<IpAddr>().is_err() => {
            format!("{address} ({})", peer.ip())
        }
        _ => address.to_string(),
    }
}

/// A connector that returns its connection once, and fails afterwards.
struct Once(Option<TokioIo<Wire>>);

impl Service<Uri> for Once {
    type Response = TokioIo<Wire>;
    type Error = ConnectionEnded;
    type Future = Ready<Result<Self::Response, ConnectionEnded>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionEnded>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        future::ready(self.0.take().ok_or(ConnectionEnded))
    }
}
