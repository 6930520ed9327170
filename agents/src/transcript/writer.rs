//! Appends entries to the files of a transcript.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    FILE_BYTES_MAX, FILES_MAX, SUFFIX,
    entry::{Entry, Line},
    files,
};

/// How much of the end of a file is read to find its last entry: more than an entry has.
const TAIL_BYTES: u64 = 512 * 1024;

/// A transcript that is being written.
#[derive(Debug)]
pub(crate) struct Transcript {
    directory: PathBuf,
    open: Mutex<io::Result<OpenFile>>,
    /// The sequence of the newest entry.
    newest: watch::Sender<u64>,
}

/// The newest file.
#[derive(Debug)]
struct OpenFile {
    file: File,
    bytes: u64,
}

impl Transcript {
    /// Opens a transcript to go on behind its last entry. If that fails, entries are dropped.
    pub(crate) fn open(directory: PathBuf) -> Self {
        let (open, newest) = match OpenFile::last(&directory) {
            Ok((open, newest)) => (Ok(open), newest),
            Err(error) => {
                tracing::warn!(%error, directory = %directory.display(), "the transcript cannot be written");
                (Err(error), 0)
            }
        };
        Self { directory, open: Mutex::new(open), newest: watch::Sender::new(newest) }
    }

    /// Returns where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the sequence of the newest entry, as it changes.
    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Appends an entry. What cannot be written is dropped, and reported once.
    pub(crate) fn add(&self, entry: Entry) {
        let mut open = self.open.lock();
        let Ok(file) = &mut *open else { return };
        let sequence = *self.newest.borrow() + 1;
        match file.add(&self.directory, &Line::new(sequence, entry)) {
            Ok(()) => {
                self.newest.send_replace(sequence);
            }
            Err(error) => {
                tracing::warn!(%error, directory = %self.directory.display(), "the transcript cannot be written any longer");
                *open = Err(error);
            }
        }
    }
}

impl OpenFile {
    /// Opens the newest file, or the first one. Returns the sequence of its last entry. A line that a kill has left
    /// incomplete is removed.
    fn last(directory: &Path) -> io::Result<(Self, u64)> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let Some((first, path)) = files(directory)?.pop() else {
            return Ok((Self::create(directory, 1)?, 0));
        };
        let mut file = File::options().read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        let tail_at = length.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(tail_at))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let bytes = tail_at + whole as u64;
        if bytes < length {
            file.set_len(bytes)?;
        }
        let lines = tail[..whole].split(|byte| *byte == b'\n').rev();
        let newest =
            lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok()).map(|line| line.sequence).next();
        Ok((Self { file, bytes }, newest.unwrap_or(first - 1)))
    }

    fn create(directory: &Path, first: u64) -> io::Result<Self> {
        let path = directory.join(format!("{first:020}{SUFFIX}"));
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        Ok(Self { file, bytes: 0 })
    }

    fn add(&mut self, directory: &Path, line: &Line) -> io::Result<()> {
        let mut data = serde_json::to_vec(line)?;
        data.push(b'\n');
        if self.bytes > 0 && self.bytes + data.len() as u64 > FILE_BYTES_MAX {
            *self = Self::create(directory, line.sequence)?;
            let old = files(directory)?;
            for (_, path) in &old[..old.len().saturating_sub(FILES_MAX)] {
                fs::remove_file(path)?;
            }
        }
        self.file.write_all(&data)?;
        self.bytes += data.len() as u64;
        Ok(())
    }
}
