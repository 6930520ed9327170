//! Files with credentials: only their owner may access them.

use std::path::Path;

use crate::Error;

/// Fails with [`Error::Context`] if other users can read or change what is at a path, or if it belongs to another user: they
/// could have planted it.
///
/// Something that belongs to root passes whatever its mode, because container platforms mount volumes so. Nothing at the path
/// passes, too.
#[cfg(unix)]
pub fn refuse_shared(path: &Path) -> Result<(), Error> {
    use std::{fs, io, os::unix::fs::MetadataExt as _};

    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::Context(format!("{} cannot be read: {error}.", path.display()))),
    };
    let (owner, me, mode) = (metadata.uid(), nix::unistd::geteuid().as_raw(), metadata.mode() & 0o777);
    if owner != me && owner != 0 {
        return Err(Error::Context(format!(
            "{} belongs to another user (uid {owner}), so it is not trusted. Use your own file and directory.",
            path.display()
        )));
    }
    if owner == me && mode & 0o077 != 0 {
        let private = if metadata.is_dir() { "700" } else { "600" };
        return Err(Error::Context(format!(
            "Other users can access {} (mode {mode:o}), so it is not trusted. If only you have written there, make it private: \
             chmod {private} {}",
            path.display(),
            path.display()
        )));
    }
    Ok(())
}

/// Passes: permissions are not checked on this platform.
#[cfg(not(unix))]
pub fn refuse_shared(_: &Path) -> Result<(), Error> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, chown},
    };

    use super::*;
    use crate::ContextFile;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    }

    #[test]
    fn what_other_users_can_access_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("context.json");
        refuse_shared(&file).expect("nothing is there");
        fs::write(&file, "{}").expect("a file");
        for (path, private, open) in
            [(file.as_path(), 0o600, [0o644, 0o620, 0o602]), (directory.path(), 0o700, [0o777, 0o755, 0o770])]
        {
            for mode in open {
                set(path, mode);
                let refused = refuse_shared(path).expect_err("others can access it").to_string();
                assert!(refused.contains(&format!("(mode {mode:o})")) && refused.contains("chmod"), "{refused}");
            }
            set(path, private);
            refuse_shared(path).expect("only its owner can access it");
        }
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let planted = tempfile::NamedTempFile::new().expect("a file");
        // Only root can give a file away.
        if chown(planted.path(), Some(65_534), None).is_ok() {
            assert!(refuse_shared(planted.path()).is_err());
        }
    }

    #[test]
    fn a_context_file_that_other_users_can_access_is_not_used() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "{}").expect("a context file");
        ContextFile::load(file.path()).expect("only its owner can access it");
        set(file.path(), 0o644);
        assert!(matches!(ContextFile::load(file.path()), Err(Error::Context(text)) if text.contains("chmod 600")));
    }
}
