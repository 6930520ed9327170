//! Files and directories that only their owner can access.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use tempfile::Builder;

use crate::failure::{Failure, NOT_PERMITTED};

/// How the name of a file ends that is being written.
const UNFINISHED: &str = ".new";

/// Creates a directory that only its owner can access, and the directories above it that are missing, unless it exists.
pub(crate) fn make_private_directory(path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    // Private from the start: one that is killed between two steps, or whose umask is generous, must not leave a
    // directory that the next start refuses.
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|error| Failure::local(&format!("Cannot create {}", path.display()), error))
}

/// Atomically replaces a file with one that only its owner can read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_file(path, bytes, 0o600)
}

/// Atomically replaces a file with one that everyone can read.
pub(crate) fn write_public(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_file(path, bytes, 0o644)
}

/// Removes a file, which may be missing, and what processes that were killed while they wrote it have left.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    remove_unfinished(path);
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    remove_unfinished(path);
    let mut file =
        Builder::new().prefix(&unfinished_prefix(path)).suffix(UNFINISHED).tempfile_in(directory_of(path))?;
    // Held while it is written: one that nobody holds was left.
    let _ = file.as_file().try_lock();
    file.write_all(bytes)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| Failure::local(&format!("Cannot write {}", path.display()), error))?;
    // Without this, a power failure could bring the old file back.
    File::open(directory_of(path))?.sync_all()?;
    Ok(())
}

/// Returns the directory that a file is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns how the names of unfinished copies of a file begin. They end with [`UNFINISHED`].
fn unfinished_prefix(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

fn remove_unfinished(path: &Path) {
    let prefix = unfinished_prefix(path);
    for entry in fs::read_dir(directory_of(path)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_left = || File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if name.starts_with(&prefix) && name.ends_with(UNFINISHED) && is_left() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Locks a file until the returned one is dropped. Creates it if it is missing. `None` if another process holds the
/// lock.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>, Failure> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Fails if other users can read or change what is at a path, as [`teamwire_client::refuse_shared`] does.
pub(crate) fn refuse_shared(path: &Path) -> Result<(), Failure> {
    teamwire_client::refuse_shared(path).map_err(|error| Failure::with_code(NOT_PERMITTED, error.to_string()))
}
