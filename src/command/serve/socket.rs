//! The coordinator's Unix socket: where it is, and that only one coordinator uses a state directory.

use std::{
    env,
    fs::{self, File},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;
use ring::digest::{SHA256, digest};
use teamwire_client::SOCKET_FILE;
use teamwire_proto::address::{Address, SOCKET_PATH_BYTES_MAX};
use teamwire_server::edge::listen::bind;
use tokio::net::UnixListener;

use crate::{
    context::{make_private_directory, refuse_shared, try_lock},
    failure::{Failure, UNREACHABLE},
};

/// The file in the state directory that the coordinator locks.
const LOCK_FILE: &str = "coordinator.lock";

/// A Unix socket, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// Its address.
    pub(super) address: Address,
    /// The lock that keeps other coordinators from replacing it.
    _lock: File,
}

impl Socket {
    /// Binds the socket of a state directory. Fails if another coordinator has it.
    pub(super) fn bind(state_dir: &Path) -> Result<(Option<Self>, Option<UnixListener>), Failure> {
        let lock = try_lock(&state_dir.join(LOCK_FILE))?.ok_or_else(|| {
            let text = format!(
                "Another coordinator runs with the state directory {}. End it first, or give this one another directory with \
                 --state-dir.",
                state_dir.display()
            );
            Failure::with_code(UNREACHABLE, text)
        })?;
        let path = path(state_dir)?;
        let failed = |error| Failure::local(&format!("Cannot listen on {}", path.display()), error);
        let text = path.to_str().ok_or_else(|| Failure::usage(format!("{} is not UTF-8.", path.display())))?;
        let address = Address::Unix(text.to_owned());
        let listener = bind(&path).map_err(failed)?;
        Ok((Some(Self { path, address, _lock: lock }), Some(listener)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns where the socket of a state directory is: in it or, if that path is too long for a socket, in a private directory among
/// the temporary files.
fn path(state_dir: &Path) -> Result<PathBuf, Failure> {
    let state_dir = std::path::absolute(state_dir)?;
    let path = state_dir.join(SOCKET_FILE);
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(path);
    }
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let runtime = runtime.unwrap_or_else(|| PathBuf::from("/tmp"));
    let directory = runtime.join(format!("teamwire-{}", geteuid()));
    make_private_directory(&directory)?;
    refuse_shared(&directory)?;
    let name = hex::encode(&digest(&SHA256, state_dir.as_os_str().as_bytes()).as_ref()[..8]);
    Ok(directory.join(format!("{name}.sock")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_in_the_state_directory_unless_its_path_would_be_too_long() {
        assert_eq!(path(Path::new("/state")).unwrap(), Path::new("/state").join(SOCKET_FILE));
        let [one, other] = ["a", "b"].map(|end| path(&Path::new("/state").join("x".repeat(100)).join(end)).unwrap());
        assert!(one.as_os_str().len() <= SOCKET_PATH_BYTES_MAX && one != other, "{}", one.display());
    }

    #[tokio::test]
    async fn two_coordinators_cannot_use_one_state_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (held, _listener) = Socket::bind(directory.path()).unwrap();
        assert!(Socket::bind(directory.path()).unwrap_err().message().contains("--state-dir"));
        drop(held);
        Socket::bind(directory.path()).unwrap();
    }
}
