//! Finds the files of a worktree whose exact bytes are not in its last commit. It compares the bytes itself, because
//! git may ignore, skip or convert files.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use crate::work::Git;

/// The modes of a committed file that is executable, and of a symbolic link.
const EXECUTABLE: &[u8] = b"100755";
const LINK: &[u8] = b"120000";

/// A file as it is committed.
struct Committed {
    mode: Vec<u8>,
    id: Vec<u8>,
}

/// Returns what is in a worktree whose index is as its last commit, but not in that commit, in a few words. `left_out`:
/// the files that the worktree leaves out on purpose. `discard_ignored`: files that git ignores do not count, unless
/// they are a repository.
pub(super) async fn only_here(
    root: &Path,
    left_out: &BTreeSet<&OsStr>,
    discard_ignored: bool,
) -> Result<Option<String>, String> {
    let committed = committed(root).await?;
    let found = {
        let root = root.to_owned();
        let walk = tokio::task::spawn_blocking(move || walk(&root));
        walk.await.map_err(|error| error.to_string())??
    };
    let found = match found {
        Found::Repository(path) => return Ok(Some(format!("the repository {}", shown(&path)))),
        Found::Files(files) => files,
    };
    let (known, new): (Vec<OsString>, Vec<OsString>) =
        found.into_iter().partition(|path| committed.contains_key(path.as_os_str()));
    if let Some(found) = new_files(root, &new, discard_ignored).await? {
        return Ok(Some(found));
    }
    let there: BTreeSet<&OsStr> = known.iter().map(OsString::as_os_str).collect();
    let is_gone = |path: &&OsString| !there.contains(path.as_os_str()) && !left_out.contains(path.as_os_str());
    if let Some(gone) = committed.keys().find(is_gone) {
        return Ok(Some(format!("changes to {}", shown(gone))));
    }
    let changed = changed(root, &committed, &known).await?;
    Ok(changed.map(|path| format!("changes to {}", shown(&path))))
}

/// Returns what the last commit holds, except for submodules.
async fn committed(root: &Path) -> Result<BTreeMap<OsString, Committed>, String> {
    let listed = Git::truthful(root).bytes(&["ls-tree", "-r", "-z", "--full-tree", "HEAD"], b"").await?;
    let parse = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let mut fields = line[..tab].split(|byte| *byte == b' ');
        let (mode, kind, id) = (fields.next()?, fields.next()?, fields.next()?);
        let path = OsString::from_vec(line[tab + 1..].to_vec());
        (kind == b"blob").then(|| (path, Committed { mode: mode.to_vec(), id: id.to_vec() }))
    };
    Ok(listed.split(|byte| *byte == 0).filter_map(parse).collect())
}

/// What a directory has.
enum Found {
    /// The paths of everything but directories, relative to it.
    Files(Vec<OsString>),
    /// A repository below it.
    Repository(PathBuf),
}

/// Lists what is below the root of a worktree. Fails if anything cannot be read.
fn walk(root: &Path) -> Result<Found, String> {
    let (mut files, mut ahead) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = ahead.pop() {
        let directory = root.join(&below);
        let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            let name = entry.file_name();
            names.insert(name.clone());
            if below.as_os_str().is_empty() && name == ".git" {
                continue;
            }
            match is_directory {
                true => ahead.push(below.join(name)),
                false => files.push(below.join(name).into_os_string()),
            }
        }
        let has = |name: &str| names.contains(OsStr::new(name));
        if !below.as_os_str().is_empty() && (has(".git") || (has("HEAD") && has("objects") && has("refs"))) {
            return Ok(Found::Repository(directory));
        }
    }
    Ok(Found::Files(files))
}

/// Returns the files below a directory. None if it does not exist.
pub(super) fn below(directory: &Path) -> Result<Vec<PathBuf>, String> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    match walk(directory)? {
        Found::Files(files) => Ok(files.iter().map(|path| directory.join(path)).collect()),
        Found::Repository(path) => Err(format!("{} is a repository", path.display())),
    }
}

