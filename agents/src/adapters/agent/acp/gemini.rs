//! Repairs the sessions that Gemini CLI keeps, so that it can resume them any number of times.
//!
//! A Gemini CLI that resumes a session and is killed leaves a second file with the session's id, which has a header and
//! nothing else. Its next start takes that file for the session, finds it damaged, and deletes every file of the
//! session. And one that resumes a session within the minute in which the session began writes its own header into the
//! session's file before it has read it, because the minute and the id make the file's name.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How many characters of a session's id are in the names of its files.
const ID_CHARS: usize = 8;

/// The time in the name of a session's file after which no Gemini CLI names its file.
const LONG_AGO: &str = "2000-01-01T00-00";

/// Removes the files of a session beside its largest one, which gets a name that no later process gives its own. `home`:
/// the user's home directory, as the program sees it.
pub(super) fn keep_one(home: &Path, session: &str) {
    let Some(id) = session.get(..ID_CHARS) else { return };
    for chats in entries(&home.join(".gemini/tmp")).map(|project| project.join("chats")) {
        let mut files: Vec<(u64, PathBuf)> = entries(&chats)
            .filter(|path| is_of_session(path, id))
            .map(|path| (fs::metadata(&path).map_or(0, |metadata| metadata.len()), path))
            .collect();
        files.sort();
        let largest = files.pop();
        if let Some((_, largest)) = largest
            && let Some(extension) = largest.extension()
        {
            let kept = chats.join(format!("session-{LONG_AGO}-{id}")).with_extension(extension);
            if let Err(error) = fs::rename(&largest, &kept) {
                tracing::warn!(%error, path = %largest.display(), "Gemini CLI may not be able to resume its session");
            }
        }
        for (_, smaller) in files {
            if let Err(error) = fs::remove_file(&smaller) {
                tracing::warn!(%error, path = %smaller.display(), "Gemini CLI may not be able to resume its session");
            }
        }
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_of_session(path: &Path, id: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = [format!("-{id}.json"), format!("-{id}.jsonl")];
    name.starts_with("session-") && ends.iter().any(|end| name.ends_with(end.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_file_of_the_session_stays_under_its_own_name() {
        let home = tempfile::tempdir().expect("a directory");
        let chats = home.path().join(".gemini/tmp/app/chats");
        fs::create_dir_all(&chats).expect("created");
        let write = |name: &str, text: &str| fs::write(chats.join(name), text).expect("written");
        write("session-2026-11-27T12-50-01a2b3c4.jsonl", "header\nmessages");
        write("session-2026-11-27T12-52-01a2b3c4.jsonl", "header");
        write("session-2026-11-27T12-53-01a2b3c4.json", "");
        write("session-2026-11-27T12-53-ffffffff.jsonl", "h");
        write("notes-01a2b3c4.json", "");
        keep_one(home.path(), "01a2b3c4-0000-7000-8000-000000000000");
        keep_one(home.path(), "01a2b3c4-0000-7000-8000-000000000000");
        let mut left: Vec<String> =
            entries(&chats).map(|path| path.file_name().expect("a name").display().to_string()).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "notes-01a2b3c4.json",
                "session-2000-01-01T00-00-01a2b3c4.jsonl",
                "session-2026-11-27T12-53-ffffffff.jsonl"
            ]
        );
        keep_one(home.path(), "short");
    }
}
