//! Compares trees, and reads the lists that git prints with a zero byte after each entry.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

use super::place::Place;

/// The mode of a submodule.
pub(super) const MODULE: &str = "160000";

/// A path at which two trees differ.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) path: OsString,
    /// The mode in the second tree. Only zeros if the path is not in it.
    pub(super) new_mode: String,
}

/// Returns the paths at which two trees differ. A file that was renamed is two of them.
pub(super) async fn changes(place: &Place, from: &str, to: &str) -> Result<Vec<Change>, String> {
    let diff = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", from, to];
    let listed = place.feed(&diff, b"").await?;
    let mut changes = Vec::new();
    let mut fields = entries(&listed);
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        // Such as: :100644 100755 ID ID M
        let new_mode = String::from_utf8_lossy(what).split(' ').nth(1).unwrap_or_default().to_owned();
        changes.push(Change { path: OsStr::from_bytes(path).to_owned(), new_mode });
    }
    Ok(changes)
}

/// Returns the id of the tree that has no files.
pub(super) async fn empty_tree(place: &Place) -> Result<String, String> {
    Ok(place.run(&["mktree"]).await?.trim().to_owned())
}

/// Returns the entries of a list with a zero byte after each.
pub(super) fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty())
}

/// Returns the paths in a list with a zero byte after each.
pub(super) fn paths(list: &[u8]) -> Vec<OsString> {
    entries(list).map(|path| OsStr::from_bytes(path).to_owned()).collect()
}

/// Returns paths with an end after each, and a text before.
pub(super) fn lines(before: &str, paths: impl IntoIterator<Item = impl AsRef<OsStr>>, end: u8) -> Vec<u8> {
    let mut lines = Vec::new();
    for path in paths {
        lines.extend_from_slice(before.as_bytes());
        lines.extend_from_slice(path.as_ref().as_bytes());
        lines.push(end);
    }
    lines
}
