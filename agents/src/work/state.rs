//! Turns the working state, untracked files included, into a tree, without touching the index of the working tree.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::{
    git::{Git, complaint},
    names::shown,
    place::Place,
    trees::{MODULE, entries, lines, paths},
};

/// How old the lock of a private index is if the process that had it must be gone: git runs for two minutes at most.
const STALE_LOCK: Duration = Duration::from_secs(600);

/// Settings that would leave files out, or end git for a warning.
const SETTINGS: [&str; 8] = [
    "core.safecrlf=false",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "core.symlinks=true",
    // Names with a backslash are names here.
    "core.protectNTFS=false",
    "index.sparse=false",
    "advice.addEmbeddedRepo=false",
    "i18n.commitEncoding=UTF-8",
];

/// The working state as a tree.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tree: String,
    /// What is not in the tree, in words.
    pub(super) left_out: Vec<String>,
}

/// Takes the state of a working tree.
#[derive(Debug)]
pub(super) struct Camera<'a> {
    place: &'a Place,
    index: PathBuf,
    settings: Vec<String>,
    /// Has the index if another process uses the given one.
    directory: Option<TempDir>,
}

/// An entry of an index.
struct Entry {
    path: OsString,
    mode: String,
    id: String,
    is_skipped: bool,
}

/// The working state at one moment, of which several things can be made.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(super) place: &'a Place,
    pub(super) camera: Camera<'a>,
    pub(super) head: Option<String>,
    pub(super) state: State,
}

impl<'a> Picture<'a> {
    /// Takes the working state. `index`: a private index, which no other process uses meanwhile and which makes the next picture
    /// cheap. `large`: larger new files are left out.
    pub(crate) async fn take(place: &'a Place, index: &Path, large: u64) -> Result<Self, String> {
        let head = place.head().await?;
        let mut camera = Camera::new(place, index).await?;
        let state = camera.take(head.as_deref(), large).await?;
        Ok(Self { place, camera, head, state })
    }
}

impl<'a> Camera<'a> {
    /// Prepares it. `index`: a private index. It may remain from an earlier time, which saves git the reading of files
    /// that are as they were.
    pub(super) async fn new(place: &'a Place, index: &Path) -> Result<Self, String> {
        let mut settings: Vec<String> = SETTINGS.map(str::to_owned).into();
        // A filter that fails does not keep a file from being taken as it is.
        let required = ["config", "--name-only", "-z", "--get-regexp", r"^filter\..*\.required$"];
        let required = place.git().output(&required, b"").await?.stdout;
        settings.extend(entries(&required).map(|name| format!("{}=false", String::from_utf8_lossy(name))));
        Ok(Self { place, index: index.to_owned(), settings, directory: None })
    }

    /// Returns the private index.
    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    /// Prepares a command that uses the private index.
    pub(super) fn git(&self) -> Git {
        let git = self.place.git().with_index(&self.index);
        self.settings.iter().fold(git, |git, setting| git.with_setting(setting))
    }

    pub(super) async fn feed(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        self.place.named(arguments, self.git().bytes(arguments, input).await)
    }

    /// Returns the tree of the private index.
    pub(super) async fn write_tree(&self) -> Result<String, String> {
        let tree = self.feed(&["write-tree"], b"").await?;
        Ok(String::from_utf8_lossy(&tree).trim().to_owned())
    }

    /// Takes the state. `head`: the commit that is checked out. `large`: how many bytes a file that HEAD does not have
    /// may have.
    pub(super) async fn take(&mut self, head: Option<&str>, large: u64) -> Result<State, String> {
        match self.take_once(head, large).await {
            Err(why) if self.directory.is_none() && why.contains(".lock': File exists") => {
                let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
                self.index = directory.path().join("index");
                self.directory = Some(directory);
                self.take_once(head, large).await
            }
            taken => taken,
        }
    }

