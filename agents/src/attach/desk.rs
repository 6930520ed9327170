//! Where those come who want the session.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use nix::unistd::geteuid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream, unix::pid_t},
    sync::mpsc,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::{Answer, Hello, MARK_VARIABLE, Start};
use crate::process::{descends_from, end_marked};

/// How long a connection may take to say who it is.
const HELLO_DEADLINE: Duration = Duration::from_secs(5);

/// The longest line that a connection may send.
const LINE_BYTES_MAX: u64 = 4 * 1024;

/// How long the program of a guest that is gone may take to end.
const PROGRAM_GRACE: Duration = Duration::from_secs(5);

/// How many may wait for the runner.
const GUESTS_MAX: usize = 4;

/// Listens for those who want the session of one member.
#[derive(Debug)]
pub(crate) struct Desk {
    path: PathBuf,
    /// The device and the inode of the socket, which a later runner of the member may have replaced.
    identity: (u64, u64),
    guests: mpsc::Receiver<Guest>,
    _listening: AbortOnDropHandle<()>,
}

/// One who wants the session, or holds it.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) hello: Hello,
    stream: BufReader<UnixStream>,
    /// What marks the program that it starts, and what that starts.
    mark: String,
}

impl Desk {
    /// Begins to listen. A socket that an earlier runner has left is replaced.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let listener = match bind(&path) {
            // Another member's runner has just removed the empty directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => bind(&path)?,
            bound => bound?,
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let identity = identity_of(&path)?;
        let (sender, guests) = mpsc::channel(GUESTS_MAX);
        let listening = AbortOnDropHandle::new(tokio::spawn(listen(listener, sender)));
        Ok(Self { path, identity, guests, _listening: listening })
    }

    /// Waits for the next one who wants the session. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Guest> {
        self.guests.recv().await
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if identity_of(&self.path).is_ok_and(|found| found == self.identity) {
            _ = fs::remove_file(&self.path);
            // The directory stays as long as another member has a socket there.
            _ = self.path.parent().map(fs::remove_dir);
        }
    }
}

/// Creates the socket, in a directory that is only for this user.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let found = fs::symlink_metadata(parent)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!("{} must be a directory for this user only", parent.display())));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

async fn listen(listener: UnixListener, sender: mpsc::Sender<Guest>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(HELLO_DEADLINE).await;
            continue;
        };
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Ok(Some(guest)) = timeout(HELLO_DEADLINE, admit(stream)).await {
                _ = sender.send(guest).await;
            }
        });
    }
}

/// Reads who wants the session. `None` if it is refused or says nothing.
async fn admit(mut stream: UnixStream) -> Option<Guest> {
    let peer: Option<pid_t> = stream.peer_cred().ok().and_then(|peer| peer.pid());
    if peer.is_some_and(|pid| descends_from(pid, process::id().cast_signed())) {
        let why = "An agent cannot take over a terminal. A person must do so in another terminal.";
        Guest::write(&mut stream, &Answer::Refused(why.to_owned())).await;
        return None;
    }
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(LINE_BYTES_MAX).read_line(&mut line).await.ok()?;
    let hello = serde_json::from_str(&line).ok()?;
    Some(Guest { hello, stream, mark: Uuid::new_v4().to_string() })
}

impl Guest {
    /// Says something. A guest that does not listen is gone.
    pub(crate) async fn tell(&mut self, answer: &Answer) {
        Self::write(self.stream.get_mut(), answer).await;
    }

    /// Says what to start. The program, and what it starts, are marked.
    pub(crate) async fn hand_over(&mut self, start: &Start) {
        let mut start = start.clone();
        start.environment.push((MARK_VARIABLE.to_owned(), self.mark.clone()));
        self.tell(&Answer::Ready(start)).await;
    }

    /// Waits until the guest is gone. Cancel-safe.
    pub(crate) async fn gone(&mut self) {
        let mut ignored = [0; 256];
        while self.stream.read(&mut ignored).await.is_ok_and(|bytes| bytes > 0) {}
    }

    /// Ends what a guest that is gone has left running: two programs must not write to one session. It gets time to write
    /// what was said.
    pub(crate) async fn end_program(&mut self) {
        end_marked(MARK_VARIABLE, &self.mark, PROGRAM_GRACE).await;
    }

    async fn write(stream: &mut UnixStream, answer: &Answer) {
        let mut line = serde_json::to_vec(answer).unwrap_or_default();
        line.push(b'\n');
        let written = timeout(HELLO_DEADLINE, stream.write_all(&line)).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!("one who wanted the session did not listen");
        }
    }
}
