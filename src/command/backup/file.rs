//! The file that holds a backup.

use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use indicatif::ProgressBar;
use nix::unistd::geteuid;
use teamwire_server::store::backup::{Checker, Counts, Header};
use tempfile::NamedTempFile;

use super::{failed, summary};
use crate::{
    context::directory_of,
    failure::{Failure, REFUSED},
};

/// Where a backup goes.
enum Target {
    /// A file with a temporary name beside its later one, which only its owner can read.
    File(NamedTempFile, PathBuf, bool),
    Stdout(io::Stdout),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file, ..) => file.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file, ..) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

/// A backup that is being written. Checks every line.
pub(super) struct BackupFile {
    out: GzEncoder<BufWriter<Target>>,
    checker: Checker,
    progress: Progress,
}

impl BackupFile {
    /// Begins a file, or standard output if it is named `-`. With `force`, a file of this name is replaced in the end.
    pub(super) fn create(name: &str, force: bool, shows_progress: bool) -> Result<Self, Failure> {
        let target = if name == "-" {
            if io::stdout().is_terminal() {
                return Err(Failure::usage("A backup is no text for a terminal: name a file, or redirect the output."));
            }
            Target::Stdout(io::stdout())
        } else {
            let mut path = PathBuf::from(name);
            if path.exists() && !force {
                return Err(exists(&path));
            }
            // A file that a link of ours names is replaced, not the link.
            if is_link_of_ours(&path)?
                && let Ok(linked) = fs::canonicalize(&path)
            {
                path = linked;
            }
            if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
                return Err(Failure::usage(format!(
                    "{} is not a regular file. Name a file, or redirect the output: `teamwire backup - > {0}`.",
                    path.display()
                )));
            }
            let file = tempfile::Builder::new().prefix(".teamwire-backup-").tempfile_in(directory_of(&path));
            let file = file.map_err(|error| cannot_write(&path, error))?;
            Target::File(file, path, force)
        };
        let out = GzEncoder::new(BufWriter::new(target), Compression::default());
        Ok(Self { out, checker: Checker::default(), progress: Progress::new(shows_progress) })
    }

    /// Adds lines.
    pub(super) fn push(&mut self, lines: &[u8]) -> Result<(), Failure> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.checker.line(line).map_err(failed)?;
        }
        self.progress.show("Backed up", self.checker.counts());
        self.out.write_all(lines).map_err(|error| Failure::local("Cannot write the backup", error))
    }

    /// Gives the file its name, once it is complete and on the disk. Returns what it holds, and its size.
    pub(super) fn finish(self) -> Result<(Header, Counts, u64), Failure> {
        let (header, counts) = self
            .checker
            .finish()
            .map_err(|_| Failure::with_code(REFUSED, "The backup broke off, so nothing was kept. Try again."))?;
        let cannot = |error: io::Error| Failure::local("Cannot write the backup", error);
        let mut buffered = self.out.finish().map_err(cannot)?;
        buffered.flush().map_err(cannot)?;
        let target = buffered.into_inner().map_err(|error| cannot(error.into_error()))?;
        let Target::File(file, path, force) = target else { return Ok((header, counts, 0)) };
        file.as_file().sync_all().map_err(cannot)?;
        let bytes = file.as_file().metadata().map_err(cannot)?.len();
        let kept = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        kept.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => cannot_write(&path, error.error),
        })?;
        File::open(directory_of(&path)).and_then(|directory| directory.sync_all()).map_err(cannot)?;
        Ok((header, counts, bytes))
    }
}

/// Returns whether a link is there. Fails if another user has made it: it could name any file of this one.
fn is_link_of_ours(path: &Path) -> Result<bool, Failure> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(false) };
    let is_ours = found.uid() == 0 || found.uid() == geteuid().as_raw();
    if is_ours || !found.is_symlink() {
        return Ok(found.is_symlink());
    }
    Err(Failure::usage(format!("{} is a link of another user. Name another file.", path.display())))
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!("{} exists. Choose another name, or replace it with --force.", path.display()))
}

fn cannot_write(path: &Path, error: io::Error) -> Failure {
    Failure::local(&format!("Cannot write {}", path.display()), error)
}

/// The line that says how far a command has got, on a terminal.
pub(super) struct Progress {
    line: ProgressBar,
}

impl Progress {
    pub(super) fn new(is_shown: bool) -> Self {
        Self { line: if is_shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() } }
    }

    /// Shows what was done so far.
    pub(super) fn show(&self, done: &str, counts: Counts) {
        if !self.line.is_hidden() {
            self.line.set_message(format!("{done} {}", summary(&counts)));
            self.line.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
