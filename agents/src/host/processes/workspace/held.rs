//! Finds out whether a worktree holds anything that its repository does not hold elsewhere.
//!
//! Whatever cannot be shown to be held elsewhere counts as held here only.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::files::{self, shown};
use crate::work::{Git, Registration, salvage::SALVAGE_REFS};

/// What git leaves in a worktree's own directory while an operation is half done.
const HALF_DONE: [&str; 12] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "AUTO_MERGE",
    "NOTES_MERGE_PARTIAL",
    "NOTES_MERGE_REF",
    "NOTES_MERGE_WORKTREE",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// What else a worktree's own directory may have. Its refs, logs and the commits that it names are searched.
const OWN: [&str; 13] = [
    "HEAD",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "COMMIT_EDITMSG",
    "MERGE_RR",
    "commondir",
    "config.worktree",
    "fsmonitor--daemon",
    "fsmonitor--daemon.ipc",
    "gitdir",
    "index",
    "logs",
    "refs",
];

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
    /// Returns what only the worktree holds, in a few words. `None` means nothing. Fails with what git says if that
    /// cannot be found out.
    pub(super) async fn find(&self) -> Result<Option<String>, String> {
        if let Some(found) = self.half_done()? {
            return Ok(Some(found));
        }
        if let Some(found) = self.commits().await? {
            return Ok(Some(found));
        }
        let entries = self.git().bytes(&["ls-files", "--stage", "-t", "-z"], b"").await?;
        let entries: Vec<TreeEntry<'_>> = entries.split(|byte| *byte == 0).filter_map(TreeEntry::parse).collect();
        if let Some(module) = entries.iter().find(|entry| entry.is_module && !is_empty(&self.root.join(entry.path))) {
            return Ok(Some(format!("the submodule {}", shown(module.path))));
        }
        if self.git().run(&["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD"]).await.is_err() {
            return Ok(Some("staged changes".to_owned()));
        }
        let left_out = entries.iter().filter(|entry| entry.is_left_out).map(|entry| entry.path).collect();
        if let Some(found) = files::only_here(self.root, &left_out, self.discard_ignored).await? {
            return Ok(Some(found));
        }
        self.other()
    }

    fn git(&self) -> Git {
        Git::truthful(self.root)
    }

    /// Finds operations that are under way, and locks.
    fn half_done(&self) -> Result<Option<String>, String> {
        let directory = &self.registration.git_directory;
        let names = names_in(directory)?;
        if names.iter().any(|name| name == "locked") {
            return Ok(Some("a lock (`git worktree unlock` removes it)".to_owned()));
        }
        if let Some(name) = HALF_DONE.into_iter().find(|known| names.iter().any(|name| name == known)) {
            return Ok(Some(format!("an operation that is half done ({name})")));
        }
        let lock = names.iter().find(|name| name.as_bytes().ends_with(b".lock"));
        Ok(lock.map(|name| format!("an operation under way ({})", shown(name))))
    }

    /// Finds what git does not keep by itself in the worktree's own directory.
    fn other(&self) -> Result<Option<String>, String> {
        let directory = &self.registration.git_directory;
        let names = names_in(directory)?;
        let is_own = |name: &OsString| {
            OWN.iter().any(|own| name == own)
                || name.as_bytes().starts_with(b"sharedindex.")
                || (name == "info" && names_in(&directory.join("info")).is_ok_and(|names| names == ["sparse-checkout"]))
        };
        let other = names.iter().find(|name| !is_own(name));
        Ok(other.map(|name| format!("{} in {}", shown(name), directory.display())))
    }

    /// Finds commits that no other branch and no tag reaches: the worktree's, its branch's, those of its
    /// private refs, and those in all their logs. A salvage holds what is only in logs, and not what a branch has.
    async fn commits(&self) -> Result<Option<String>, String> {
        let own = &self.registration.git_directory;
        let (mut tips, mut past): (BTreeSet<String>, BTreeSet<String>) = Default::default();
        let head = self.git().run(&["rev-parse", "--verify", "HEAD^{commit}"]).await;
        tips.insert(head.map_err(|why| format!("HEAD names no commit: {why}"))?.trim().to_owned());
        if let Ok(tip) = self.git().run(&["rev-parse", "--verify", "--quiet", self.branch]).await {
            tips.insert(tip.trim().to_owned());
        }
        // The host has created it, so without it commits may be unknown.
        logged(&own.join("logs/HEAD"), &mut past)?;
        for log in files::below(&own.join("logs"))? {
            logged(&log, &mut past)?;
        }
        let log = self.registration.common_directory.join("logs").join(self.branch);
        if log.exists() {
            logged(&log, &mut past)?;
        }
        for name in ["ORIG_HEAD", "FETCH_HEAD"] {
            let text = fs::read(own.join(name)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            past.extend(text.lines().filter_map(|line| line.split(['\t', ' ']).next()).map(str::to_owned));
        }
        let refs = ["for-each-ref", "--format=%(objectname)", "refs/bisect", "refs/worktree", "refs/rewritten"];
        tips.extend(self.git().run(&refs).await?.lines().map(str::to_owned));

        // A symbolic ref holds nothing by itself: it may name the very branch that goes.
        let format = "--format=%(objectname) %(refname) %(symref)";
        let refs = ["for-each-ref", format, "refs/heads", "refs/remotes", "refs/tags", SALVAGE_REFS];
        let refs = self.git().run(&refs).await?;
        let (mut elsewhere, mut salvaged) = (String::new(), String::new());
        for line in refs.lines() {
            let mut fields = line.splitn(3, ' ');
            let (Some(id), Some(name), Some("")) = (fields.next(), fields.next(), fields.next()) else { continue };
            if name.starts_with(SALVAGE_REFS) {
                salvaged += &format!("^{id}\n");
            } else if name != self.branch {
                elsewhere += &format!("^{id}\n");
            }
        }
        let lost = match self.beyond(&tips, &elsewhere).await? {
            None => self.beyond(&past, &(elsewhere + &salvaged)).await?,
            lost => lost,
        };
        Ok(lost.map(|commit| format!("the commit {commit}")))
    }

    /// Returns a commit that `tips` reach and the excluded ones do not.
    async fn beyond(&self, tips: &BTreeSet<String>, excluded: &str) -> Result<Option<String>, String> {
        let is_id = |tip: &&String| !tip.is_empty() && tip.bytes().all(|byte| byte.is_ascii_hexdigit());
        let input: String = tips.iter().filter(is_id).map(|tip| format!("{tip}\n")).collect();
        let list = ["rev-list", "--ignore-missing", "--max-count=1", "--stdin"];
        let lost = self.git().bytes(&list, (input + excluded).as_bytes()).await?;
        Ok((!lost.is_empty()).then(|| String::from_utf8_lossy(&lost).trim().to_owned()))
    }
}

/// Adds the commits in the log of a ref.
fn logged(path: &Path, tips: &mut BTreeSet<String>) -> Result<(), String> {
    let log = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let log = String::from_utf8_lossy(&log);
    let commits = log.lines().flat_map(|line| line.split(' ').take(2));
    tips.extend(commits.filter(|commit| commit.bytes().any(|byte| byte != b'0')).map(str::to_owned));
    Ok(())
}

/// Returns what a directory has.
fn names_in(directory: &Path) -> Result<Vec<OsString>, String> {
    let entries = fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    entries.map_err(|error| format!("{}: {error}", directory.display()))
}

/// An entry of the index.
struct TreeEntry<'a> {
    path: &'a OsStr,
    /// Whether it is a submodule.
    is_module: bool,
    /// Whether the worktree leaves it out on purpose.
    is_left_out: bool,
}

impl<'a> TreeEntry<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let mut head = str::from_utf8(&line[..tab]).ok()?.split(' ');
        let (tag, mode) = (head.next()?, head.next()?);
        Some(Self { path: OsStr::from_bytes(&line[tab + 1..]), is_module: mode == "160000", is_left_out: tag == "S" })
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}
