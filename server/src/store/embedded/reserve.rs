//! The reserve: a small file beside the store's, given up when the disk is full so that the store can still be drained.
//!
//! It also shows that there is a store. If the store's file is missing or empty but the reserve is there, the store was
//! lost, and the coordinator must not silently start with an empty one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// The size of the reserve: enough for thousands of small commits, which mostly reuse pages.
const BYTES: usize = 1024 * 1024;

/// Part of the contents of the reserve, for the person who finds the file.
const NOTE: &str = "teamwire gives up the rest of this file when the disk is full, so that members can still acknowledge their \
                    messages. If the store beside it is missing, the coordinator does not start with an empty one: restore the \
                    store from a backup, or delete this file.\n";

/// The reserve of a store.
#[derive(Clone, Debug)]
pub(super) struct Reserve {
    store: PathBuf,
    path: PathBuf,
}

impl Reserve {
    /// Returns the reserve of the store at `store`, which may not exist yet.
    pub(super) fn of(store: &Path) -> Self {
        let mut path = store.as_os_str().to_owned();
        path.push(".reserve");
        Self { store: store.to_owned(), path: path.into() }
    }

    /// Returns how the store was lost, if it was.
    pub(super) fn find_loss(&self) -> Option<String> {
        let length = fs::metadata(&self.store).map(|found| found.len()).ok();
        let state = match length {
            None => "is missing",
            Some(0) => "is empty",
            Some(_) => return None,
        };
        let (store, path) = (self.store.display(), self.path.display());
        self.path.exists().then(|| {
            format!(
                "{store} {state}, but {path} shows that there was a store: restore {store} from a backup, or delete {path} to \
                 start with an empty store"
            )
        })
    }

    /// Takes up the space. Fails if the disk is full, or if as much again is not free: otherwise the next commit would
    /// find the disk full, and the store would change its mind all the time.
    pub(super) fn take(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() >= BYTES as u64) {
            return Ok(());
        }
        // A file system that compresses would store zeros in no space.
        let mut contents = NOTE.as_bytes().to_vec();
        let mut filler = blake3::Hasher::new().update(NOTE.as_bytes()).finalize_xof();
        contents.resize(2 * BYTES, 0);
        filler.fill(&mut contents[NOTE.len()..]);
        let taken = self.open().and_then(|mut file| {
            file.write_all(&contents)?;
            file.sync_data()?;
            file.set_len(BYTES as u64)
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
