//! The coordinator's Unix socket. One of the coordinators that share a state directory has it; the next one takes it over when that
//! one ends.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use teamwire_proto::address::Address;
use teamwire_server::edge::listen::bind;
use tokio::{net::UnixListener, sync::SetOnce, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    context::{make_private_directory, refuse_shared, socket_path, try_lock},
    failure::Failure,
};

/// The file in the state directory that the coordinator with the socket locks.
const LOCK_FILE: &str = "coordinator.lock";

/// How often a coordinator without the socket tries to take it over.
const RETRY: Duration = Duration::from_secs(1);

/// A Unix socket, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The lock that keeps other coordinators from replacing it.
    _lock: File,
}

impl Socket {
    /// Returns its address, which all coordinators that share a state directory use in turn.
    pub(super) fn address(state_dir: &Path) -> Result<Address, Failure> {
        let path = socket_path(state_dir)?;
        let text = path.to_str().ok_or_else(|| Failure::usage(format!("{} is not UTF-8.", path.display())))?;
        Ok(Address::Unix(text.to_owned()))
    }

    /// Binds the socket of a state directory. None: another coordinator has it.
    pub(super) fn bind(state_dir: &Path) -> Result<Option<(Self, UnixListener)>, Failure> {
        let Some(lock) = try_lock(&state_dir.join(LOCK_FILE))? else { return Ok(None) };
        let path = socket_path(state_dir)?;
        if let Some(directory) = path.parent().filter(|parent| *parent != state_dir) {
            make_private_directory(directory)?;
            refuse_shared(directory)?;
        }
        let failed = |error| Failure::local(&format!("Cannot listen on {}", path.display()), error);
        let listener = bind(&path).map_err(failed)?;
        Ok(Some((Self { path, _lock: lock }, listener)))
    }

    /// Takes the socket over once the coordinator that has it has ended. Stops when the returned handle is dropped.
    pub(super) fn take_over(
        state_dir: &Path,
        listener: Arc<SetOnce<UnixListener>>,
        stop: CancellationToken,
    ) -> AbortOnDropHandle<()> {
        let state_dir = state_dir.to_owned();
        AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                sleep(RETRY).await;
                match Self::bind(&state_dir) {
                    Ok(None) => {}
                    Ok(Some((socket, bound))) => {
                        tracing::info!("took over the Unix socket");
                        let _ = listener.set(bound);
                        stop.cancelled().await;
                        return drop(socket);
                    }
                    Err(failure) => {
                        return tracing::warn!(error = failure.message(), "cannot take over the Unix socket");
                    }
                }
            }
        }))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_coordinator_of_a_state_directory_takes_the_socket_over() {
        let directory = tempfile::tempdir().unwrap();
        let held = Socket::bind(directory.path()).unwrap().unwrap();
        assert!(Socket::bind(directory.path()).unwrap().is_none());
        let next = Arc::new(SetOnce::new());
        let stop = CancellationToken::new();
        let _taking_over = Socket::take_over(directory.path(), Arc::clone(&next), stop.clone());
        drop(held);
        let listener = next.wait().await;
        assert!(listener.local_addr().unwrap().as_pathname().unwrap().exists());
    }
}
