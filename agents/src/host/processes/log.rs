//! The log of a member: the output of its runner and its program. Its size is bounded.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use bytesize::ByteSize;

/// How large a log may get before the host rotates it, and how much of its end it then keeps.
const BYTES_MAX: u64 = ByteSize::mib(8).as_u64();

/// How many bytes of a log a reason quotes.
const QUOTED_BYTES: u64 = 3_000;

/// How many lines of a log a reason quotes.
const QUOTED_LINES: usize = 20;

/// The log of a member.
#[derive(Clone, Debug)]
pub(super) struct Log {
    path: PathBuf,
}

impl Log {
    pub(super) fn of(state: &Path, member: &str) -> Self {
        Self { path: state.join("logs").join(format!("{member}.log")) }
    }

    /// Returns the path of its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for a runner. Returns the file and its current length.
    pub(super) fn open(&self) -> io::Result<(File, u64)> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        self.bound();
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }

    /// Rotates the log if it is too large, and replaces the log that was rotated before.
    pub(super) fn bound(&self) {
        if fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > BYTES_MAX) {
            // The runner keeps appending to the same file.
            if let Err(error) = self.rotate() {
                tracing::warn!(%error, "a log cannot be bounded");
            }
        }
    }

    /// Keeps the last lines of the log in another file, and empties it.
    fn rotate(&self) -> io::Result<()> {
        let mut log = BufReader::new(OpenOptions::new().read(true).write(true).open(&self.path)?);
        let length = log.get_ref().metadata()?.len();
        if length > BYTES_MAX {
            log.seek(SeekFrom::Start(length - BYTES_MAX))?;
            // The rest of a line whose beginning is left out.
            log.skip_until(b'\n')?;
        }
        let mut kept = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path.with_extension("log.1"))?;
        // A line that is longer than the bound leaves nothing.
        io::copy(&mut log.by_ref().take(BYTES_MAX), &mut kept)?;
        log.get_ref().set_len(0)
    }

    /// Returns the last lines that were written after the log had a given length.
    pub(super) fn last_lines(&self, after: u64) -> Vec<String> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            let after = if after > length { 0 } else { after };
            let start = after.max(length.saturating_sub(QUOTED_BYTES));
            file.seek(SeekFrom::Start(start))?;
            let mut bytes = Vec::new();
            file.take(QUOTED_BYTES).read_to_end(&mut bytes)?;
            // Up to three bytes of a character whose beginning is left out.
            let is_rest = |byte: &&u8| start > after && **byte & 0b1100_0000 == 0b1000_0000;
            let rest = bytes.iter().take(3).take_while(is_rest).count();
            Ok(bytes.split_off(rest))
        };
        let bytes = read().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
        let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_log_is_bounded_and_its_end_is_quoted() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = Log::of(directory.path(), "backend");
        let (mut file, length) = log.open().expect("opened");
        assert_eq!(length, 0);
        writeln!(file, "first\n\n\u{1b}[1mlast").expect("written");
        assert_eq!(log.last_lines(0), ["first", "[1mlast"]);
        assert_eq!(log.last_lines(6), ["[1mlast"]);

        file.write_all(&vec![b'x'; usize::try_from(BYTES_MAX).expect("a size")]).expect("written");
        log.bound();
        assert_eq!(fs::metadata(&log.path).expect("there").len(), 0);
        writeln!(file, "goes on").expect("written");
        assert_eq!(log.last_lines(BYTES_MAX), ["goes on"]);
    }

    #[test]
    fn a_log_that_grows_all_at_once_is_bounded_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = Log::of(directory.path(), "loud");
        let (mut file, _) = log.open().expect("opened");
        let line = "a line of forty characters, and its end\n";
        let lines = 5 * usize::try_from(BYTES_MAX).expect("a size") / line.len();
        file.write_all(line.repeat(lines).as_bytes()).expect("written");
        writeln!(file, "last").expect("written");
        log.bound();
        assert_eq!(fs::metadata(&log.path).expect("there").len(), 0);
        let kept = fs::read_to_string(directory.path().join("logs/loud.log.1")).expect("text");
        assert!(kept.len() as u64 <= BYTES_MAX && kept.len() as u64 > BYTES_MAX - 100, "{}", kept.len());
        assert!(kept.starts_with(line) && kept.ends_with("and its end\nlast\n"));
    }
}
