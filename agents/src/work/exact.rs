//! Keeps the exact bytes of files that git converts: line ends, filters, encodings.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use super::{
    place::Place,
    state::Camera,
    trees::{Change, changes, empty_tree, entries, lines},
};

/// The attributes by which git converts a file.
const CONVERTING: [&str; 6] = ["text", "eol", "crlf", "filter", "ident", "working-tree-encoding"];

/// A tree with the exact bytes of the working state.
#[derive(Debug)]
pub(super) struct Exact {
    pub(super) tree: String,
    /// The files whose bytes are not what git would write after it has converted them.
    pub(super) files: Vec<OsString>,
}

/// Finds the files that git would not write again with the same bytes, among those that have changed since
/// `head_tree`, and returns a tree with these bytes. If attributes have changed, all files may have.
pub(super) async fn keep(place: &Place, camera: &Camera<'_>, head_tree: &str, tree: &str) -> Result<Exact, String> {
    let mut changed = changes(place, head_tree, tree).await?;
    if changed.iter().any(|change| Path::new(&change.path).file_name() == Some(OsStr::new(".gitattributes"))) {
        changed = changes(place, &empty_tree(place).await?, tree).await?;
    }
    let is_file = |change: &&Change| change.new_mode.starts_with("100");
    let files: Vec<&OsStr> = changed.iter().filter(is_file).map(|change| change.path.as_os_str()).collect();
    let converted = converted(place, &files).await?;
    if converted.is_empty() {
        return Ok(Exact { tree: tree.to_owned(), files: Vec::new() });
    }
    let failed = |error: io::Error| format!("a temporary directory: {error}");
    let directory = tempfile::tempdir().map_err(failed)?;
    // In the private index, the bytes would change how git converts these files the next time.
    let (index, again) = (directory.path().join("index"), directory.path().join("again/"));
    fs::copy(camera.index(), &index).map_err(failed)?;
    let camera = Camera::new(place, &index).await?;
    let prefix = format!("--prefix={}", again.display());
    camera.feed(&["checkout-index", "-z", "--stdin", &prefix], &lines("", &converted, 0)).await?;
    let modes: BTreeMap<&OsStr, &str> =
        changed.iter().map(|change| (change.path.as_os_str(), change.new_mode.as_str())).collect();
    let (mut corrections, mut inexact) = (Vec::new(), Vec::new());
    for path in converted {
        // What is not there is left out on purpose.
        let Ok(bytes) = fs::read(place.root.join(path)) else { continue };
        let Some(mode) = modes.get(path) else { continue };
        if fs::read(again.join(path)).is_ok_and(|written| written == bytes) {
            continue;
        }
        let id = place.feed(&["hash-object", "-w", "--stdin", "--no-filters"], &bytes).await?;
        let entry = format!("{mode} {} 0\t", String::from_utf8_lossy(&id).trim());
        corrections.extend(lines(&entry, [path], 0));
        inexact.push(path.to_owned());
    }
    if !corrections.is_empty() {
        camera.feed(&["update-index", "-z", "--index-info"], &corrections).await?;
    }
    Ok(Exact { tree: camera.write_tree().await?, files: inexact })
}

/// Returns those of the files that git may convert.
async fn converted<'a>(place: &Place, files: &[&'a OsStr]) -> Result<Vec<&'a OsStr>, String> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    if place.setting("core.autocrlf").await?.is_some_and(|setting| setting != "false") {
        return Ok(files.to_vec());
    }
    let check = [&["check-attr", "-z", "--stdin"], &CONVERTING[..]].concat();
    let answers = place.feed(&check, &lines("", files, 0)).await?;
    let mut fields = entries(&answers);
    let mut found = BTreeSet::new();
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        if !matches!(value, b"unspecified" | b"unset") {
            found.insert(OsStr::from_bytes(path).to_owned());
        }
    }
    Ok(files.iter().copied().filter(|path| found.contains(*path)).collect())
}
