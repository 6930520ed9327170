//! Carries commits to the repository of another machine, as git bundles.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use uuid::Uuid;

use super::{
    commits::update_refs,
    names::{as_branch, is_id},
    place::Place,
    survey::with_objects_in,
};

/// How many bytes go with one call of a text or a bundle that is carried to another machine.
pub(super) const PAGE_BYTES: u64 = 192 * 1024;

/// How many commits [`tips`] returns, and how many [`make`] uses.
pub const TIPS_MAX: usize = 256;

/// Where the commits of members on other machines are.
const REFS: &str = "refs/teamwire/members";

/// Where the newest commits of branches of other machines are.
const BASE_REFS: &str = "refs/teamwire/base";

/// Where the ref is that a bundle is made of, while it is made.
const TEMPORARY_REFS: &str = "refs/teamwire/bundles";

/// How long the part of a bundle before its objects may be.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;

/// The beginning of a directory in which git and its clean-up expect objects that have just arrived.
const QUARANTINE: &str = "tmp_objdir-teamwire-";

/// Returns commits that are here, newest first: the tips of branches, which the maker of a bundle can build upon.
pub async fn tips(place: &Place) -> Result<Vec<String>, String> {
    let count = format!("--count={TIPS_MAX}");
    let list =
        ["for-each-ref", "--sort=-committerdate", &count, "--format=%(objectname)", "refs/heads", "refs/remotes", REFS];
    let listed = place.run(&list).await?;
    let mut tips: Vec<String> = Vec::new();
    for tip in place.head().await?.iter().map(String::as_str).chain(listed.lines()) {
        if tips.len() < TIPS_MAX && !tips.iter().any(|known| known == tip) {
            tips.push(tip.to_owned());
        }
    }
    Ok(tips)
}

/// Writes a bundle of a commit with all that it is based on, except for what the commits in `have` hold. `what`: a
/// commit or a ref. Those of `have` that are not here do not count.
///
/// Returns `false`, and writes nothing, if nothing is missing there.
pub async fn make(place: &Place, what: &str, have: &[String], file: &Path) -> Result<bool, String> {
    let missing = || format!("{} has no commit {what}", place.root.display());
    let commit = place.commit(what).await?.ok_or_else(missing)?;
    let have: String = have.iter().filter(|id| is_id(id)).map(|id| format!("{id}\n")).collect();
    let known = match have.is_empty() {
        true => Vec::new(),
        false => place.feed(&["cat-file", "--batch-check=%(objectname) %(objecttype)"], have.as_bytes()).await?,
    };
    let known = String::from_utf8_lossy(&known).into_owned();
    let known = known.lines().filter_map(|line| line.strip_suffix(" commit"));
    let excluded: Vec<String> = known.take(TIPS_MAX).map(|id| format!("^{id}")).collect();
    let excluded: Vec<&str> = excluded.iter().map(String::as_str).collect();
    let new = place.run(&[&["rev-list", "--max-count=1", &commit], &excluded[..]].concat()).await?;
    if new.is_empty() {
        return Ok(false);
    }
    // Git makes bundles of refs only.
    let reference = format!("{TEMPORARY_REFS}/{}", Uuid::new_v4().simple());
    update_refs(place, &format!("create {reference} {commit}\n")).await?;
    let file = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let file = file.display().to_string();
    let made = place.run(&[&["bundle", "create", "--quiet", &file, &reference], &excluded[..]].concat()).await;
    update_refs(place, &format!("delete {reference} {commit}\n")).await?;
    made.map(|_| true)
}

/// Takes a commit from a bundle, and lets `refs/teamwire/members/MEMBER` name it. Returns that ref.
///
/// Fails, and changes nothing, unless the bundle holds exactly one ref, which is at `commit`, and its objects are sound
/// and complete with those that are here. Only then do they leave the directory that they arrive in.
pub async fn take(place: &Place, file: &Path, member: &str, commit: &str) -> Result<String, String> {
    take_as(place, file, &format!("{REFS}/{}", as_branch(member)), commit).await
}

