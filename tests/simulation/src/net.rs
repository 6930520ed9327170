//! The simulated network: a coordinator's listener and a client's connector.

use std::{io, net::SocketAddr, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use teamwire_client::{Client, Connect, ConnectOptions, Duplex, Error};
use teamwire_server::edge::Listen;
use turmoil::net::{TcpListener, TcpStream};

/// The port of every coordinator.
pub(crate) const PORT: u16 = 7420;

/// A listener on the current host.
pub(crate) struct Port(TcpListener);

impl Port {
    /// Starts to listen.
    pub(crate) async fn open() -> io::Result<Self> {
        TcpListener::bind(("0.0.0.0", PORT)).await.map(Self)
    }
}

impl Listen for Port {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.accept().await
    }
}

#[derive(Debug)]
struct Dialler;

impl Connect for Dialler {
    fn connect(&self, peer: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Duplex>>> {
        async move { Ok(Box::new(TcpStream::connect(peer).await?) as Box<dyn Duplex>) }.boxed()
    }
}

/// Connects a client from the current host.
pub(crate) fn client(address: &str) -> Result<Client, Error> {
    let options = ConnectOptions { connector: Some(Arc::new(Dialler)), ..ConnectOptions::default() };
    Client::connect_with(address, options)
}
