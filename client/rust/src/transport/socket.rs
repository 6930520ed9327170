//! Connects to a coordinator's Unix socket, if it is certain whose it is: this user's, root's, or that of the user to
//! whom its place belongs.

use super::{Fault, connect::Stream};

/// Connects to a socket. Fails, before anything is sent, if another user listens there whose place it is not: that may
/// be anyone's program.
#[cfg(unix)]
pub(super) async fn connect(path: &str) -> Result<Stream, Fault> {
    use std::{io, path::Path};

    use nix::unistd::geteuid;
    use tokio::net::UnixStream;
    use tokio_util::either::Either;

    use crate::refuse_unowned;

    let stream = UnixStream::connect(path).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            Fault { is_refused: true, ..Fault::passing("no coordinator listens there") }
        }
        io::ErrorKind::PermissionDenied => {
            Fault::lasting("this user may not connect: it is the coordinator of another user, who can admit a group (serve --socket-group)")
        }
        _ => Fault::passing(error.to_string()),
    })?;
    let owner = stream.peer_cred().map_err(|error| Fault::passing(error.to_string()))?.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        refuse_unowned(Path::new(path), owner).map_err(|why| {
            Fault::lasting(format!(
                "another user (uid {owner}) listens there, and {why}, so nothing is sent. Use a coordinator of this user, or one with \
                 TLS"
            ))
        })?;
    }
    Ok(Either::Right(Box::new(stream)))
}

#[cfg(not(unix))]
pub(super) async fn connect(_: &str) -> Result<Stream, Fault> {
    Err(Fault::lasting("this system has no Unix sockets. Use an address with https://"))
}
