//! The coordinator's Unix socket. One of the coordinators that share a state directory has it; the next one takes it
//! over when that one ends.

use std::{
    fs::{self, File},
    path::{self, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::{Gid, Group, geteuid};
use teamwire_client::refuse_unowned;
use teamwire_proto::address::{Address, SOCKET_PATH_BYTES_MAX};
use teamwire_server::edge::listen::bind;
use tokio::{net::UnixListener, sync::SetOnce, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    config::Settings,
    context::{make_private_directory, refuse_shared, socket_path, try_lock},
    failure::Failure,
};

/// The file in the state directory that the coordinator with the socket locks.
const LOCK_FILE: &str = "coordinator.lock";

/// How often a coordinator without the socket tries to take it over.
const RETRY: Duration = Duration::from_secs(1);

/// Where the socket is, and which other users may connect to it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    path: PathBuf,
    lock: PathBuf,
    group: Option<Gid>,
}

impl Place {
    /// Determines the place: the one in the settings, else the one in the state directory.
    pub(super) fn of(settings: &Settings, state_dir: &Path) -> Result<Self, Failure> {
        let group = (!settings.socket_group.is_empty()).then(|| group_id(&settings.socket_group)).transpose()?;
        let Some(path) = &settings.socket else {
            if group.is_some() {
                return Err(Failure::usage(format!(
                    "The group {} cannot reach a socket in {}, which only you may enter. Name another place for it with \
                     --socket, such as /run/teamwire/coordinator.sock.",
                    settings.socket_group,
                    state_dir.display()
                )));
            }
            return Ok(Self { path: socket_path(state_dir)?, lock: state_dir.join(LOCK_FILE), group });
        };
        let (path, length) = (path::absolute(path)?, path.as_os_str().len());
        if length > SOCKET_PATH_BYTES_MAX {
            return Err(Failure::usage(format!(
                "The path of the socket has {length} bytes, more than the {SOCKET_PATH_BYTES_MAX} that a socket can have."
            )));
        }
        refuse_unowned(&path, geteuid().as_raw()).map_err(|why| {
            Failure::usage(format!("The socket cannot be at {}: {why}. Name another place (--socket).", path.display()))
        })?;
        let lock = path.with_extension("lock");
        Ok(Self { path, lock, group })
    }

    /// Returns the socket's address, which all coordinators with this place use in turn.
    pub(super) fn address(&self) -> Result<Address, Failure> {
        let text = self.path.to_str();
        let text = text.ok_or_else(|| Failure::usage(format!("{} is not UTF-8.", self.path.display())))?;
        Ok(Address::Unix(text.to_owned()))
    }

    /// Returns whether users besides the coordinator's own may connect.
    pub(super) fn is_shared(&self) -> bool {
        self.group.is_some()
    }
}

/// Returns the id of a group, which is given by its name or its number.
fn group_id(text: &str) -> Result<Gid, Failure> {
    let found = match text.parse() {
        Ok(number) => Ok(Some(Gid::from_raw(number))),
        Err(_) => Group::from_name(text).map(|group| group.map(|group| group.gid)),
    };
    found.ok().flatten().ok_or_else(|| {
        Failure::usage(format!(
            "There is no group {text} on this machine. Give the name or the number of one (--socket-group)."
        ))
    })
}

/// A Unix socket, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// The lock that keeps other coordinators from replacing it.
    _lock: File,
}

impl Socket {
    /// Binds the socket. `None` if another coordinator has it.
    pub(super) fn bind(place: &Place) -> Result<Option<(Self, UnixListener)>, Failure> {
        let Some(lock) = try_lock(&place.lock)? else { return Ok(None) };
        // A socket whose path would be too long in the state directory has a directory besides.
        if let Some(directory) = place.path.parent().filter(|parent| Some(*parent) != place.lock.parent()) {
            make_private_directory(directory)?;
            refuse_shared(directory)?;
        }
        let failed = |error| Failure::local(&format!("Cannot listen on {}", place.path.display()), error);
        let listener = bind(&place.path, place.group).map_err(failed)?;
        Ok(Some((Self { path: place.path.clone(), _lock: lock }, listener)))
    }

    /// Keeps the socket until `stop`. `bound`: what [`bind`](Self::bind) has returned; if another coordinator has the
    /// socket, this one takes it over once that one has ended.
    pub(super) fn hold(
        place: Place,
        mut bound: Option<(Self, UnixListener)>,
        listener: Arc<SetOnce<UnixListener>>,
        stop: CancellationToken,
    ) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(tokio::spawn(async move {
            if bound.is_none() {
                tracing::info!("another coordinator has the Unix socket; this one takes it over when that one ends");
            }
            let (socket, bound) = loop {
                if let Some(bound) = bound {
                    break bound;
                }
                sleep(RETRY).await;
                bound = match Self::bind(&place) {
                    Ok(bound) => bound.inspect(|_| tracing::info!("took over the Unix socket")),
                    Err(failure) => {
                        return tracing::warn!(error = failure.message(), "cannot take over the Unix socket");
                    }
                };
            };
            let _ = listener.set(bound);
            stop.cancelled().await;
            drop(socket);
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

    fn place(directory: &Path, settings: &Settings) -> Result<Place, String> {
        Place::of(settings, directory).map_err(|failure| failure.message().to_owned())
    }

    #[tokio::test]
    async fn the_next_coordinator_of_a_state_directory_takes_the_socket_over() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), &Settings::default()).unwrap();
        let held = Socket::bind(&place).unwrap();
        assert!(held.is_some() && Socket::bind(&place).unwrap().is_none());
        let next = Arc::new(SetOnce::new());
        let stop = CancellationToken::new();
        let _holding = Socket::hold(place, None, Arc::clone(&next), stop.clone());
        drop(held);
        let listener = next.wait().await;
        assert!(listener.local_addr().unwrap().as_pathname().unwrap().exists());
    }

    #[test]
    fn a_place_that_cannot_serve_its_users_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let refusal = |socket: Option<&str>, group: &str| {
            let settings =
                Settings { socket: socket.map(PathBuf::from), socket_group: group.to_owned(), ..Settings::default() };
            place(directory.path(), &settings).err().unwrap_or_default()
        };
        assert!(refusal(None, "0").contains("--socket"), "the group cannot reach the state directory");
        assert!(refusal(None, "no-such-group").contains("There is no group no-such-group"));
        assert!(refusal(Some(&format!("/{}", "x".repeat(103))), "").contains("104 bytes"));
        assert!(refusal(Some("/tmp/x.sock"), "").contains("/tmp"), "others can replace what is there");
        assert!(refusal(Some("/no/such/place.sock"), "").contains("/no"));
    }
}