    async fn take_once(&self, head: Option<&str>, large: u64) -> Result<State, String> {
        self.prepare(head).await?;
        let real = self.entries_of(None).await?;
        let modules: Vec<&Entry> = real.iter().filter(|entry| entry.mode == MODULE).collect();
        let root = &self.place.root;
        let is_absent = |entry: &&Entry| entry.is_skipped && fs::symlink_metadata(root.join(&entry.path)).is_err();
        let absent: Vec<&Entry> = real.iter().filter(is_absent).collect();

        let new = self.untracked().await?;
        let added = self.added(head, self.git()).await?;
        let is_large = |path: &&OsString| {
            fs::symlink_metadata(root.join(path)).is_ok_and(|metadata| metadata.is_file() && metadata.len() > large)
        };
        let too_large: BTreeSet<&OsString> = new.iter().chain(&added).filter(is_large).collect();
        let repositories = new.iter().filter(|path| path.as_bytes().ends_with(b"/"));
        let excluded = repositories.chain(too_large.iter().copied()).chain(modules.iter().map(|entry| &entry.path));
        let all = [b":(top)\0".to_vec(), lines(":(exclude,top,literal)", excluded, 0)].concat();
        self.add(&["add", "--all"], &all).await?;
        let forced = self.forced(head).await?;
        if !forced.is_empty() {
            self.add(&["add", "--force"], &lines(":(top,literal)", &forced, 0)).await?;
        }

        // What the working tree leaves out is as in its index, and a submodule is at the commit that is recorded.
        let private = self.entries_of(Some(&self.index)).await?;
        let mut corrections = Vec::new();
        for entry in modules.iter().chain(&absent) {
            corrections.extend(lines(&format!("{} {} 0\t", entry.mode, entry.id), [&entry.path], 0));
        }
        let ignored = self.place.named(&["ls-files"], self.git().bytes(&IGNORED_ENTRIES, b"").await)?;
        let ignored: BTreeSet<OsString> = paths(&ignored).into_iter().collect();
        let is_wrong = |entry: &&Entry| {
            (entry.mode == MODULE && !modules.iter().any(|module| module.path == entry.path))
                || too_large.contains(&entry.path)
                || (ignored.contains(&entry.path) && added.contains(&entry.path) && !forced.contains(&entry.path))
        };
        for entry in private.iter().filter(is_wrong) {
            corrections.extend(lines(&format!("0 {} 0\t", "0".repeat(entry.id.len())), [&entry.path], 0));
        }
        if !corrections.is_empty() {
            self.feed(&["update-index", "-z", "--index-info"], &corrections).await?;
        }
        let absent: BTreeSet<&OsStr> = absent.iter().map(|entry| entry.path.as_os_str()).collect();
        let left_out = self.left_out(&absent, &modules, &too_large, &private).await?;
        Ok(State { tree: self.write_tree().await?, left_out })
    }

    /// Makes sure that there is a private index that git can read.
    async fn prepare(&self, head: Option<&str>) -> Result<(), String> {
        let lock = self.index.with_extension(match self.index.extension() {
            Some(extension) => format!("{}.lock", extension.to_string_lossy()),
            None => "lock".to_owned(),
        });
        let age = fs::metadata(&lock).and_then(|metadata| metadata.modified()).ok();
        if age.and_then(|time| SystemTime::now().duration_since(time).ok()).is_some_and(|age| age > STALE_LOCK) {
            let _ = fs::remove_file(&lock);
        }
        if self.index.exists() && self.git().run(&["ls-files", "--cached", "--", ":(top,literal).git"]).await.is_ok() {
            return Ok(());
        }
        let _ = fs::remove_file(&self.index);
        self.feed(&["read-tree", head.unwrap_or("--empty")], b"").await.map(drop)
    }

