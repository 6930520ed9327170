//! Writes what a member has changed into files, however much it is.

use std::{fs::File, path::Path};

use super::place::Place;

/// How many commits a log has at most.
pub const LOG_COMMITS_MAX: usize = 1_000;

/// How a comparison is written, whatever the user's settings are. With more renames than git is to look for, a renamed
/// file is a new one.
const FORM: [&str; 10] = [
    "diff-tree",
    "-r",
    "-M",
    "-l1000",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
];

/// Writes the differences between a commit and another commit or a tree into a file. `stat`: only how many lines of
/// each file differ.
pub async fn diff(place: &Place, base: &str, to: &str, stat: bool, file: &Path) -> Result<(), String> {
    let (base, to) = (place.tree(base).await?, place.tree(to).await?);
    let form: &[&str] = if stat { &["--stat=120,80", "--summary"] } else { &["--patch"] };
    let arguments = [&FORM[..], form, &[&base, &to]].concat();
    write(place, &arguments, file).await
}

/// Writes the commits that `head` has and `base` has not into a file, newest first: a line with the short id, the date,
/// the author and the subject of each, [`LOG_COMMITS_MAX`] at most.
pub async fn log(place: &Place, base: &str, head: &str, file: &Path) -> Result<(), String> {
    let missing = |revision: &str| format!("{} has no commit {revision}", place.root.display());
    let base = place.commit(base).await?.ok_or_else(|| missing(base))?;
    let head = place.commit(head).await?.ok_or_else(|| missing(head))?;
    let (count, range) = (format!("--max-count={LOG_COMMITS_MAX}"), format!("{base}..{head}"));
    let form = ["log", "--no-color", "--no-show-signature", "--no-decorate", "--no-patch", "--date=iso"];
    let arguments = [&form[..], &["--format=%h %ad %an: %s", &count, &range, "--"]].concat();
    write(place, &arguments, file).await
}

async fn write(place: &Place, arguments: &[&str], file: &Path) -> Result<(), String> {
    let output = File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    place.named(arguments, place.git().write_to(arguments, output).await)
}
