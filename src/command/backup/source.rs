//! The backup that is read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Read, Seek as _},
    path::Path,
};

use flate2::bufread::GzDecoder;
use teamwire_server::store::backup::Reader;

use crate::failure::Failure;

/// The first byte of a member of a gzip file.
const GZIP_MAGIC: u8 = 0x1f;

/// A backup that can be read several times.
pub(super) struct Source(File);

impl Source {
    /// Opens a backup. Copies standard input, named `-`, to a temporary file without a name.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path != Path::new("-") {
            let file = File::open(path);
            let cannot = |error| Failure::usage(format!("Cannot open {}: {error}.", path.display()));
            return file.map(Self).map_err(cannot);
        }
        let mut input = io::stdin().lock();
        if input.is_terminal() {
            return Err(Failure::usage("A backup does not come from a terminal: name a file, or redirect the input."));
        }
        let copied = tempfile::tempfile().and_then(|mut file| io::copy(&mut input, &mut file).map(|_| Self(file)));
        copied.map_err(|error| Failure::local("Cannot copy standard input to a temporary file (TMPDIR)", error))
    }

    /// Reads it from its beginning.
    pub(super) fn read(&self) -> Result<Reader<impl BufRead + '_>, Failure> {
        (&self.0).rewind().map_err(|error| Failure::local("Cannot read the backup", error))?;
        Ok(Reader::new(BufReader::new(Gunzip::new(BufReader::new(&self.0)))))
    }
}

/// The contents of a gzip file. Unlike flate2's `MultiGzDecoder`, it tells a file that was cut short from one with
/// bytes after its last member.
struct Gunzip<R> {
    /// `None` only while the next member begins.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    fn new(file: R) -> Self {
        Self { member: Some(GzDecoder::new(file)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let length = member.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            match member.get_mut().fill_buf()?.first().copied() {
                None => break,
                Some(GZIP_MAGIC) => self.member = self.member.take().map(|member| GzDecoder::new(member.into_inner())),
                Some(_) => return Err(io::Error::other("other bytes follow its end. Use another copy")),
            }
        }
        Ok(0)
    }
}
