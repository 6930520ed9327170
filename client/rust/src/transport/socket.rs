//! Connects to a coordinator's Unix socket, if the coordinator runs as this user or as root.

use super::{Fault, connect::Stream};

/// Connects to a socket. Fails if another user listens there, before anything is sent: that may be anyone's program.
#[cfg(unix)]
pub(super) async fn connect(path: &str) -> Result<Stream, Fault> {
    use std::io;

    use nix::unistd::geteuid;
    use tokio::net::UnixStream;
    use tokio_util::either::Either;

    let stream = UnixStream::connect(path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Fault { is_refused: true, ..Fault::passing("no coordinator listens there") }
        }
        io::ErrorKind::PermissionDenied => {
            Fault::lasting("this user may not use it: it belongs to the coordinator of another user")
        }
        _ => Fault::passing(error.to_string()),
    })?;
    let owner = stream.peer_cred().map_err(|error| Fault::passing(error.to_string()))?.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(Fault::lasting(format!(
            "another user (uid {owner}) listens there, so nothing is sent. Use a coordinator of this user, or one with TLS"
        )));
    }
    Ok(Either::Right(Box::new(stream)))
}

#[cfg(not(unix))]
pub(super) async fn connect(_: &str) -> Result<Stream, Fault> {
    Err(Fault::lasting("this system has no Unix sockets. Use an address with https://"))
}
