//! The transcript of a member: what its agent was given, wrote and did.
//!
//! The runner appends each entry to files on its machine, which only their owner may read, and answers queries from them
//! ([`read`]). An entry is in its file before the runner acts on it, so a kill loses none. A member has up to
//! [`FILES_MAX`] files of [`FILE_BYTES_MAX`] bytes. What nothing was added to for [`KEPT`] is deleted when a runner
//! starts.

mod entry;
mod reader;
mod writer;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use teamwire_proto::name::Name;

pub use self::reader::read;
pub(crate) use self::{entry::Entry, writer::Transcript};

/// How many bytes a file has at most.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How many files a member has at most.
const FILES_MAX: usize = 8;

/// How long a transcript is kept after its last entry.
const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What the name of a file ends in. It begins with the sequence of the file's first entry.
const SUFFIX: &str = ".jsonl";

/// Returns the directory of a team's transcripts. `root`: that of all transcripts. `None` if the id is none: a coordinator
/// must not choose another directory.
pub fn team_directory(root: &Path, team_id: &str) -> Option<PathBuf> {
    Some(root.join(Name::parse(team_id, "team").ok()?.folded()))
}

/// Returns the directory of a member's transcript. `None` if an id or a name is none.
pub fn directory(root: &Path, team_id: &str, member: &str) -> Option<PathBuf> {
    Some(team_directory(root, team_id)?.join(Name::parse(member, "member").ok()?.folded()))
}

/// Returns the files of a transcript, the oldest first, with the sequence of each one's first entry.
fn files(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let first = |path: &PathBuf| path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.parse::<u64>().ok();
    let found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = found.filter_map(|path| Some((first(&path)?, path))).collect();
    found.sort_unstable();
    Ok(found)
}

/// Deletes the transcripts to which nothing was added for [`KEPT`].
pub(crate) fn prune(root: &Path) {
    for team in subdirectories(root) {
        for member in subdirectories(&team) {
            let newest = files(&member).ok().and_then(|mut files| files.pop());
            let changed = newest.and_then(|(_, path)| fs::metadata(path).ok()?.modified().ok()?.elapsed().ok());
            if changed.is_some_and(|age| age > KEPT) {
                _ = fs::remove_dir_all(&member);
            }
        }
        // Fails as long as it has members.
        _ = fs::remove_dir(&team);
    }
}

fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, time::SystemTime};

    use teamwire_proto::v1::{self, TranscriptKind};

    use super::*;

    fn text(text: impl Into<String>) -> Entry {
        Entry { kind: TranscriptKind::Text, text: text.into(), turn: 1, incarnation: 1, ..Entry::default() }
    }

    fn texts(page: &v1::ReadTranscriptResponse) -> Vec<(u64, &str)> {
        page.entries.iter().map(|entry| (entry.sequence, entry.text.as_str())).collect()
    }

    fn after(after_sequence: u64, page_size: u32) -> v1::ReadTranscriptRequest {
        v1::ReadTranscriptRequest { after_sequence, page_size, ..Default::default() }
    }

    #[test]
    fn entries_are_read_forward_and_backward_and_by_turn() {
        let home = tempfile::tempdir().expect("a directory");
        let transcript = Transcript::open(home.path().join("t"));
        for (turn, incarnation) in [(1, 1), (1, 1), (2, 1), (1, 2)] {
            transcript.add(Entry { turn, incarnation, ..text(format!("{incarnation}.{turn}")) });
        }
        let read = |request: &v1::ReadTranscriptRequest| read(&home.path().join("t"), request).expect("a page");
        let page = read(&after(1, 2));
        assert_eq!(texts(&page), [(2, "1.1"), (3, "1.2")]);
        assert_eq!((page.oldest_sequence, page.newest_sequence), (1, 4));
        let backward = v1::ReadTranscriptRequest { before_sequence: u64::MAX, page_size: 3, ..Default::default() };
        assert_eq!(texts(&read(&backward)), [(2, "1.1"), (3, "1.2"), (4, "2.1")]);
        let turn = |turn, incarnation| v1::ReadTranscriptRequest { turn, incarnation, ..Default::default() };
        assert_eq!(texts(&read(&turn(1, 1))), [(1, "1.1"), (2, "1.1")]);
        assert_eq!(texts(&read(&turn(1, 0))), [(4, "2.1")], "of the newest life");
        assert_eq!(texts(&read(&turn(2, 2))), []);
        assert_eq!(texts(&read(&after(4, 9))), []);
    }

    #[test]
    fn a_torn_line_is_dropped_and_sequences_go_on() {
        let home = tempfile::tempdir().expect("a directory");
        let at = home.path().to_owned();
        Transcript::open(at.clone()).add(text("a"));
        let (_, path) = files(&at).unwrap().pop().unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();
        assert_eq!(texts(&read(&at, &after(0, 9)).unwrap()), [(1, "a")]);
        let transcript = Transcript::open(at.clone());
        transcript.add(text("b"));
        assert_eq!(texts(&read(&at, &after(0, 9)).unwrap()), [(1, "a"), (2, "b")]);
        // A damaged line does not hide those behind it.
        let lines = fs::read_to_string(&path).unwrap();
        fs::write(&path, lines.replacen("{\"sequence\":1", "{\"sequence\":x", 1)).unwrap();
        assert_eq!(texts(&read(&at, &after(0, 9)).unwrap()), [(2, "b")]);
    }

    #[test]
    fn a_transcript_is_bounded_and_only_for_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().expect("a directory");
        let at = directory(home.path(), "team", "Ann").expect("names");
        for (team, member) in
            [("..", "ann"), ("/etc", "ann"), ("", "ann"), ("team", "../ann"), ("a/b", "ann"), ("team", "")]
        {
            assert_eq!(directory(home.path(), team, member), None, "{team} {member}");
        }
        let transcript = Transcript::open(at.clone());
        let long = "\u{1}".repeat(100_000);
        for _ in 0..1_000 {
            transcript.add(text(&*long));
        }
        let kept = files(&at).unwrap();
        let bytes: u64 = kept.iter().map(|(_, path)| fs::metadata(path).unwrap().len()).sum();
        assert!(kept.len() == FILES_MAX && bytes <= FILES_MAX as u64 * FILE_BYTES_MAX, "{bytes}");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&at), mode(&kept[0].1)), (0o700, 0o600));
        let page = read(&at, &after(0, 1_000)).unwrap();
        assert_eq!((page.oldest_sequence, page.newest_sequence), (kept[0].0, 1_000));
        assert!(page.entries.len() < 10 && page.entries[0].text.len() <= 16 * 1024, "a page is bounded, too");
        assert_eq!(page.entries[0].sequence, kept[0].0);
        let backward = v1::ReadTranscriptRequest { before_sequence: u64::MAX, page_size: 2, ..Default::default() };
        let newest = read(&at, &backward).unwrap();
        assert_eq!(newest.entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [999, 1_000]);
    }

    #[test]
    fn old_transcripts_are_deleted() {
        let home = tempfile::tempdir().expect("a directory");
        for member in ["old", "new"] {
            Transcript::open(directory(home.path(), "team", member).expect("names")).add(text("a"));
        }
        let [old, new] = ["old", "new"].map(|member| directory(home.path(), "team", member).expect("names"));
        let (_, path) = files(&old).unwrap().pop().unwrap();
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - KEPT * 2).unwrap();
        prune(home.path());
        assert!(!old.exists() && new.exists());
    }
}
