//! Says what a member has changed, and whether it can be merged.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::{
    commits::{Identity, commit_tree},
    git::{Git, complaint},
    place::Place,
    salvage::FILE_BYTES_MAX,
    state::{Picture, State},
    trees::{changes, empty_tree, entries, lines, paths},
};

/// How many changed paths a survey names.
pub const PATHS_MAX: usize = 1_000;

/// Files that programs write, and that people merge by letting them write again.
const LOCK_FILES: [&str; 23] = [
    "Cargo.lock",
    "Gemfile.lock",
    "Package.resolved",
    "Pipfile.lock",
    "Podfile.lock",
    "bun.lock",
    "bun.lockb",
    "composer.lock",
    "deno.lock",
    "flake.lock",
    "go.sum",
    "gradle.lockfile",
    "mix.lock",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "packages.lock.json",
    "pdm.lock",
    "pixi.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "pubspec.lock",
    "uv.lock",
    "yarn.lock",
];

/// What would happen if two lines of work were merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    Clean,
    /// The paths with conflicts.
    Conflicts(Vec<String>),
    /// Why it is not known.
    Unknown(String),
}

/// What a member has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// See [`Place::repository_id`].
    pub repository: Option<String>,
    pub branch: Option<String>,
    /// What the work is compared with. `None` if that is not known.
    pub base_branch: Option<String>,
    /// The newest commit that the work and the base branch share.
    pub base: Option<String>,
    pub head: Option<String>,
    /// The tree of the working state.
    pub tree: String,
    /// How many commits only HEAD has, and only the base branch.
    pub ahead: u64,
    pub behind: u64,
    /// How many files and lines of the working state, untracked files included, differ from `base`.
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
    /// How many paths differ from HEAD.
    pub uncommitted: usize,
    /// The paths that differ from `base`: at most [`PATHS_MAX`]. A renamed file is two.
    pub paths: Vec<String>,
    pub paths_total: usize,
    /// What merging the working state into the base branch would do.
    pub forecast: Forecast,
}

/// Surveys the working state. `base`: the branch or commit to compare it with; `None` means [`Place::base_branch`].
/// `index`: a private index, as [`salvage`](super::salvage::salvage) has it.
///
/// Without a base, the working state is compared with HEAD.
pub async fn survey(place: &Place, base: Option<&str>, index: &Path) -> Result<Survey, String> {
    survey_of(Picture::take(place, index, FILE_BYTES_MAX).await?, base).await
}

/// Surveys the working state of a picture, as [`survey`] does.
pub(crate) async fn survey_of(picture: Picture<'_>, base: Option<&str>) -> Result<Survey, String> {
    let Picture { place, head, state: State { tree, .. }, .. } = picture;
    let base = match base {
        Some(base) => Some(base.to_owned()),
        None => place.base_branch().await?,
    };
    compare(place, Surveyed { branch: place.branch().await?, head, tree }, base).await
}

/// Surveys a branch, whose working tree is gone or elsewhere, as [`survey`] does.
pub async fn survey_branch(place: &Place, branch: &str, base: Option<&str>) -> Result<Survey, String> {
    let reference = format!("refs/heads/{branch}");
    let head = place.commit(&reference).await?.ok_or_else(|| format!("there is no branch {branch}"))?;
    let tree = place.tree(&head).await?;
    let state = Surveyed { branch: Some(branch.to_owned()), head: Some(head), tree };
    compare(place, state, base.map(str::to_owned)).await
}

/// What is surveyed.
struct Surveyed {
    branch: Option<String>,
    head: Option<String>,
    tree: String,
}

async fn compare(place: &Place, state: Surveyed, base_branch: Option<String>) -> Result<Survey, String> {
    let Surveyed { branch, head, tree } = state;
    let tip = match &base_branch {
        Some(name) => place.commit(name).await?,
        None => None,
    };
    let (mut merge_base, mut ahead, mut behind) = (None, 0, 0);
    if let (Some(head), Some(tip)) = (&head, &tip) {
        merge_base = place.merge_base(head, tip).await?;
        let counts = place.run(&["rev-list", "--left-right", "--count", &format!("{head}...{tip}")]).await?;
        let mut counts = counts.split_whitespace().map(|count| count.parse().unwrap_or_default());
        (ahead, behind) = (counts.next().unwrap_or_default(), counts.next().unwrap_or_default());
    }
    let head_tree = match &head {
        Some(head) => place.tree(head).await?,
        None => empty_tree(place).await?,
    };
    let from = match &merge_base {
        Some(base) => place.tree(base).await?,
        None => head_tree.clone(),
    };
    let numbers = numbers(place, &from, &tree).await?;
    let changed = changes(place, &from, &tree).await?;
    let uncommitted = match from == head_tree {
        true => changed.len(),
        false => changes(place, &head_tree, &tree).await?.len(),
    };
    let forecast = match (&head, &tip) {
        (Some(head), Some(tip)) if tree == head_tree => forecast(place, tip, head).await,
        (Some(head), Some(tip)) => {
            // Always the same commit for the same state, so that no more than one is written for it.
            let who = Identity::own().at_the_epoch();
            forecast(place, tip, &commit_tree(place, &tree, &[head], "Working state\n", &who).await?).await
        }
        _ => Forecast::Unknown("there is no commit to merge, or no branch to merge it into".to_owned()),
    };
    Ok(Survey {
        repository: place.repository_id().await?,
        branch,
        base_branch,
        base: merge_base,
        ahead,
        behind,
        files: numbers[0],
        insertions: numbers[1],
        deletions: numbers[2],
        uncommitted,
        paths_total: changed.len(),
        paths: changed.iter().take(PATHS_MAX).map(|change| change.path.to_string_lossy().into_owned()).collect(),
        head,
        tree,
        forecast,
    })
}

