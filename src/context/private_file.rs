//! Files and directories that only their owner can access.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use crate::failure::{Failure, NOT_PERMITTED};

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

fn write_file(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| Failure::local(&format!("Cannot write {}", path.display()), error))?;
    // Without this, a power failure could bring the old file back.
    File::open(directory)?.sync_all()?;
    Ok(())
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
