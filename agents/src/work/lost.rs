//! Finds commits that git would soon delete: those that only logs and the files of operations name.

use std::{collections::BTreeSet, fs, path::Path};

use super::place::Place;

/// How many such commits a salvage holds by itself. With each goes all that it is based on.
const COMMITS_MAX: usize = 16;

/// How many of the newest lines of a log are read.
const LOG_LINES_MAX: usize = 2_000;

/// The files that name commits of an operation, in the directory that belongs to one working tree.
const FILES: [&str; 10] = [
    "ORIG_HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REBASE_HEAD",
    "MERGE_AUTOSTASH",
    "rebase-merge/autostash",
    "rebase-merge/orig-head",
    "rebase-apply/autostash",
    "rebase-apply/orig-head",
];

/// The refs that go with a working tree.
const OWN_REFS: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// Commits that no ref holds.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) commits: Vec<String>,
    /// Says how many there are besides.
    pub(super) more: Option<String>,
}

/// Returns the newest commits that are reachable from logs, from the files of operations and from the working tree's
/// own refs, but neither from HEAD nor from any other ref.
pub(super) async fn lost_commits(place: &Place, head: Option<&str>) -> Result<Lost, String> {
    let own = &place.git_directory;
    let mut known = BTreeSet::new();
    read_log(&own.join("logs/HEAD"), &mut known);
    if let Some(branch) = place.branch().await? {
        read_log(&place.common_directory.join("logs/refs/heads").join(branch), &mut known);
    }
    for name in FILES {
        let text = fs::read(own.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        known.extend(text.lines().filter_map(|line| line.split(['\t', ' ']).next()).map(str::to_owned));
    }
    // A symbolic ref holds nothing by itself.
    let refs = place.run(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"]).await?;
    let mut input = String::new();
    for line in refs.lines() {
        let mut fields = line.splitn(3, ' ');
        let (Some(id), Some(name), Some("")) = (fields.next(), fields.next(), fields.next()) else { continue };
        if OWN_REFS.iter().any(|own| name.starts_with(own)) {
            known.insert(id.to_owned());
        } else {
            input += &format!("^{id}\n");
        }
    }
    known.retain(|id| {
        id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && !id.bytes().all(|b| b == b'0')
    });
    input.extend(head.map(|head| format!("^{head}\n")));
    // What git has deleted already, and what is no commit, cannot be held.
    let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
    let ids: String = known.iter().map(|id| format!("{id}\n")).collect();
    if ids.is_empty() {
        return Ok(Lost { commits: Vec::new(), more: None });
    }
    let checked = place.feed(&check, ids.as_bytes()).await?;
    let checked = String::from_utf8_lossy(&checked).into_owned();
    let commits = checked.lines().filter_map(|line| line.strip_suffix(" commit"));
    input.extend(commits.map(|id| format!("{id}\n")));
    let listed =
        place.feed(&["rev-list", "--topo-order", "--parents", "--ignore-missing", "--stdin"], input.as_bytes());
    let listed = String::from_utf8_lossy(&listed.await?).into_owned();
    let parents: BTreeSet<&str> = listed.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    let listed = listed.lines().filter_map(|line| line.split(' ').next());
    let mut commits: Vec<String> = listed.filter(|id| !parents.contains(id)).map(str::to_owned).collect();
    let more = commits.len().saturating_sub(COMMITS_MAX);
    commits.truncate(COMMITS_MAX);
    Ok(Lost { commits, more: (more > 0).then(|| format!("{more} more commits that only logs hold")) })
}

/// Adds the commits in the log of a ref. A ref may have none.
fn read_log(path: &Path, known: &mut BTreeSet<String>) {
    let log = fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    let newest = lines.iter().rev().take(LOG_LINES_MAX);
    known.extend(newest.flat_map(|line| line.split(' ').take(2)).map(str::to_owned));
}