    /// Returns the entries of an index. `None` means the working tree's own.
    async fn entries_of(&self, index: Option<&Path>) -> Result<Vec<Entry>, String> {
        let git = match index {
            Some(_) => self.git(),
            None => self.place.git().with_setting("core.sparseCheckout=false"),
        };
        let list = ["ls-files", "--stage", "-t", "-z"];
        let listed = self.place.named(&list, git.bytes(&list, b"").await)?;
        let parse = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let mut head = str::from_utf8(&entry[..tab]).ok()?.split(' ').map(str::to_owned);
            let (tag, mode, id) = (head.next()?, head.next()?, head.next()?);
            let path = OsStr::from_bytes(&entry[tab + 1..]).to_owned();
            // Small letters are for entries that are assumed not to change.
            (head.next()? == "0").then(|| Entry { path, mode, id, is_skipped: tag.eq_ignore_ascii_case("S") })
        };
        Ok(entries(&listed).filter_map(parse).collect())
    }

    /// Returns the paths that the private index does not have and git does not ignore. A repository ends in a slash.
    async fn untracked(&self) -> Result<Vec<OsString>, String> {
        Ok(paths(&self.feed(&["ls-files", "--others", "--exclude-standard", "-z"], b"").await?))
    }

    /// Returns the paths that an index has and HEAD does not.
    async fn added(&self, head: Option<&str>, git: Git) -> Result<BTreeSet<OsString>, String> {
        let diff = ["diff-index", "--cached", "--no-renames", "--name-only", "--diff-filter=A", "-z"];
        let list = match head {
            Some(head) => [&diff[..], &[head, "--"]].concat(),
            None => vec!["ls-files", "-z"],
        };
        Ok(paths(&self.place.named(&list, git.bytes(&list, b"").await)?).into_iter().collect())
    }

    /// Returns the files that git ignores, that HEAD does not have, and that were staged nevertheless.
    async fn forced(&self, head: Option<&str>) -> Result<BTreeSet<OsString>, String> {
        let ignored = paths(&self.place.feed(&IGNORED_ENTRIES, b"").await?);
        if ignored.is_empty() {
            return Ok(BTreeSet::new());
        }
        let added = self.added(head, self.place.git()).await?;
        let is_there = |path: &OsString| {
            let metadata = fs::symlink_metadata(self.place.root.join(path));
            added.contains(path) && metadata.is_ok_and(|metadata| !metadata.is_dir())
        };
        Ok(ignored.into_iter().filter(is_there).collect())
    }

    /// Takes files into the private index. Leaves out what cannot be read.
    async fn add(&self, command: &[&str], specification: &[u8]) -> Result<(), String> {
        let arguments = [command, &["--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"]].concat();
        let output = self.git().output(&arguments, specification).await?;
        match output.status.code() {
            Some(0 | 1) => Ok(()),
            _ => self.place.named(&arguments, Err(complaint(&output))),
        }
    }

    /// Returns what was not taken, in words: what can least be replaced comes first.
    async fn left_out(
        &self,
        absent: &BTreeSet<&OsStr>,
        modules: &[&Entry],
        too_large: &BTreeSet<&OsString>,
        private: &[Entry],
    ) -> Result<Vec<String>, String> {
        let root = &self.place.root;
        let mut found: BTreeSet<(u8, String)> =
            too_large.iter().map(|path| (0, format!("the file {}, which is too large", shown(path)))).collect();
        let differing = ["diff-files", "--name-only", "-z", "--ignore-submodules=none"];
        for path in paths(&self.feed(&differing, b"").await?) {
            if modules.iter().any(|module| module.path == path) {
                // Nobody has filled it, or it is gone: there is nothing to lose.
                if root.join(&path).join(".git").exists() {
                    found.insert((1, format!("changes in the submodule {}", shown(&path))));
                }
            } else if !absent.contains(path.as_os_str()) && !too_large.contains(&path) {
                found.insert((1, format!("{}, which cannot be read", shown(&path))));
            }
        }
        let others = ["ls-files", "--others", "--exclude-standard", "--directory", "-z"];
        let others = self.place.named(&others, self.git().output(&others, b"").await)?;
        for path in paths(&others.stdout) {
            let is_known = too_large.iter().any(|large| large.as_bytes().starts_with(path.as_bytes()))
                || modules.iter().any(|module| path.as_bytes().strip_suffix(b"/") == Some(module.path.as_bytes()));
            if is_known {
                continue;
            }
            let is_empty = fs::read_dir(root.join(&path)).map(|mut names| names.next().is_none());
            found.insert(match is_empty {
                Ok(true) => (3, format!("the empty directory {}", shown(&path))),
                Ok(false) => (1, format!("the repository {}", shown(&path))),
                Err(_) => (1, format!("{}, which cannot be read", shown(&path))),
            });
        }
        // Such as: warning: could not open directory 'closed/': Permission denied
        let warnings = String::from_utf8_lossy(&others.stderr).into_owned();
        for line in warnings.lines().filter(|line| line.contains("could not open directory")) {
            found.insert((1, line.trim_start_matches("warning: ").to_owned()));
        }
        let directories: BTreeSet<&Path> = private
            .iter()
            .filter(|entry| entry.mode != MODULE)
            .filter_map(|entry| Path::new(&entry.path).parent())
            .collect();
        let is_repository =
            |path: &&&Path| !path.as_os_str().is_empty() && fs::symlink_metadata(root.join(path).join(".git")).is_ok();
        for path in directories.iter().filter(is_repository) {
            found.insert((1, format!("the repository in {}", shown(path))));
        }
        let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
        for path in paths(&self.feed(&ignored, b"").await?) {
            found.insert((4, format!("{}, which git ignores", shown(&path))));
        }
        Ok(found.into_iter().map(|(_, words)| words).collect())
    }
}

/// Lists the entries of an index that git would ignore.
const IGNORED_ENTRIES: [&str; 5] = ["ls-files", "--cached", "--ignored", "--exclude-standard", "-z"];
