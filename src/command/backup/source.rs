//! The backup that is read.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Seek as _},
    path::Path,
};

use flate2::bufread::MultiGzDecoder;
use teamwire_server::store::backup::Reader;

use crate::failure::Failure;

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
        Ok(Reader::new(BufReader::new(MultiGzDecoder::new(BufReader::new(&self.0)))))
    }
}