/// Returns the ref for the newest commit of a branch of another machine.
pub(crate) fn base_ref(branch: &str) -> String {
    format!("{BASE_REFS}/{branch}")
}

/// Lets a ref name a commit that is here. Returns the ref.
pub(crate) async fn name(place: &Place, reference: &str, commit: &str) -> Result<String, String> {
    place.run(&["check-ref-format", reference]).await.map_err(|_| format!("{reference} is no name for a ref"))?;
    update_refs(place, &format!("update {reference} {commit}\n")).await?;
    Ok(reference.to_owned())
}

/// Takes a commit as [`take`] does, and lets this ref name it. Returns the ref.
pub(crate) async fn take_as(place: &Place, file: &Path, reference: &str, commit: &str) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("the bundle {}: {why}", file.display());
    let mut bundle = File::open(file).map_err(|error| failed(&error))?;
    let begin = objects_of(&bundle, commit).map_err(|why| failed(&why))?;
    let path = std::path::absolute(file).map_err(|error| failed(&error))?;
    place.run(&["bundle", "verify", "--quiet", &path.display().to_string()]).await?;

    let objects = place.common_directory.join("objects");
    let quarantine = tempfile::Builder::new().prefix(QUARANTINE).tempdir_in(&objects);
    let quarantine = quarantine.map_err(|error| format!("{}: {error}", objects.display()))?;
    let git = || with_objects_in(place, place.git(), quarantine.path());
    bundle.seek(SeekFrom::Start(begin)).map_err(|error| failed(&error))?;
    let index = ["index-pack", "--stdin", "--fix-thin", "--strict"];
    // Git streams what is larger.
    let indexing = git().with_setting("core.bigFileThreshold=16m");
    place.named(&index, indexing.read_from(&index, bundle).await)?;
    let kind = git().run(&["cat-file", "-t", commit]).await.unwrap_or_default();
    if kind.trim() != "commit" {
        return Err(failed(&format!("{commit} is no commit in it")));
    }
    // Every object is there.
    let connected = ["rev-list", "--objects", "--quiet", commit, "--not", "--all"];
    place.named(&connected, git().run(&connected).await)?;

    let packs = quarantine.path().join("pack");
    let mut names: Vec<_> = fs::read_dir(&packs).map_err(|error| failed(&error))?.flatten().collect();
    // Git looks for the index, so that comes last.
    names.sort_by_key(|entry| entry.path().extension() == Some(OsStr::new("idx")));
    for entry in names {
        let to = objects.join("pack").join(entry.file_name());
        fs::create_dir_all(objects.join("pack")).map_err(|error| failed(&error))?;
        fs::rename(entry.path(), &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    name(place, reference, commit).await
}

/// Reads the part of a bundle before its objects. Returns where these begin.
fn objects_of(bundle: &File, commit: &str) -> Result<u64, String> {
    if !is_id(commit) {
        return Err(format!("{commit:?} is no id of a commit"));
    }
    let mut reader = BufReader::new(bundle.take(HEADER_BYTES_MAX));
    let (mut begin, mut refs, mut line) = (0, Vec::new(), Vec::new());
    loop {
        line.clear();
        begin += reader.read_until(b'\n', &mut line).map_err(|error| error.to_string())? as u64;
        let text = String::from_utf8_lossy(&line);
        let Some(text) = text.strip_suffix('\n') else {
            return Err("it is no bundle, or too much is in it".to_owned());
        };
        match text.as_bytes().first() {
            None => break,
            Some(b'#') if matches!(text, "# v2 git bundle" | "# v3 git bundle") => {}
            Some(b'@') if text.starts_with("@object-format=") => {}
            Some(b'-') => {}
            Some(b'0'..=b'9' | b'a'..=b'f') => refs.push(text.split(' ').next().unwrap_or_default().to_owned()),
            Some(_) => return Err(format!("it has the line {text:?}")),
        }
    }
    if refs != [commit] {
        return Err(format!(
            "it holds {} and not {commit}",
            if refs.is_empty() { "nothing".to_owned() } else { refs.join(", ") }
        ));
    }
    Ok(begin)
}
