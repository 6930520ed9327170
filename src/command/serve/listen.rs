//! Listening sockets.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use teamwire_server::edge::listen::BACKLOG;
use tokio::net::{TcpListener, TcpSocket};

use crate::failure::Failure;

/// Binds the listener of the protocol. `may_move`: no one has asked for this port, so if another program has it, any
/// other will do.
pub(super) fn bind_protocol(at: SocketAddr, may_move: bool) -> Result<TcpListener, Failure> {
    let bind = |at: SocketAddr| {
        let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Like `TcpListener::bind`, so that a restarted coordinator can bind its port immediately.
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(BACKLOG)
    };
    let bound = match bind(at) {
        Err(error) if may_move && error.kind() == io::ErrorKind::AddrInUse => {
            tracing::warn!("another program listens on {at}, so the console is at another port");
            bind(SocketAddr::new(at.ip(), 0))
        }
        bound => bound,
    };
    bound.map_err(|error| Failure::local(&format!("Cannot listen on {at}; is another coordinator running?"), error))
}

/// Binds an auxiliary listener, if an address is configured. `what` names its purpose in the error.
pub(super) async fn bind_auxiliary(at: Option<SocketAddr>, what: &str) -> Result<Option<TcpListener>, Failure> {
    let Some(at) = at else { return Ok(None) };
    let listener = TcpListener::bind(at).await;
    listener.map(Some).map_err(|error| Failure::local(&format!("Cannot listen on {at} for {what}"), error))
}

/// Returns the address at which clients on this machine reach a listener: the loopback address for a wildcard one.
pub(super) fn local_address(listener: SocketAddr) -> SocketAddr {
    match listener {
        SocketAddr::V4(address) if address.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        SocketAddr::V6(address) if address.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_clients_reach_a_wildcard_listener_on_the_loopback() {
        for (listens, reached) in [
            ("0.0.0.0:7420", "127.0.0.1:7420"),
            ("[::]:7420", "[::1]:7420"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("127.0.0.1:7420", "127.0.0.1:7420"),
        ] {
            assert_eq!(local_address(listens.parse().expect(listens)).to_string(), reached);
        }
    }
}
