//! Reads pages of a transcript from its files.

use std::{
    collections::VecDeque,
    fs, io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use prost::Message as _;
use teamwire_proto::v1;

use super::{entry::Line, files};

/// How many bytes the entries of a page have.
const PAGE_BYTES_MAX: usize = 128 * 1024;

/// How many entries a page has when the request does not say.
const PAGE_SIZE_DEFAULT: u32 = 100;

/// Reads a page of the transcript in a directory. Does not wait for an entry. A directory without files has an empty
/// transcript.
pub fn read(directory: &Path, request: &v1::ReadTranscriptRequest) -> io::Result<v1::ReadTranscriptResponse> {
    let files = files(directory)?;
    let newest = files.iter().rev().find_map(|(_, path)| Lines::of(path).within(0..=u64::MAX).next_back());
    let size = if request.page_size == 0 { PAGE_SIZE_DEFAULT } else { request.page_size };
    let of_turn = (request.turn > 0).then(|| match request.incarnation {
        0 => (newest.as_ref().map_or(0, |newest| newest.incarnation), request.turn),
        incarnation => (incarnation, request.turn),
    });
    let mut page = Page { of_turn, size: size as usize, entries: VecDeque::new(), bytes: 0 };
    match request.before_sequence {
        0 => page.forward(&files, request.after_sequence),
        before => page.backward(&files, request.after_sequence, before),
    }
    Ok(v1::ReadTranscriptResponse {
        entries: page.entries.into(),
        oldest_sequence: if newest.is_some() { files.first().map_or(0, |(first, _)| *first) } else { 0 },
        newest_sequence: newest.map_or(0, |newest| newest.sequence),
    })
}

/// A page that is being filled.
struct Page {
    /// The life and the turn to which its entries belong. `None`: any.
    of_turn: Option<(u64, u64)>,
    size: usize,
    entries: VecDeque<v1::TranscriptEntry>,
    bytes: usize,
}

impl Page {
    fn forward(&mut self, files: &[(u64, PathBuf)], after: u64) {
        for (place, (_, path)) in files.iter().enumerate() {
            let is_before = files.get(place + 1).is_some_and(|(next, _)| *next <= after.saturating_add(1));
            if is_before {
                continue;
            }
            for line in Lines::of(path).within(after.saturating_add(1)..=u64::MAX) {
                if !self.add(line, VecDeque::push_back) {
                    return;
                }
            }
        }
    }

    fn backward(&mut self, files: &[(u64, PathBuf)], after: u64, before: u64) {
        for (_, path) in files.iter().rev().filter(|(first, _)| *first < before) {
            for line in Lines::of(path).within(after.saturating_add(1)..=before - 1).rev() {
                if !self.add(line, VecDeque::push_front) {
                    return;
                }
            }
        }
    }

    /// Adds an entry if it belongs to the page. `false`: the page is full.
    fn add(&mut self, line: Line, put: fn(&mut VecDeque<v1::TranscriptEntry>, v1::TranscriptEntry)) -> bool {
        if self.of_turn.is_some_and(|turn| turn != (line.incarnation, line.turn)) {
            return true;
        }
        let entry = line.show();
        let bytes = self.bytes + entry.encoded_len();
        let fits = self.entries.is_empty() || (self.entries.len() < self.size && bytes <= PAGE_BYTES_MAX);
        if fits {
            self.bytes = bytes;
            put(&mut self.entries, entry);
        }
        fits
    }
}

/// What a file holds. Damaged lines are left out.
struct Lines(Vec<u8>);

impl Lines {
    /// Reads a file, which is bounded. It may have been deleted meanwhile.
    fn of(path: &Path) -> Self {
        Self(fs::read(path).unwrap_or_default())
    }

    /// Returns the entries whose sequence is in this range. Parses only those that are taken.
    fn within(&self, sequences: RangeInclusive<u64>) -> impl DoubleEndedIterator<Item = Line> {
        let lines = self.0.split(|byte| *byte == b'\n');
        let within = lines.filter(move |line| sequence_of(line).is_some_and(|sequence| sequences.contains(&sequence)));
        within.filter_map(|line| serde_json::from_slice(line).ok())
    }
}

/// Returns the sequence that a line begins with.
fn sequence_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"sequence\":")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}
