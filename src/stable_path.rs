//! A path to this program that survives an upgrade.
//!
//! The system knows this program by the path behind all symbolic links, such as a directory of one version that the
//! next upgrade removes. Settings and servers that outlive a command need the link, or the place on the PATH, by which
//! the user starts it.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    path::{self, Path, PathBuf},
};

/// Returns the path to store.
pub(crate) fn stable_path() -> io::Result<PathBuf> {
    let this = env::current_exe()?;
    let started_as = env::args_os().next().unwrap_or_default();
    Ok(find(&this, &started_as, env::var_os("PATH").as_deref()).unwrap_or(this))
}

/// Finds the program `this` by the name that it was started with.
fn find(this: &Path, started_as: &OsStr, search: Option<&OsStr>) -> Option<PathBuf> {
    let this = fs::canonicalize(this).ok()?;
    let is_this = |candidate: &PathBuf| fs::canonicalize(candidate).is_ok_and(|found| found == this);
    let started_as = Path::new(started_as);
    if started_as.components().count() > 1 {
        return path::absolute(started_as).ok().filter(is_this);
    }
    let directories = env::split_paths(search?).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(started_as)).find(is_this)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_link_that_an_upgrade_changes_is_stored_and_not_what_it_leads_to() {
        let root = tempfile::tempdir().expect("a directory");
        let (version, bin) = (root.path().join("cellar/1.0"), root.path().join("bin"));
        fs::create_dir_all(&version).expect("created");
        fs::create_dir_all(&bin).expect("created");
        fs::write(version.join("teamwire"), "").expect("written");
        fs::write(root.path().join("teamwire"), "another one").expect("written");
        symlink(version.join("teamwire"), bin.join("teamwire")).expect("linked");
        let this = version.join("teamwire");
        let found = |started_as: &Path, search: &[&Path]| {
            find(&this, started_as.as_os_str(), Some(&env::join_paths(search).expect("a path")))
        };
        let link = bin.join("teamwire");
        assert_eq!(found(Path::new("teamwire"), &[root.path(), &bin]), Some(link.clone()));
        assert_eq!(found(&link, &[]), Some(link));
        assert_eq!(found(&this, &[]), Some(this.clone()));
        assert_eq!(found(&root.path().join("teamwire"), &[]), None, "another program");
        assert_eq!(found(Path::new("teamwire"), &[Path::new("bin")]), None);
    }
}
