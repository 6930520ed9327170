//! Checks before each start that a program can work in its directory.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Checks that a directory is there, and that git still knows it if it is in a worktree. Returns what is wrong.
///
/// A program that starts in a removed directory begins normally, and then fails in ways that are hard to read.
pub(crate) fn check_directory(directory: &Path) -> Result<(), String> {
    if !directory.is_dir() {
        return Err(format!("its working directory {} is gone", directory.display()));
    }
    let Some(above) = directory.ancestors().find(|above| above.join(".git").exists()) else { return Ok(()) };
    // A worktree has a file there, which names git's directory for it.
    let link = fs::read_to_string(above.join(".git")).unwrap_or_default();
    match link.trim_end().strip_prefix("gitdir: ") {
        Some(registered) if !above.join(registered).is_dir() => Err(format!(
            "{} is a git worktree whose repository does not know it any more: there is no {registered}",
            above.display()
        )),
        Some(registered) => match original_of(above, &above.join(registered)) {
            Some(original) => Err(format!(
                "{} is a copy of the git worktree {}: git would mix up the two. Make one of your own with `git worktree add`",
                above.display(),
                original.display()
            )),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Returns the worktree to which git's directory belongs, if that is not this one. One that was moved, or is mounted
/// elsewhere, is the same one: there is nothing any more where git knows it.
fn original_of(worktree: &Path, registered: &Path) -> Option<PathBuf> {
    let link = fs::read_to_string(registered.join("gitdir")).ok()?;
    let known = fs::canonicalize(registered.join(link.trim_end())).ok()?;
    let original = known.parent()?;
    // Something else may be at its old place by now.
    let its_link = fs::read_to_string(&known).ok()?;
    let its_registered = fs::canonicalize(original.join(its_link.trim_end().strip_prefix("gitdir: ")?)).ok()?;
    let is_registered = its_registered == fs::canonicalize(registered).ok()?;
    // A mount shows the same directory at another place.
    let id = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    (is_registered && id(original) != id(worktree)).then(|| original.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_must_be_there_and_git_must_know_its_worktree() {
        let directory = tempfile::tempdir().expect("a directory");
        let (root, inner) = (directory.path(), directory.path().join("a/b"));
        fs::create_dir_all(&inner).expect("created");
        assert_eq!(check_directory(&inner), Ok(()));
        fs::create_dir(root.join("registered")).expect("created");
        fs::write(root.join("a/.git"), "gitdir: ../registered\n").expect("written");
        assert_eq!(check_directory(&inner), Ok(()));
        fs::create_dir(root.join("other")).expect("created");
        fs::write(root.join("other/.git"), "gitdir: ../registered\n").expect("written");
        fs::write(root.join("registered/gitdir"), "../other/.git\n").expect("written");
        assert!(check_directory(&inner).is_err_and(|why| why.contains("is a copy of the git worktree")));
        assert_eq!(check_directory(&root.join("other")), Ok(()));
        fs::remove_dir_all(root.join("other")).expect("removed");
        assert_eq!(check_directory(&inner), Ok(()), "it was moved");
        fs::remove_dir_all(root.join("registered")).expect("removed");
        assert!(check_directory(&inner).is_err_and(|why| why.contains("does not know it any more")));
        fs::remove_dir_all(root.join("a")).expect("removed");
        assert!(check_directory(&inner).is_err_and(|why| why.ends_with("/a/b is gone")));
    }
}