/// Finds a file that was never committed. One that git ignores comes last, or does not count.
async fn new_files(root: &Path, new: &[OsString], discard_ignored: bool) -> Result<Option<String>, String> {
    let Some(first) = new.first() else { return Ok(None) };
    // What is staged is not ignored. Git would look for each of the files among all that are staged, which takes minutes
    // if there are many of both.
    let staged = Git::truthful(root).bytes(&["ls-files", "--cached", "-z"], b"").await?;
    let staged: BTreeSet<&[u8]> = staged.split(|byte| *byte == 0).collect();
    if let Some(new) = new.iter().find(|path| staged.contains(path.as_bytes())) {
        return Ok(Some(format!("the new file {}", shown(new))));
    }
    // Otherwise git takes a name that begins with a colon for a pattern.
    let here = |path: &OsString| Path::new(".").join(path).into_os_string();
    let asked: Vec<OsString> = new.iter().map(here).collect();
    // Fails if git ignores none of them.
    let ignored = Git::truthful(root).bytes(&["check-ignore", "--no-index", "-z", "--stdin"], &lines(&asked, 0)).await;
    let ignored = ignored.unwrap_or_default();
    let ignored: BTreeSet<&[u8]> = ignored.split(|byte| *byte == 0).collect();
    if let Some(new) = new.iter().find(|path| !ignored.contains(here(path).as_bytes())) {
        return Ok(Some(format!("the new file {}", shown(new))));
    }
    Ok((!discard_ignored).then(|| format!("the ignored file {}", shown(first))))
}

/// Finds a file that git would not write again as it is.
async fn changed(
    root: &Path,
    committed: &BTreeMap<OsString, Committed>,
    paths: &[OsString],
) -> Result<Option<OsString>, String> {
    let (mut converted, mut same_mode) = (Vec::new(), Vec::new());
    for path in paths {
        let file = root.join(path);
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let metadata = fs::symlink_metadata(&file).map_err(failed)?;
        let Some(known) = committed.get(path) else { continue };
        let is_executable = metadata.permissions().mode() & 0o100 != 0;
        let is_same = match known.mode == LINK {
            true => metadata.is_symlink(),
            false => metadata.is_file() && is_executable == (known.mode == EXECUTABLE),
        };
        if !is_same {
            return Ok(Some(path.clone()));
        }
        // Git reads names one a line, and would follow links.
        match metadata.is_symlink() || path.as_bytes().contains(&b'\n') {
            true => converted.push(path.clone()),
            false => same_mode.push(path.clone()),
        }
    }
    if !same_mode.is_empty() {
        let hash = ["hash-object", "--no-filters", "--stdin-paths"];
        let ids = Git::truthful(root).bytes(&hash, &lines(&same_mode, b'\n')).await?;
        let mut ids = ids.split(|byte| *byte == b'\n');
        for path in same_mode {
            if ids.next() != committed.get(&path).map(|known| known.id.as_slice()) {
                converted.push(path);
            }
        }
    }
    if converted.is_empty() {
        return Ok(None);
    }
    // Git may have written them otherwise than they are committed. Let it do that again, and compare.
    let directory = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    let (index, again) = (directory.path().join("index"), directory.path().join("again/"));
    let git = || Git::truthful(root).with_index(&index);
    git().run(&["-c", "core.sparseCheckout=false", "read-tree", "HEAD"]).await?;
    let prefix = format!("--prefix={}", again.display());
    git().bytes(&["checkout-index", "-z", "--stdin", &prefix], &lines(&converted, 0)).await?;
    Ok(converted.into_iter().find(|path| {
        let (here, again) = (root.join(path), again.join(path));
        match fs::read_link(&here) {
            Ok(target) => fs::read_link(&again).ok().is_none_or(|committed| committed != target),
            Err(_) => match (fs::read(&here), fs::read(&again)) {
                (Ok(here), Ok(again)) => here != again,
                _ => true,
            },
        }
    }))
}

/// Returns paths with an end after each.
fn lines(paths: &[OsString], end: u8) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_bytes().iter().copied().chain([end])).collect()
}

/// Returns a name as a reason shows it, on one line.
pub(super) fn shown(name: impl AsRef<OsStr>) -> String {
    name.as_ref().to_string_lossy().escape_debug().to_string()
}
