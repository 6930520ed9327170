//! Sockets, and how many connections they may have.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

use crate::failure::Failure;

/// How many connections the system keeps until they are taken; it may keep fewer. A whole team redials at once when its
/// coordinator has come back, and whom the system keeps no place for is cut off without a word.
const BACKLOG: u32 = 4_096;

/// How many files a coordinator has open besides connections at the most: its store, its listeners, certificates as they are
/// read.
const OTHER_FILES: u64 = 128;

/// Has the system let this process have as many connections open as it may take. Many systems let a program open 1,024
/// files until it asks for more.
pub(super) fn allow_connections(max: usize) {
    let wanted = max as u64 + OTHER_FILES;
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(now, most)| {
        let raised = now.max(wanted.min(most));
        setrlimit(Resource::RLIMIT_NOFILE, raised, most).map(|()| raised)
    });
    match allowed {
        Ok(allowed) if allowed >= wanted => {}
        Ok(allowed) => tracing::warn!(
            allowed,
            wanted,
            "the system lets this process open fewer files than network.connections_max connections take: raise its hard limit \
             (ulimit -Hn, LimitNOFILE=) or lower that"
        ),
        Err(error) => tracing::warn!(%error, "it is not known how many files this process may open"),
    }
}

/// Listens where members call.
pub(super) fn listen_at(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As `TcpListener::bind` does, so that a coordinator can come back at once.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Listens at an address, if there is to be one.
pub(super) async fn bind(at: Option<SocketAddr>, what: &str) -> Result<Option<TcpListener>, Failure> {
    let Some(at) = at else { return Ok(None) };
    let listener = TcpListener::bind(at).await;
    listener.map(Some).map_err(|error| Failure::local(&format!("{at} cannot be listened on for {what}"), error))
}

/// Returns where clients on this machine reach a listener: one that listens everywhere also does so on the loopback.
pub(super) fn reachable(listener: SocketAddr) -> SocketAddr {
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
    fn a_coordinator_that_listens_everywhere_is_reached_on_the_loopback() {
        for (listens, reached) in [
            ("0.0.0.0:7420", "127.0.0.1:7420"),
            ("[::]:7420", "[::1]:7420"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("127.0.0.1:7420", "127.0.0.1:7420"),
        ] {
            assert_eq!(reachable(listens.parse().expect(listens)).to_string(), reached);
        }
    }
}
