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

/// Connects a client from the current host. Its calls travel in frames from the first one, or only later, or never.
pub(crate) fn client(address: &str) -> Result<Client, Error> {
    let now = turmoil::sim_elapsed().map_or(0, |elapsed| elapsed.as_millis());
    let calls_before_frames = [0, 8, u32::MAX][usize::try_from(now % 3).unwrap_or_default()];
    let connector: Option<Arc<dyn Connect>> = Some(Arc::new(Dialler));
    let options = ConnectOptions { connector, calls_before_frames, ..ConnectOptions::default() };
    Client::connect_with(address, options)
}
