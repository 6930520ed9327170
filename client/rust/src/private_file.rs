//! Files with credentials: only their owner may access them.
//!
//! As with the `StrictModes` of ssh, the path to a file counts, too: a user who can change a directory or a symbolic
//! link on the path can substitute another file.

use std::path::Path;

use crate::Error;

/// Fails with [`Error::Context`] if other users can read or change what is at a path, or could have planted it.
///
/// A missing file passes if no other user could plant one. Platforms other than Unix are not checked.
pub fn refuse_shared(path: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    unix::check_way(path)?;
    Ok(())
}

/// Fails, with the reason, if anyone but one user and root could have put a socket at a path. A missing one passes if
/// no one else could put one there.
#[cfg(unix)]
pub fn refuse_unowned(path: &Path, user: u32) -> Result<(), String> {
    use std::{fs, io, os::unix::fs::MetadataExt as _};

    for place in path.ancestors() {
        let metadata = match fs::symlink_metadata(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && place == path => continue,
            found => found.map_err(|error| format!("{} cannot be read: {error}", place.display()))?,
        };
        let owner = metadata.uid();
        if owner != 0 && owner != user {
            return Err(format!("{} belongs to user {owner}", place.display()));
        }
        if metadata.is_symlink() {
            return Err(format!("{} is a symbolic link", place.display()));
        }
        if metadata.is_dir() && metadata.mode() & 0o022 != 0 {
            return Err(format!("others can change {}", place.display()));
        }
    }
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::{
        env,
        ffi::OsString,
        fs::{self, Metadata},
        io,
        os::unix::fs::MetadataExt as _,
        path::{Path, PathBuf, absolute},
    };

    use nix::unistd::{Gid, Group, User, geteuid};

    use crate::Error;

    /// The bits of a mode with which other users can do anything at all.
    const ANY_ACCESS: u32 = 0o077;

    /// The bits of a mode with which other users can write.
    const WRITE: u32 = 0o022;

    /// The bit of a directory's mode that lets only the owner of an entry replace it.
    const STICKY: u32 = 0o1000;

    /// How many symbolic links may lead to a file.
    const LINKS_MAX: usize = 40;

    /// Checks every directory and symbolic link that leads to a path, and that only the owner can access what is there.
    /// The directories above HOME are trusted.
    pub(super) fn check_way(path: &Path) -> Result<(), Error> {
        let unreadable = |error: io::Error| Error::Context(format!("{} cannot be read: {error}.", path.display()));
        let homes = homes();
        let mut ahead = parts(&absolute(path).map_err(unreadable)?);
        let (mut at, mut links) = (PathBuf::new(), 0);
        while let Some(part) = ahead.pop() {
            let here = at.join(part);
            let metadata = match fs::symlink_metadata(&here) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                found => found.map_err(unreadable)?,
            };
            let step = Step { path, here: &here, metadata: &metadata };
            let is_above_home = homes.iter().any(|home| home.starts_with(&here) && *home != here);
            if !is_above_home {
                step.check_owner()?;
            }
            if metadata.is_symlink() {
                links += 1;
                if links > LINKS_MAX {
                    return Err(unreadable(nix::errno::Errno::ELOOP.into()));
                }
                ahead.append(&mut parts(&fs::read_link(&here).map_err(unreadable)?));
                continue;
            }
            if ahead.is_empty() {
                step.check_target()?;
            } else if !is_above_home {
                step.check_directory()?;
            }
            at = here;
        }
        Ok(())
    }

    /// Returns the user's home directory, as HOME names it and without symbolic links.
    fn homes() -> Vec<PathBuf> {
        let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        home.into_iter().flat_map(|home| [fs::canonicalize(&home).ok(), Some(home)]).flatten().collect()
    }

    /// Returns the parts of a path, the last one first.
    fn parts(path: &Path) -> Vec<OsString> {
        path.iter().rev().map(OsString::from).collect()
    }

    /// A directory or a symbolic link that leads to a path, or what is there.
    struct Step<'a> {
        path: &'a Path,
        here: &'a Path,
        metadata: &'a Metadata,
    }

    impl Step<'_> {
        fn check_owner(&self) -> Result<(), Error> {
            let owner = self.metadata.uid();
            if owner == 0 || self.is_mine() {
                return Ok(());
            }
            Err(self.refused(&format!(
                "{} belongs to another user (uid {owner}), so {{it}} is not trusted. Keep such files where only you can write, and \
                 name them with --context FILE or --state-dir DIR.",
                self.here.display()
            )))
        }

        /// Checks the mode of what is at the path. A directory of root passes whatever its mode, because container
        /// platforms mount volumes so; a file of root passes if no one outside its group can write to it.
        fn check_target(&self) -> Result<(), Error> {
            let forbidden = match (self.is_mine(), self.metadata.is_dir()) {
                (true, _) => ANY_ACCESS,
                (false, true) => 0,
                (false, false) => WRITE & 0o007,
            };
            if self.mode() & forbidden == 0 {
                return Ok(());
            }
            let private = if self.metadata.is_dir() { "700" } else { "600" };
            Err(self.refused(&format!(
                "Other users can access {} (mode {:o}), so {{it}} is not trusted. If only you have written there, make it private: \
                 chmod {private} {}",
                self.here.display(),
                self.mode(),
                self.here.display()
            )))
        }

        /// Checks the mode of a directory on the way. One of root passes, as in [`Self::check_target`]; so does one in
        /// which other users cannot replace what is theirs, and one that is shared only with the user's own group.
        fn check_directory(&self) -> Result<(), Error> {
            let written_by = self.mode() & WRITE;
            let is_safe = written_by == 0
                || !self.is_mine()
                || self.metadata.mode() & STICKY != 0
                || (written_by == WRITE & 0o070 && is_own_group(self.metadata.gid()));
            if is_safe {
                return Ok(());
            }
            Err(self.refused(&format!(
                "Other users can replace what is in {} (mode {:o}), so {{it}} is not trusted. If only you have written there, keep \
                 them out: chmod go-w {}",
                self.here.display(),
                self.mode(),
                self.here.display()
            )))
        }

        fn is_mine(&self) -> bool {
            self.metadata.uid() == geteuid().as_raw()
        }

        fn mode(&self) -> u32 {
            self.metadata.mode() & 0o777
        }

        /// Creates the failure. `{it}` in the text stands for the path, which may differ from the cause.
        fn refused(&self, text: &str) -> Error {
            let it = if self.here == self.path { "it".to_owned() } else { self.path.display().to_string() };
            Error::Context(text.replace("{it}", &it))
        }
    }

    /// Returns whether a group is that of the user alone: it has the user's name, and no other member.
    pub(super) fn is_own_group(gid: u32) -> bool {
        let (Ok(Some(user)), Ok(Some(group))) = (User::from_uid(geteuid()), Group::from_gid(Gid::from_raw(gid))) else {
            return false;
        };
        group.name == user.name && group.mem.iter().all(|member| *member == user.name)
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
        path::PathBuf,
    };

    use tempfile::{TempDir, tempdir};

    use super::{unix::is_own_group, *};
    use crate::ContextFile;

    /// A user that is neither root nor the one that runs the tests.
    const OTHER: u32 = 65_534;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns why a file is refused. Empty if it passes.
    fn refusal(path: &Path) -> String {
        refuse_shared(path).err().map_or_else(String::new, |error| error.to_string())
    }

    /// Creates a directory, a private directory in it, and a private file in that one.
    fn file_in_directory() -> (TempDir, PathBuf, PathBuf) {
        let root = tempdir().unwrap();
        let directory = root.path().join("teamwire");
        fs::create_dir(&directory).unwrap();
        set_mode(&directory, 0o700);
        let file = directory.join("context.json");
        fs::write(&file, "{}").unwrap();
        set_mode(&file, 0o600);
        (root, directory, file)
    }

    #[test]
    fn files_and_directories_that_other_users_can_access_are_refused() {
        let (_root, directory, file) = file_in_directory();
        refuse_shared(&directory.join("missing")).unwrap();
        refuse_shared(&file).unwrap();
        refuse_shared(&directory).unwrap();
        for mode in [0o644, 0o620, 0o602] {
            set_mode(&file, mode);
            assert!(refusal(&file).contains("chmod 600"), "{mode:o}");
        }
        for mode in [0o777, 0o755, 0o770] {
            set_mode(&directory, mode);
            assert!(refusal(&directory).contains("chmod 700"), "{mode:o}");
        }
    }

    #[test]
    fn a_context_file_that_other_users_can_access_is_not_read() {
        let (_root, _, file) = file_in_directory();
        ContextFile::load(&file).unwrap();
        for mode in [0o644, 0o620, 0o602, 0o666] {
            set_mode(&file, mode);
            let refused = ContextFile::load(&file).unwrap_err().to_string();
            assert!(refused.contains(&format!("(mode {mode:o})")), "{refused}");
            assert!(refused.contains(&format!("chmod 600 {}", file.display())), "{refused}");
        }
    }

    #[test]
    fn a_file_in_a_directory_that_other_users_can_write_to_is_refused() {
        let (root, directory, file) = file_in_directory();
        for place in [directory.as_path(), root.path()] {
            set_mode(place, 0o777);
            for path in [&file, &directory.join("missing")] {
                let refused = refusal(path);
                assert!(refused.contains(&format!("(mode 777), so {} is not trusted", path.display())), "{refused}");
                assert!(refused.contains(&format!("chmod go-w {}", place.display())), "{refused}");
            }
            set_mode(place, 0o1777);
            assert_eq!(refusal(&file), "", "no one else can replace what is there");
            set_mode(place, 0o755);
            assert_eq!(refusal(&file), "");
        }
    }

    #[test]
    fn a_link_is_as_trustworthy_as_the_path_to_its_target() {
        let (root, directory, file) = file_in_directory();
        let links = root.path().join("links");
        fs::create_dir(&links).unwrap();
        set_mode(&links, 0o700);
        let link = links.join("context.json");
        symlink("../teamwire/./context.json", &link).unwrap();
        assert_eq!(refusal(&link), "");
        set_mode(&file, 0o666);
        assert!(refusal(&link).contains(&format!("so {} is not trusted", link.display())), "{}", refusal(&link));
        set_mode(&file, 0o600);
        set_mode(&directory, 0o777);
        assert!(refusal(&link).contains("chmod go-w"), "{}", refusal(&link));
        set_mode(&directory, 0o700);

        // A link to a directory, on the way.
        symlink(&directory, links.join("there")).unwrap();
        let through = links.join("there/context.json");
        assert_eq!(refusal(&through), "");
        set_mode(&links, 0o777);
        assert!(refusal(&through).contains("chmod go-w"), "anyone could replace the link");
        symlink("round", links.join("round")).unwrap();
        set_mode(&links, 0o700);
        assert!(refusal(&links.join("round")).contains("cannot be read"));
    }

    #[test]
    fn files_directories_and_links_of_another_user_are_refused() {
        let (root, directory, file) = file_in_directory();
        // Only root can give a file away.
        if chown(&file, Some(OTHER), None).is_err() {
            return;
        }
        let refused = refusal(&file);
        assert!(refused.contains(&format!("belongs to another user (uid {OTHER}), so it is not trusted")), "{refused}");
        chown(&file, Some(0), None).unwrap();
        chown(&directory, Some(OTHER), None).unwrap();
        assert!(refusal(&file).contains(&format!("so {} is not trusted", file.display())), "{}", refusal(&file));
        chown(&directory, Some(0), None).unwrap();
        let link = root.path().join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(refusal(&link), "");
        std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
        assert!(refusal(&link).contains("so it is not trusted"), "{}", refusal(&link));
    }

    #[test]
    fn a_socket_counts_as_a_users_if_no_one_else_could_have_put_it_there() {
        let (me, near) = (nix::unistd::geteuid().as_raw(), Path::new("/etc/no-such-socket"));
        refuse_unowned(near, 0).unwrap();
        refuse_unowned(near, OTHER).unwrap();
        assert!(refuse_unowned(Path::new("/etc/no-such-directory/socket"), 0).unwrap_err().contains("cannot be read"));
        let (root, _, file) = file_in_directory();
        let refused = refuse_unowned(&file, me).unwrap_err();
        assert_eq!(refused, format!("others can change {}", root.path().parent().unwrap().display()));
        if chown(&file, Some(OTHER), None).is_ok() {
            assert_eq!(refuse_unowned(&file, me).unwrap_err(), format!("{} belongs to user {OTHER}", file.display()));
        }
        let link = root.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(refuse_unowned(&link, me).unwrap_err().contains("is a symbolic link"));
    }

    #[test]
    fn a_directory_may_be_shared_with_the_users_own_group_only() {
        let (_root, directory, file) = file_in_directory();
        set_mode(&directory, 0o770);
        let gid = fs::metadata(&directory).unwrap().gid();
        assert_eq!(refusal(&file).is_empty(), is_own_group(gid));
        // Only root can choose a group that it is not in.
        if chown(&directory, None, Some(OTHER)).is_ok() {
            assert!(refusal(&file).contains("chmod go-w"), "{}", refusal(&file));
        }
    }
}
