//! Files and directories that only their owner can read.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path};

use crate::failure::Failure;

/// Makes a directory that only its owner can look into, if it is not there.
pub fn make_private_directory(path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(|error| Failure::local(&format!("{} cannot be made", path.display()), error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(())
}

/// Replaces a file in one step by one that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| Failure::local(&format!("{} cannot be written", path.display()), error))?;
    Ok(())
}
