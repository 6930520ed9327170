//! A git repository, and what a test does in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A working tree of a git repository.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    path: PathBuf,
}

impl Repository {
    /// Makes one, with the branch `main`, an author and a first commit.
    pub(crate) fn make(path: &Path) -> Self {
        fs::create_dir_all(path).unwrap();
        let made = Self::at(path);
        made.git(&["init", "--quiet", "--initial-branch=main"]);
        made.introduce();
        made.write("README", "app\n");
        made.commit_all("First");
        made
    }

    /// Opens the one at a path.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Clones it, with an author.
    pub(crate) fn cloned_to(&self, path: &Path) -> Self {
        self.git(&["clone", "--quiet", ".", &path.display().to_string()]);
        let clone = Self::at(path);
        clone.introduce();
        clone
    }

    fn introduce(&self) {
        for (setting, value) in [("user.name", "Ada"), ("user.email", "ada@example.com"), ("gc.auto", "0")] {
            self.git(&["config", setting, value]);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file, with the directories above it.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let file = self.file(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Reads a file. Empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Commits everything. Returns the commit.
    pub(crate) fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.id("HEAD")
    }

    /// Returns the id of a revision.
    #[track_caller]
    pub(crate) fn id(&self, revision: &str) -> String {
        self.git(&["rev-parse", "--verify", revision])
    }

    /// Runs a git command. Returns what it prints.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let (succeeded, said) = self.try_git(arguments);
        assert!(succeeded, "git {}: {said}", arguments.join(" "));
        said
    }

    /// Runs a git command. Returns whether it succeeds, and what it prints.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("git");
        // Without the settings of who runs the tests, and without hooks: those that run are someone else's doing.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
        let output =
            command.current_dir(&self.path).args(["-c", "core.hooksPath=/dev/null"]).args(arguments).output().unwrap();
        let said = [output.stdout, if output.status.success() { Vec::new() } else { output.stderr }].concat();
        (output.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    /// Returns whether a commit has a file.
    pub(crate) fn has(&self, revision: &str, name: &str) -> bool {
        self.try_git(&["cat-file", "-e", &format!("{revision}:{name}")]).0
    }
}
