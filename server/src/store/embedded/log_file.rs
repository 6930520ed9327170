//! Where the write-ahead log is, and how it is opened beside the store's file.

use std::{io, path::Path};

use redb::{StorageBackend, backends};

use super::{
    file::{self, Found, StoreFile},
    place::{self, Place},
    wal::{Damage, Recovered, Wal},
};
use crate::store::StoreError;

/// Opens the disk of the log. Given whether it must exist.
pub(super) type LogOpener = Box<dyn Fn(bool) -> io::Result<Opened> + Send>;

/// The open disk of a log.
pub(super) struct Opened {
    pub(super) disk: Box<dyn StorageBackend>,
    /// Where its file is. `None` if it has no file.
    pub(super) place: Option<Place>,
}

/// The log of a store.
pub(super) struct LogFile {
    pub(super) opener: LogOpener,
    pub(super) segment_bytes: u64,
}

impl LogFile {
    /// Opens the log that continues a store's file. Returns `None` if the file says that nothing does.
    pub(super) fn recover(
        &self,
        file: &StoreFile,
        found: Found,
    ) -> Result<Option<(Wal, Option<Place>, Recovered)>, StoreError> {
        if found.log == 0 {
            return Ok(None);
        }
        let name = file.name();
        let opened = (self.opener)(true).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Unusable(format!(
                "{name} was not closed, and the latest changes to it are in {name}.wal, which is missing: put that file back, \
                 restore {name} from a backup, or create an empty {name}.wal to continue without those changes"
            )),
            _ => StoreError::Unavailable(format!("{name}.wal: {error}")),
        })?;
        if opened.disk.len().is_ok_and(|length| length == 0) {
            tracing::warn!(store = name, "the write-ahead log is empty, so changes may be lost");
            return Ok(None);
        }
        match Wal::open(opened.disk, found.log, found.facts) {
            Ok((wal, recovered)) => Ok(Some((wal, opened.place, recovered))),
            Err(Damage::Io(error)) => Err(StoreError::Unavailable(format!("{name}.wal: {error}"))),
            Err(Damage::Foreign(reason)) => Err(StoreError::Unusable(format!("{name}.wal {reason}"))),
            Err(Damage::Torn(reason)) => Err(StoreError::Corrupt(format!("{name}.wal is damaged: {reason}"))),
        }
    }

    /// Begins a log.
    pub(super) fn begin(&self, id: u64) -> io::Result<(Wal, Option<Place>)> {
        let opened = (self.opener)(false)?;
        Ok((Wal::create(opened.disk, id, self.segment_bytes)?, opened.place))
    }
}

/// Returns an opener for the log of the store at `path`.
pub(super) fn on_disk(path: &Path) -> LogOpener {
    let path = place::beside(path, ".wal");
    Box::new(move |must_exist| {
        if must_exist && !path.try_exists()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = file::create(&path)?;
        let place = Some(Place::of(&path, &file)?);
        let disk = backends::FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Opened { disk: Box::new(disk), place })
    })
}

/// Returns an opener for a log in memory.
pub(super) fn in_memory() -> LogOpener {
    Box::new(|_| Ok(Opened { disk: Box::new(backends::InMemoryBackend::new()), place: None }))
}
