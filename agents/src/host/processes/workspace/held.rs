//! Finds out whether a worktree holds anything that its repository does not hold elsewhere.
//!
//! Whatever cannot be shown to be held elsewhere counts as held here only.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{git::Git, worktree::Registration};

/// What git leaves in a worktree's directory while an operation is half done.
const HALF_DONE: [&str; 9] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "AUTO_MERGE",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// The most files with a filter of the user that are compared one by one.
const FILTERED_MAX: usize = 100;

/// A worktree to look into.
#[derive(Debug)]
pub(super) struct Search<'a> {
    /// The worktree.
    pub(super) root: &'a Path,
    pub(super) registration: &'a Registration,
    /// The branch that the host made for it, as a ref.
    pub(super) branch: &'a str,
    /// Whether files that git ignores may be lost.
    pub(super) discard_ignored: bool,
}

impl Search<'_> {
    /// Returns what only the worktree holds, in a few words. `None`: nothing. Fails with what git says if that cannot be found
    /// out.
    pub(super) async fn find(&self) -> Result<Option<String>, String> {
        if let Some(found) = self.half_done()? {
            return Ok(Some(found));
        }
        if let Some(found) = self.commits().await? {
            return Ok(Some(found));
        }
        let entries = self.git().run(&["ls-files", "--stage", "-t", "-z"]).await?;
        let entries: Vec<Entry<'_>> = entries.split('\0').filter_map(Entry::parse).collect();
        if let Some(module) = entries.iter().find(|entry| entry.is_module && !is_empty(&self.root.join(entry.path))) {
            return Ok(Some(format!("the submodule {}", module.path)));
        }
        if self.git().run(&["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"]).await.is_err() {
            return Ok(Some("staged changes".to_owned()));
        }
        if let Some(found) = self.files(&entries).await? {
            return Ok(Some(found));
        }
        self.filtered(&entries).await
    }

    fn git(&self) -> Git {
        Git::truthful(self.root)
    }

    /// Finds operations that are under way, and locks.
    fn half_done(&self) -> Result<Option<String>, String> {
        let directory = &self.registration.git_directory;
        if directory.join("locked").exists() {
            return Ok(Some("a lock (`git worktree unlock` removes it)".to_owned()));
        }
        if let Some(name) = HALF_DONE.into_iter().find(|name| directory.join(name).exists()) {
            return Ok(Some(format!("an operation that is half done ({name})")));
        }
        let names = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let names = names.map_err(|error| format!("{}: {error}", directory.display()))?;
        let lock = names.iter().map(|entry| entry.file_name()).find(|name| name.to_string_lossy().ends_with(".lock"));
        Ok(lock.map(|name| format!("an operation under way ({})", name.display())))
    }

    /// Finds commits that no other branch and no tag reaches: of the worktree, of its branch, and of the logs of both.
    async fn commits(&self) -> Result<Option<String>, String> {
        let mut tips: BTreeSet<String> = BTreeSet::new();
        let head = self.git().run(&["rev-parse", "--verify", "HEAD^{commit}"]).await;
        tips.insert(head.map_err(|why| format!("HEAD names no commit: {why}"))?.trim().to_owned());
        if let Ok(tip) = self.git().run(&["rev-parse", "--verify", "--quiet", self.branch]).await {
            tips.insert(tip.trim().to_owned());
        }
        for name in ["HEAD", self.branch] {
            tips.extend(self.logged(name)?);
        }
        let own = ["for-each-ref", "--format=%(objectname)", "refs/bisect", "refs/worktree", "refs/rewritten"];
        tips.extend(self.git().run(&own).await?.lines().map(str::to_owned));
        if let Ok(before) = self.git().run(&["rev-parse", "--verify", "--quiet", "ORIG_HEAD^{commit}"]).await {
            tips.insert(before.trim().to_owned());
        }
        // Applies to `--branches`, which names branches without this prefix.
        let exclude = format!("--exclude={}", self.branch.trim_start_matches("refs/heads/"));
        let input: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let elsewhere = ["--not", &exclude, "--branches", "--remotes", "--tags"];
        let list = [&["rev-list", "--ignore-missing", "--max-count=1", "--stdin"], &elsewhere[..]].concat();
        // The revisions in the input come after `--not`, which does not apply to them.
        let lost = self.git().bytes(&list, &input).await?;
        Ok((!lost.is_empty()).then(|| format!("the commit {}", String::from_utf8_lossy(&lost).trim())))
    }

    /// Returns the commits in the log of a ref.
    fn logged(&self, name: &str) -> Result<Vec<String>, String> {
        let directory = match name {
            "HEAD" => &self.registration.git_directory,
            _ => &self.registration.common_directory,
        };
        let path = directory.join("logs").join(name);
        let log = match fs::read(&path) {
            Ok(log) => log,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name != "HEAD" => return Ok(Vec::new()),
            // The host has created it, so without it commits may be unknown.
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let log = String::from_utf8_lossy(&log).into_owned();
        let commits = log.lines().flat_map(|line| line.split(' ').take(2));
        Ok(commits.filter(|commit| commit.bytes().any(|byte| byte != b'0')).map(str::to_owned).collect())
    }

    /// Finds files that differ from the last commit. Compares their content: an index that was made a moment ago has no flags
    /// and no times by which git could skip a file.
    async fn files(&self, entries: &[Entry<'_>]) -> Result<Option<String>, String> {
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        let index = directory.path().join("index");
        self.git().with_index(&index).run(&["-c", "core.sparseCheckout=false", "read-tree", "HEAD"]).await?;
        let status = [
            "-c",
            "core.sparseCheckout=false",
            "status",
            "--porcelain=v2",
            "-z",
            "--untracked-files=all",
            "--ignored=matching",
            "--ignore-submodules=none",
            "--no-renames",
        ];
        let status = self.git().with_index(&index).run(&status).await?;
        let left_out: BTreeSet<&str> =
            entries.iter().filter(|entry| entry.is_left_out).map(|entry| entry.path).collect();
        for line in status.split('\0') {
            let path = |fields: usize| line.splitn(fields, ' ').last().unwrap_or_default();
            match line.as_bytes() {
                [b'1', ..] if line.starts_with("1 .D ") && left_out.contains(path(9)) => {}
                [b'1', ..] => return Ok(Some(format!("changes to {}", path(9)))),
                [b'!', ..] if self.discard_ignored => {
                    if let Some(repository) = repository_in(&self.root.join(path(2))) {
                        return Ok(Some(format!("the repository {}", repository.display())));
                    }
                }
                [b'!', ..] => return Ok(Some(format!("the ignored file {}", path(2)))),
                [b'?', ..] => return Ok(Some(format!("the new file {}", path(2)))),
                [] => {}
                _ => return Ok(Some("changes".to_owned())),
            }
        }
        Ok(None)
    }

    /// Finds files that differ from the last commit although a filter of the user makes them look alike.
    async fn filtered(&self, entries: &[Entry<'_>]) -> Result<Option<String>, String> {
        let paths: String = entries.iter().map(|entry| format!("{}\0", entry.path)).collect();
        let found = self.git().bytes(&["check-attr", "--stdin", "-z", "filter"], &paths).await?;
        let found = String::from_utf8_lossy(&found).into_owned();
        let fields: Vec<&str> = found.split('\0').collect();
        // Git LFS names a file's content by its hash, so files that look alike are alike.
        let is_ours = |value: &str| !matches!(value, "unspecified" | "unset" | "lfs");
        let filtered: Vec<&str> =
            fields.chunks_exact(3).filter(|chunk| is_ours(chunk[2])).map(|chunk| chunk[0]).collect();
        if filtered.len() > FILTERED_MAX {
            return Ok(Some(format!("{} files with a filter", filtered.len())));
        }
        for path in filtered {
            let Ok(content) = fs::read(self.root.join(path)) else { continue };
            let committed = self.git().bytes(&["cat-file", "--filters", &format!("HEAD:{path}")], "").await?;
            if content != committed {
                return Ok(Some(format!("changes to {path}, which a filter hides")));
            }
        }
        Ok(None)
    }
}

/// An entry of the index.
struct Entry<'a> {
    path: &'a str,
    /// Whether it is a submodule.
    is_module: bool,
    /// Whether the worktree leaves it out on purpose.
    is_left_out: bool,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, path) = line.split_once('\t')?;
        let mut head = head.split(' ');
        let (tag, mode) = (head.next()?, head.next()?);
        Some(Self { path, is_module: mode == "160000", is_left_out: tag == "S" })
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

/// Returns a git repository in a directory or below it.
fn repository_in(path: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(path).ok()?.flatten();
    for entry in entries {
        if entry.file_name() == ".git" {
            return Some(path.to_owned());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Some(found) = repository_in(&entry.path())
        {
            return Some(found);
        }
    }
    None
}
