//! Brings a working state back that was kept.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{self, Path},
};

use super::{
    commits::update_refs,
    place::Place,
    salvage::{Record, Salvage, records, records_at},
    state::Camera,
    trees::entries,
};

/// Makes a new working tree at `directory`, on a new branch `branch` at the commit that was checked out, with the files
/// of a salvage. `what`: its ref or its commit. What was changed is changed again and not committed, and what was
/// untracked is untracked again. Fails if the directory or the branch exists. Touches no other working tree.
pub async fn restore(place: &Place, what: &str, directory: &Path, branch: &str) -> Result<(), String> {
    let record = find(place, what).await?;
    let Some(salvage) = &record.salvage else { return Err(not_found(what)) };
    let directory = &path::absolute(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    if fs::symlink_metadata(directory).is_ok() {
        return Err(format!("{} exists. Name a directory that does not.", directory.display()));
    }
    let reference = format!("refs/heads/{branch}");
    place.run(&["check-ref-format", &reference]).await.map_err(|_| format!("{branch} is no name for a branch"))?;
    if place.run(&["rev-parse", "--verify", "--quiet", &reference]).await.is_ok() {
        return Err(format!("The branch {branch} exists. Name one that does not."));
    }
    let path = directory.display().to_string();
    let start = salvage.parent.as_deref().unwrap_or(&salvage.commit);
    let add = ["worktree", "add", "--no-checkout", "--detach", &path, start];
    place.named(&add, place.git().with_setting("core.sparseCheckout=false").run(&add).await)?;
    let filled = fill(place, &record, salvage, directory, &reference).await;
    if filled.is_err() {
        // Nobody has worked in it.
        let _ = place.run(&["worktree", "remove", "--force", &path]).await;
    }
    filled
}

/// Finds a salvage by its ref or its commit.
async fn find(place: &Place, what: &str) -> Result<Record, String> {
    let found = if what.starts_with("refs/") {
        records_at(place, what, Some(2))
            .await?
            .into_iter()
            .find(|record| is_at(record, |salvage| &salvage.reference, what))
    } else {
        let commit = place.commit(what).await?.ok_or_else(|| not_found(what))?;
        records(place, None, None).await?.into_iter().find(|record| is_at(record, |salvage| &salvage.commit, &commit))
    };
    found.ok_or_else(|| not_found(what))
}

fn is_at(record: &Record, part: impl Fn(&Salvage) -> &String, what: &str) -> bool {
    record.salvage.as_ref().is_some_and(|salvage| part(salvage) == what)
}

fn not_found(what: &str) -> String {
    format!("{what} is no salvage. `teamwire work restore` lists them.")
}

async fn fill(
    place: &Place,
    record: &Record,
    salvage: &Salvage,
    directory: &Path,
    reference: &str,
) -> Result<(), String> {
    let Some(new) = Place::find_with(place.program(), directory).await? else {
        return Err(format!("{} is no working tree", directory.display()));
    };
    let temporary = tempfile::tempdir().map_err(|error| format!("a temporary directory: {error}"))?;
    let index = temporary.path().join("index");
    let camera = Camera::new(&new, &index).await?;
    camera.feed(&["read-tree", &salvage.tree], b"").await?;
    camera.feed(&["checkout-index", "--all", "--force"], b"").await?;
    let listed = new.feed(&["ls-tree", "-r", "-z", "--full-tree", &salvage.tree], b"").await?;
    let parse = |entry: &[u8]| {
        let tab = entry.iter().position(|byte| *byte == b'\t')?;
        let mut facts = str::from_utf8(&entry[..tab]).ok()?.split(' ');
        // Writing to a symbolic link would write elsewhere.
        let is_file = facts.next()?.starts_with("100");
        let id = facts.nth(1)?.to_owned();
        is_file.then(|| (OsStr::from_bytes(&entry[tab + 1..]).to_owned(), id))
    };
    let ids: BTreeMap<OsString, String> = entries(&listed).filter_map(parse).collect();
    for path in &record.exact {
        let Some(id) = ids.get(path) else { continue };
        let bytes = new.feed(&["cat-file", "blob", id], b"").await?;
        let file = directory.join(path);
        // Git has written it: it is a file, in its own directories.
        fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(parent) = &salvage.parent {
        // Fails if the branch has been made meanwhile.
        update_refs(place, &format!("create {reference} {parent}\n")).await?;
    }
    let attached = attach(&new, record, salvage, reference).await;
    if let (Err(_), Some(parent)) = (&attached, &salvage.parent) {
        let _ = update_refs(place, &format!("delete {reference} {parent}\n")).await;
    }
    attached
}

/// Lets a working tree have a branch checked out, and stages what was staged.
async fn attach(new: &Place, record: &Record, salvage: &Salvage, reference: &str) -> Result<(), String> {
    new.run(&["symbolic-ref", "HEAD", reference]).await?;
    let staged = record.staged.as_deref().or(salvage.parent.as_deref()).unwrap_or("--empty");
    new.run(&["read-tree", staged]).await?;
    // Lets git notice what is the same. It fails if something differs.
    let _ = new.git().output(&["update-index", "-q", "--really-refresh"], b"").await?;
    Ok(())
}