/// Returns how many files differ between trees, and how many lines were inserted and deleted.
async fn numbers(place: &Place, from: &str, to: &str) -> Result<[u64; 3], String> {
    let count = ["diff-tree", "-r", "--shortstat", "-M", "-l1000", "--no-ext-diff", "--no-textconv", from, to];
    let line = place.run(&count).await?;
    let mut numbers = [0; 3];
    for part in line.trim().split(", ") {
        let number = part.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
        let position = if part.contains("insertion") { 1 } else { usize::from(part.contains("deletion")) * 2 };
        numbers[position] = number;
    }
    Ok(numbers)
}

/// Says what merging the commit `theirs` into `ours` would do. Changes nothing.
pub async fn forecast(place: &Place, ours: &str, theirs: &str) -> Forecast {
    let told = async {
        place.require_merge_tree("a forecast").await?;
        let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
        merge_trees(place, with_objects_in(place, place.git(), directory.path()), ours, theirs).await
    };
    match told.await {
        Ok(MergedTree::Clean(_)) => Forecast::Clean,
        Ok(MergedTree::Conflicts(paths)) => Forecast::Conflicts(paths),
        Err(why) => Forecast::Unknown(why),
    }
}

/// The outcome of a merge of trees.
#[derive(Debug)]
pub(super) enum MergedTree {
    /// The tree.
    Clean(String),
    Conflicts(Vec<String>),
}

/// Merges the commit `theirs` into `ours`, without a working tree.
pub(super) async fn merge_trees(place: &Place, git: Git, ours: &str, theirs: &str) -> Result<MergedTree, String> {
    let merge = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs];
    let output = place.named(&merge, git.output(&merge, b"").await)?;
    let mut paths = paths(&output.stdout).into_iter();
    match (output.status.code(), paths.next()) {
        (Some(0), Some(tree)) => Ok(MergedTree::Clean(tree.to_string_lossy().into_owned())),
        (Some(1), Some(_)) => {
            let mut paths: Vec<String> = paths.map(|path| path.to_string_lossy().into_owned()).collect();
            paths.sort();
            paths.dedup();
            Ok(MergedTree::Conflicts(paths))
        }
        _ => place.named(&merge, Err(complaint(&output))),
    }
}

/// Lets git write objects into a directory, and read those of the repository, too.
pub(super) fn with_objects_in(place: &Place, git: Git, directory: &Path) -> Git {
    let mut objects = b"\"".to_vec();
    for byte in place.common_directory.join("objects").as_os_str().as_bytes() {
        // A colon would end the path if it were not in quotes.
        if matches!(byte, b'"' | b'\\') {
            objects.push(b'\\');
        }
        objects.push(*byte);
    }
    objects.push(b'"');
    git.with_variable("GIT_OBJECT_DIRECTORY", directory)
        .with_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsStr::from_bytes(&objects))
}

/// Returns whether programs write a file of this name.
pub fn is_lock_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    LOCK_FILES.iter().any(|known| name == *known)
}

/// Returns the paths at which two trees differ, except for files that programs write (lock files, and files with the
/// attribute `linguist-generated`) and files that merge by themselves (`merge=union`, `ours` or `binary`).
pub async fn touched(place: &Place, earlier: &str, later: &str) -> Result<Vec<String>, String> {
    let changed = changes(place, earlier, later).await?;
    let changed: Vec<OsString> =
        changed.into_iter().map(|change| change.path).filter(|path| !is_lock_file(path.as_ref())).collect();
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let check = ["check-attr", "-z", "--stdin", "linguist-generated", "merge"];
    let answers = place.feed(&check, &lines("", &changed, 0)).await?;
    let mut fields = entries(&answers);
    let mut ignored = BTreeSet::new();
    while let (Some(path), Some(name), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        let is_ignored = match name {
            b"merge" => matches!(value, b"union" | b"ours" | b"binary"),
            _ => matches!(value, b"set" | b"true"),
        };
        if is_ignored {
            ignored.insert(path);
        }
    }
    let left = changed.iter().filter(|path| !ignored.contains(path.as_bytes()));
    Ok(left.map(|path| path.to_string_lossy().into_owned()).collect())
}
