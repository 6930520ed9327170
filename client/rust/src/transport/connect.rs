//! Custom connections, for simulations.

use std::{fmt, io, net::SocketAddr};

use futures::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::either::Either;

/// A stream of bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Makes connections in place of the system.
pub trait Connect: fmt::Debug + Send + Sync {
    /// Connects to a peer. Fails as TCP does.
    fn connect(&self, peer: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>>;
}

/// A connection beneath TLS.
pub(super) type Stream = Either<TcpStream, Box<dyn Duplex>>;
