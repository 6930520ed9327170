//! With a real git, in temporary directories.

mod bundle;
mod merge;
mod place;
mod salvage;
mod survey;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

use super::{
    salvage::{KEPT_MAX, KEPT_MIN, list, purge, salvage},
    *,
};

/// A repository `app` with a branch `main`, and a working tree `member` of it on the branch `teamwire/backend`.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { directory: tempfile::tempdir().expect("a directory") };
        fs::create_dir(repository.path("app")).expect("created");
        repository.script(
            "app",
            "git init --quiet --initial-branch main && git config user.email a@example.com && git config user.name a
             echo one >file && printf '#!/bin/sh\n' >tool && chmod +x tool && mkdir docs && echo page >docs/page
             echo '*.out' >.gitignore && git add . && git commit --quiet --message first
             git worktree add --quiet -b teamwire/backend ../member",
        );
        repository
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn index(&self) -> PathBuf {
        self.path("private-index")
    }

    async fn place(&self, name: &str) -> Place {
        Place::find(&self.path(name)).await.expect("found").expect("a working tree")
    }

    fn run(&self, within: &str, script: &str) -> Output {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(self.path(within));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("T", self.directory.path());
        command.output().expect("sh")
    }

    /// Runs a script that must succeed, and returns what it prints. `$T` is the directory that has everything.
    fn script(&self, within: &str, script: &str) -> String {
        let output = self.run(within, script);
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Returns all that belongs to the user: what nothing here may change.
    fn users(&self, within: &str) -> Vec<String> {
        let scripts = [
            "git --no-optional-locks status --porcelain --branch --ignored --untracked-files=all || true",
            "git for-each-ref refs/heads refs/tags refs/remotes refs/stash",
            "git stash list",
            "cksum <$(git rev-parse --git-path index)",
            "cat $(git rev-parse --git-common-dir)/config $(git rev-parse --git-dir)/HEAD",
            "cat $(git rev-parse --git-dir)/logs/HEAD",
            "git worktree list",
        ];
        scripts.iter().map(|script| String::from_utf8_lossy(&self.run(within, script).stdout).into_owned()).collect()
    }

    /// Returns a program `git` that is too old for a merge.
    fn old_git(&self) -> PathBuf {
        let program = self.path("git-2.30.2");
        let script = "#!/bin/sh\nfor argument; do case $argument in\n\
                      version|--version) echo 'git version 2.30.2'; exit;;\n\
                      --write-tree|--path-format=*) echo \"usage: git merge-tree <base-tree> <branch1> <branch2>\" >&2; exit 129;;\n\
                      esac; done\nexec git \"$@\"\n";
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        program
    }
}

/// Returns every file of a working tree: whether it can be executed, and its bytes or the target of the link.
fn files(root: &Path) -> BTreeMap<Vec<u8>, (String, Vec<u8>)> {
    let (mut found, mut ahead) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(below) = ahead.pop() {
        for entry in fs::read_dir(root.join(&below)).expect("readable") {
            let path = below.join(entry.expect("an entry").file_name());
            let metadata = fs::symlink_metadata(root.join(&path)).expect("metadata");
            if path == Path::new(".git") {
                continue;
            }
            if metadata.is_dir() {
                ahead.push(path);
            } else {
                let kind = match metadata.is_symlink() {
                    true => "link",
                    false if metadata.permissions().mode() & 0o100 != 0 => "program",
                    false => "file",
                };
                let bytes = match metadata.is_symlink() {
                    true => fs::read_link(root.join(&path)).expect("a link").as_os_str().as_bytes().to_vec(),
                    false => fs::read(root.join(&path)).unwrap_or_default(),
                };
                found.insert(path.as_os_str().as_bytes().to_vec(), (kind.to_owned(), bytes));
            }
        }
    }
    found
}
