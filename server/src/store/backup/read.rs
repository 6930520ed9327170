//! Reads and checks the lines of a backup.

use std::io::{self, BufRead, Read as _};

use super::{
    BackupError,
    format::{Counts, End, FORMAT, Header, Line},
};
use crate::store::{FORMAT_KNOWN, Item};

/// How long a line may be. A record is much smaller.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Checks the lines of a backup, one after the other.
#[derive(Debug, Default)]
pub struct Checker {
    header: Option<Header>,
    counts: Counts,
    hasher: blake3::Hasher,
    lines: u64,
    has_ended: bool,
}

impl Checker {
    /// Checks the next line, including the character that ends it. Returns what it holds, unless it is the first or the
    /// last.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Item>, BackupError> {
        self.lines += 1;
        if self.has_ended {
            return Err(self.damaged("something follows the end"));
        }
        if line.last() != Some(&b'\n') {
            return Err(cut_short());
        }
        if self.header.is_none() {
            self.header = Some(header(line)?);
            self.hasher.update(line);
            return Ok(None);
        }
        let parsed: Line<'_> = serde_json::from_slice(line).map_err(|error| self.damaged(&error.to_string()))?;
        match parsed.decode() {
            None => Err(self.damaged("its contents are not valid")),
            Some(Ok(item)) => {
                let is_first = self.counts.namespaces == 0;
                if is_first && !matches!(item, Item::Namespace { .. }) {
                    return Err(self.damaged("it is in no namespace"));
                }
                self.hasher.update(line);
                self.counts.add(&item);
                Ok(Some(item))
            }
            Some(Err(End { counts, blake3 })) => {
                if counts != self.counts {
                    return Err(self.damaged("lines are missing"));
                }
                if blake3 != self.hasher.finalize().to_hex().as_str() {
                    return Err(self.damaged("the checksum does not match"));
                }
                self.has_ended = true;
                Ok(None)
            }
        }
    }

    /// Checks that the last line has come. Returns the header, and what the backup holds.
    pub fn finish(self) -> Result<(Header, Counts), BackupError> {
        match self.header {
            Some(header) if self.has_ended => Ok((header, self.counts)),
            _ => Err(cut_short()),
        }
    }

    /// Returns what the lines so far hold.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn damaged(&self, why: &str) -> BackupError {
        BackupError::Damaged(format!("the backup is damaged in line {}: {why}. Use another copy", self.lines))
    }
}

fn cut_short() -> BackupError {
    BackupError::Damaged("the backup was cut short: its last line is missing. Use another copy".to_owned())
}

fn header(line: &[u8]) -> Result<Header, BackupError> {
    #[derive(serde::Deserialize)]
    struct Format {
        teamwire_backup: u64,
        release: Option<String>,
    }
    let no_backup = || BackupError::Damaged("this file is not a backup of teamwire".to_owned());
    // A newer header may have other fields.
    let Format { teamwire_backup, release } = serde_json::from_slice(line).map_err(|_| no_backup())?;
    let newer = |format: u64, of: &str, known: u64| {
        BackupError::Newer(format!(
            "the backup was made by teamwire {} in {of} {format}; this version, {}, reads up to {of} {known}. Restore it with that \
             version or a later one",
            release.as_deref().unwrap_or("of a newer version"),
            env!("CARGO_PKG_VERSION")
        ))
    };
    if teamwire_backup > FORMAT {
        return Err(newer(teamwire_backup, "backup format", FORMAT));
    }
    let header: Header = serde_json::from_slice(line).map_err(|_| no_backup())?;
    match header.store_format > FORMAT_KNOWN {
        true => Err(newer(header.store_format, "store format", FORMAT_KNOWN)),
        false => Ok(header),
    }
}

/// Reads a backup item by item.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    checker: Checker,
    line: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads a backup from its uncompressed lines.
    pub fn new(input: R) -> Self {
        Self { input, checker: Checker::default(), line: Vec::new() }
    }

    /// Returns the next item. `None` if the backup is complete and undamaged.
    pub fn next_item(&mut self) -> Result<Option<Item>, BackupError> {
        loop {
            self.line.clear();
            let limited = &mut self.input.by_ref().take(LINE_BYTES_MAX);
            match limited.read_until(b'\n', &mut self.line) {
                Ok(0) if self.checker.has_ended => return Ok(None),
                Ok(0) => return Err(cut_short()),
                Ok(_) => {}
                Err(error) => return Err(unreadable(error, self.checker.has_ended)),
            }
            if let Some(item) = self.checker.line(&self.line)? {
                return Ok(Some(item));
            }
        }
    }

    /// Reads to the end. Returns the header, and what the backup holds.
    pub fn check(mut self) -> Result<(Header, Counts), BackupError> {
        while self.next_item()?.is_some() {}
        self.checker.finish()
    }

    /// Returns what the items so far were.
    pub fn counts(&self) -> Counts {
        self.checker.counts
    }
}

/// Explains what a decompressor says about a damaged file. `has_ended`: it has read the last line.
fn unreadable(error: io::Error, has_ended: bool) -> BackupError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof if has_ended => {
            BackupError::Damaged("the backup was cut short: its last bytes are missing. Use another copy".to_owned())
        }
        io::ErrorKind::UnexpectedEof => cut_short(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            BackupError::Damaged(format!("the backup is damaged, or is no backup: {error}. Use another copy"))
        }
        _ => BackupError::Io(error),
    }
}
