//! Checks before each start that a program can work in its directory.

use std::{fs, path::Path};

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
        _ => Ok(()),
    }
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
        fs::remove_dir(root.join("registered")).expect("removed");
        assert!(check_directory(&inner).is_err_and(|why| why.contains("does not know it any more")));
        fs::remove_dir_all(root.join("a")).expect("removed");
        assert!(check_directory(&inner).is_err_and(|why| why.ends_with("/a/b is gone")));
    }
}
