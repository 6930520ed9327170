//! Files and directories that only their owner can access.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use nix::unistd::geteuid;

use crate::failure::{Failure, NOT_PERMITTED};

/// Creates a directory that only its owner can access, unless it exists.
pub fn make_private_directory(path: &Path) -> Result<(), Failure> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(|error| Failure::local(&format!("Cannot create {}", path.display()), error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    Ok(())
}

/// Atomically replaces a file with one that only its owner can read.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| Failure::local(&format!("Cannot write {}", path.display()), error))?;
    Ok(())
}

/// Fails if other users can read or change what is at a path, or if it belongs to another user: they could have planted it.
///
/// Something that belongs to root passes whatever its mode, because container platforms mount volumes so. Nothing at the path
/// passes, too.
pub fn refuse_shared(path: &Path) -> Result<(), Failure> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::local(&format!("Cannot read {}", path.display()), error)),
    };
    let (owner, me, mode) = (metadata.uid(), geteuid().as_raw(), metadata.mode() & 0o777);
    let refused = |text: String| Err(Failure::with_code(NOT_PERMITTED, text));
    if owner != me && owner != 0 {
        return refused(format!(
            "{} belongs to another user (uid {owner}), so it is not trusted. Use your own state directory: --state-dir DIR.",
            path.display()
        ));
    }
    if owner == me && mode & 0o077 != 0 {
        let private = if metadata.is_dir() { "700" } else { "600" };
        return refused(format!(
            "Other users can access {} (mode {mode:o}), so it is not trusted. If only you have written there, make it private: \
             chmod {private} {}",
            path.display(),
            path.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_other_users_can_access_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let file = directory.path().join("operator.credential");
        refuse_shared(&file).unwrap();
        write_private(&file, b"secret").unwrap();
        refuse_shared(&file).unwrap();
        refuse_shared(directory.path()).unwrap();
        for mode in [0o644, 0o620, 0o602] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(refuse_shared(&file).unwrap_err().code(), NOT_PERMITTED, "{mode:o}");
        }
        for mode in [0o777, 0o755, 0o770] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(refuse_shared(directory.path()).unwrap_err().code(), NOT_PERMITTED, "{mode:o}");
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let planted = directory.path().join("operator.credential");
        write_private(&planted, b"two:planted").unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&planted, Some(65_534), None).is_ok() {
            assert_eq!(refuse_shared(&planted).unwrap_err().code(), NOT_PERMITTED);
        }
    }
}
