//! The reserve: a small file beside the store's, given up when the disk is full so that the store can still be drained.
//!
//! It also shows that there is a store, as the write-ahead log does. If the store's file is missing or empty but one of
//! them is there, the store was lost, and the coordinator must not silently start with an empty one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::{place::beside, wal};

/// The size of the reserve: enough to write both segments of the write-ahead log to the store's file.
const BYTES: u64 = 4 * wal::SEGMENT_BYTES;

/// Part of the contents of the reserve, for the person who finds the file.
const NOTE: &str = "teamwire gives up the rest of this file when the disk is full, so that members can still acknowledge their \
                    messages. If the store beside it is missing, the coordinator does not start with an empty one: restore the \
                    store from a backup, or delete this file.\n";

/// The reserve of a store.
#[derive(Clone, Debug)]
pub(super) struct Reserve {
    store: PathBuf,
    path: PathBuf,
    log: PathBuf,
}

impl Reserve {
    /// Returns the reserve of the store at `store`, which may not exist yet.
    pub(super) fn of(store: &Path) -> Self {
        Self { store: store.to_owned(), path: beside(store, ".reserve"), log: beside(store, ".wal") }
    }

    /// Returns how the store was lost, if it was.
    pub(super) fn find_loss(&self) -> Option<String> {
        let length = fs::metadata(&self.store).map(|found| found.len()).ok();
        let state = match length {
            None => "is missing",
            Some(0) => "is empty",
            Some(_) => return None,
        };
        let store = self.store.display();
        let (reserve, log) = (self.path.display(), self.log.display());
        (self.path.exists() || self.log.exists()).then(|| {
            format!(
                "{store} {state}, but the files beside it show that there was a store: restore {store} from a backup, or delete \
                 {reserve} and {log} to start with an empty store"
            )
        })
    }

    /// Takes up the space. Fails if the disk is full, or if as much again is not free: otherwise the next commit would
    /// find the disk full, and the store would change its mind all the time.
    pub(super) fn take(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() >= BYTES) {
            return Ok(());
        }
        let taken = self.open().and_then(|mut file| {
            file.write_all(NOTE.as_bytes())?;
            allocate(&mut file)?;
            file.sync_data()?;
            file.set_len(BYTES)
        });
        if taken.is_err() {
            self.give_up();
        }
        taken
    }

    /// Gives the space up for the store to use.
    pub(super) fn give_up(&self) {
        if let Err(error) = self.open().and_then(|file| file.set_len(NOTE.len() as u64)) {
            tracing::warn!(path = %self.path.display(), %error, "the store's reserve could not be given up");
        }
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)
    }
}

/// Gives a file twice the size of the reserve.
fn allocate(file: &mut File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match nix::fcntl::posix_fallocate(&*file, 0, 2 * BYTES.cast_signed()) {
        // Its file system cannot reserve space.
        Err(nix::errno::Errno::EOPNOTSUPP | nix::errno::Errno::EINVAL) => {}
        allocated => return Ok(allocated?),
    }
    // A file system that compresses would store zeros in no space.
    let mut filler = blake3::Hasher::new().update(NOTE.as_bytes()).finalize_xof();
    let mut block = [0; 64 * 1024];
    for _ in 0..2 * BYTES / block.len() as u64 {
        filler.fill(&mut block);
        file.write_all(&block)?;
    }
    Ok(())
}
