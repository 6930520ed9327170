//! Where connections come from: the network, and the Unix socket, through which the coordinator's user reaches it
//! without a port that another user could take.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
        net::UnixStream as StdUnixStream,
    },
    path::Path,
    sync::Arc,
};

use nix::unistd::{Gid, geteuid};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream},
    sync::SetOnce,
};
use tokio_util::either::Either;

/// A source of connections: the system, or the network of a simulation.
pub trait Listen: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection. Returns it with the peer's address.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // If this fails, it only costs speed.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

/// The length of the kernel's accept queue; the kernel may lower it.
///
/// A whole team reconnects at once after a restart, and the kernel silently drops connections that do not fit the
/// queue.
pub const BACKLOG: u32 = 4_096;

/// What stands for the address of those who connect over the socket. No connection over the network comes from it.
pub const SOCKET_PEER: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 0), 0));

/// Binds a Unix socket that only this user, and the members of a group, can connect to. Replaces a socket that an
/// earlier process has left: the caller makes sure that no process uses it.
pub fn bind(path: &Path, group: Option<Gid>) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            if StdUnixStream::connect(path).is_ok() {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another program listens there"));
            }
            fs::remove_file(path)?;
        }
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "something other than a socket is there")),
        Err(_) => {}
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Within a sandbox, a process may be unable to change even what it need not.
    if let Some(group) = group.map(Gid::as_raw).filter(|group| fs::metadata(path).is_ok_and(|has| has.gid() != *group))
    {
        let refused = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("its group cannot be {group}, which this user must be a member of ({error})"),
            )
        };
        chown(path, None, Some(group)).map_err(refused)?;
    }
    // Nobody can connect before this: it does not listen yet.
    fs::set_permissions(path, fs::Permissions::from_mode(if group.is_some() { 0o660 } else { 0o600 }))?;
    socket.listen(BACKLOG)
}

/// A listener on the network, and one on a Unix socket.
#[derive(Debug)]
pub struct TcpAndSocket {
    /// The listener on the network.
    pub tcp: TcpListener,
    /// The one on a Unix socket, once there is one.
    pub socket: Arc<SetOnce<UnixListener>>,
    /// Whether other users may connect to the socket: all that its mode admits.
    pub is_shared: bool,
}

impl Listen for TcpAndSocket {
    type Stream = Either<TcpStream, UnixStream>;

    async fn accept(&self) -> io::Result<(Self::Stream, SocketAddr)> {
        let local = async { self.socket.wait().await.accept().await };
        tokio::select! {
            accepted = Listen::accept(&self.tcp) => accepted.map(|(stream, peer)| (Either::Left(stream), peer)),
            accepted = local => {
                let (stream, _) = accepted?;
                let user = stream.peer_cred()?.uid();
                if !self.is_shared && user != 0 && user != geteuid().as_raw() {
                    tracing::warn!(user, "closed: another user has connected to the socket");
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Ok((Either::Right(stream), SOCKET_PEER))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_of_an_earlier_process_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let before = bind(&path, None).unwrap();
        assert_eq!(bind(&path, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(before);
        let listener = bind(&path, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let both = TcpAndSocket { tcp, socket: Arc::new(SetOnce::new_with(Some(listener))), is_shared: false };
        let _client = UnixStream::connect(&path).await.unwrap();
        assert_eq!(both.accept().await.unwrap().1, SOCKET_PEER);
        let _client = TcpStream::connect(both.tcp.local_addr().unwrap()).await.unwrap();
        assert!(both.accept().await.unwrap().1.ip() == Ipv4Addr::LOCALHOST);

        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert_eq!(bind(&file, None).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
