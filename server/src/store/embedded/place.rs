//! The paths of the store's files, and whether they still lead to the files that the store has open.
//!
//! A file that was deleted or replaced works until it is closed. What a coordinator wrote to it would then be gone,
//! however often it was flushed.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, RawFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::store::StoreError;

/// Returns the path of a store's other file, whose name ends with `suffix`.
pub(super) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Where an open file was found. Valid while the file is open.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
    descriptor: RawFd,
    /// Whether the log says that the file is lost.
    is_reported: AtomicBool,
}

impl Place {
    /// Returns the place of a file that was just opened at `path`.
    pub(super) fn of(path: &Path, file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            descriptor: file.as_raw_fd(),
            is_reported: AtomicBool::new(false),
        })
    }

    /// Fails with [`StoreError::Unusable`] if the path does not lead to the file, and logs what to do. Succeeds again
    /// once the file is back; a copy of it is another file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Some(loss) = self.find_loss() else {
            self.is_reported.store(false, Ordering::Relaxed);
            return Ok(());
        };
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let remedy = self.remedy();
            tracing::error!(%loss, remedy, "the store's file is lost, so the coordinator confirms no more changes");
        }
        Err(StoreError::Unusable(loss))
    }

    fn find_loss(&self) -> Option<String> {
        let path = self.path.display();
        match fs::metadata(&self.path) {
            // No other file gets this inode while the file is open.
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => None,
            Ok(_) => Some(format!("{path} was replaced by another file while the coordinator had it open")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(format!("{path} was deleted while the coordinator had it open"))
            }
            Err(error) => Some(format!("{path} can no longer be found: {error}")),
        }
    }

    fn remedy(&self) -> String {
        let (path, process, descriptor) = (self.path.display(), process::id(), self.descriptor);
        match cfg!(target_os = "linux") {
            true => format!(
                "the coordinator still has all data in /proc/{process}/fd/{descriptor}: while it runs, copy that file to {path}, \
                 then restart it; a restart without the copy loses the data"
            ),
            false => {
                format!("move the file back to {path}; or restore {path} from a backup and restart the coordinator")
            }
        }
    }
}
