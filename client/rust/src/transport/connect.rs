//! From IP addresses to connections, where the system does not make them.

use std::{fmt, io, net::SocketAddr};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::either::Either;

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Makes connections, instead of the system.
pub trait Connect: fmt::Debug + Send + Sync {
    /// Connects to a peer, or fails as TCP does.
    fn connect(&self, peer: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>>;
}

/// What a connection is made of, beneath TLS.
pub(super) type Stream = Either<TcpStream, Box<dyn Duplex>>;
