//! The write-ahead log: a file beside the store's, in which commits are durable before the store's file has them.
//!
//! The log has two segments of a fixed size. Commits go to one of them. When it is full, the other becomes the current
//! one, and the checkpointer writes the changes of the full one to the store's file, so that the segment can be used
//! again. Each record is one commit. Its checksum covers the log's id and a sequence without gaps, so that what is left
//! of earlier uses of a segment never counts.
//!
//! A record that a crash interrupted is the last one, and was not acknowledged. If a record is damaged but a later one
//! exists, the log is damaged, and is refused: the later record was only written once the earlier one was on the disk.
//!
//! A commit that drops a namespace, or is too large for a segment, is not logged: the writer writes it to the store's
//! file, with everything that is in the log.

use std::io;

use bytes::{Buf as _, Bytes};
use redb::StorageBackend;

use super::{
    changes::{Changes, Facts},
    tables::Table,
};

/// The size of a segment. What is in both must fit into the [reserve](super::reserve) twice.
pub(super) const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// The size of the header.
const HEADER_BYTES: u64 = 4 * 1024;

/// What a log begins with. Its id and the size of a segment follow, then the checksum of all.
const MAGIC: &[u8] = b"teamwire write-ahead log 1\n";

/// A segment is extended by this many zeros, so that a commit rarely changes the file's size: the file system would
/// have to log that as well.
const EXTENSION_BYTES: u64 = 64 * 1024;

/// What a disk writes at once. Each record begins a new sector, so that writing it puts none before it at risk.
const SECTOR_BYTES: usize = 512;

/// The parts of a record before its changes: checksum, length of the changes, the log's id, facts.
const FRONT_BYTES: usize = 4 + 4 + 4 * 8;

/// Stands for the length of the value of a removed key.
const REMOVED: u32 = u32::MAX;

/// Why a record was not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// It is not in the log.
    Writing(io::Error),
    /// It may or may not be durable.
    Flushing(io::Error),
}

/// Why a log cannot be used.
#[derive(Debug)]
pub(super) enum Damage {
    Io(io::Error),
    /// It does not continue the store's file.
    Foreign(&'static str),
    /// Acknowledged commits in it cannot be read.
    Torn(String),
}

impl From<io::Error> for Damage {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What a log holds beyond the store's file.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// The changes of the segment that is not current.
    pub(super) frozen: Changes,
    /// The changes of the current segment.
    pub(super) active: Changes,
    /// The facts after the changes of `frozen`, and after all.
    pub(super) frozen_facts: Facts,
    pub(super) facts: Facts,
}

/// An open log.
#[derive(Debug)]
pub(super) struct Wal {
    disk: Box<dyn StorageBackend>,
    id: u64,
    segment_bytes: u64,
    /// The current segment.
    current: usize,
    /// Where in it the next record goes.
    at: u64,
    /// How much of each segment the file has.
    extended: [u64; 2],
}

impl Wal {
    /// Begins an empty log with a new id. Reuses the space of an earlier one, whose records no longer count.
    pub(super) fn create(disk: Box<dyn StorageBackend>, id: u64, segment_bytes: u64) -> io::Result<Self> {
        let length = disk.len()?;
        let extended =
            [0, 1].map(|segment| whole(length.saturating_sub(HEADER_BYTES + segment * segment_bytes), segment_bytes));
        let mut wal = Self { disk, id, segment_bytes, current: 0, at: 0, extended };
        if length < HEADER_BYTES {
            wal.disk.set_len(HEADER_BYTES)?;
        }
        if extended[0] == 0 {
            wal.extend(0)?;
        }
        wal.disk.write(0, &header(id, segment_bytes))?;
        wal.disk.sync_data()?;
        Ok(wal)
    }

    /// Opens the log with an id, which continues a store's file with these facts.
    pub(super) fn open(disk: Box<dyn StorageBackend>, id: u64, facts: Facts) -> Result<(Self, Recovered), Damage> {
        let length = disk.len()?;
        let read = |from: u64, bytes: u64| -> io::Result<Vec<u8>> {
            let bytes = length.saturating_sub(from).min(bytes);
            let mut contents = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            disk.read(from, &mut contents)?;
            Ok(contents)
        };
        let Some((found, segment_bytes)) = read_header(&read(0, HEADER_BYTES)?) else {
            return Err(Damage::Torn("its header cannot be read".to_owned()));
        };
        if found != id {
            return Err(Damage::Foreign("is the log of another store, or of an earlier state of it"));
        }
        let segment = |number| read(HEADER_BYTES + number * segment_bytes, segment_bytes).map(Bytes::from);
        let contents = [segment(0)?, segment(1)?];
        let extended = [0, 1].map(|segment| contents[segment].len() as u64);
        let (recovered, current, at) = recover(&contents, id, facts)?;
        let extended = extended.map(|bytes| whole(bytes, segment_bytes));
        if extended[current] < at as u64 {
            // Nothing is written into an extension that is not on the disk.
            return Err(Damage::Torn(format!("it is cut short, to {length} bytes")));
        }
        // What a killed process wrote may not be on the disk yet, and is about to be relied on.
        disk.sync_data()?;
        Ok((Self { disk, id, segment_bytes, current, at: at as u64, extended }, recovered))
    }

    /// Returns whether the current segment has room for a record of this many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.at + bytes as u64 <= self.segment_bytes
    }

    /// Returns whether an empty segment has room for a record of this many bytes.
    pub(super) fn can_hold(&self, bytes: usize) -> bool {
        bytes as u64 <= self.segment_bytes
    }

    /// Returns the record of a commit. `facts`: those after it.
    pub(super) fn record(&self, changes: &Changes, facts: Facts) -> Vec<u8> {
        let mut record = vec![0; FRONT_BYTES];
        for table in Table::ALL {
            for (key, change) in changes.of(table) {
                record.push(table.number());
                record.extend_from_slice(&length(key.len()).to_le_bytes());
                let value = change.as_ref();
                record.extend_from_slice(&value.map_or(REMOVED, |value| length(value.len())).to_le_bytes());
                record.extend_from_slice(key);
                record.extend_from_slice(value.map_or(&[], |value| value));
            }
        }
        let bytes = length(record.len() - FRONT_BYTES);
        record[4..8].copy_from_slice(&bytes.to_le_bytes());
        let numbers = [self.id, facts.logged, facts.version, facts.clock_ms];
        record[8..FRONT_BYTES].copy_from_slice(numbers.map(u64::to_le_bytes).as_flattened());
        let sum = crc32fast::hash(&record[4..]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
        record.resize(record.len().next_multiple_of(SECTOR_BYTES), 0);
        record
    }

    /// Appends a record for which the current segment has room, and flushes it to the disk.
    pub(super) fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        let end = self.at + record.len() as u64;
        if self.extended[self.current] < end {
            self.extend(end).map_err(AppendError::Writing)?;
        }
        self.disk.write(self.position(self.at), record).map_err(AppendError::Writing)?;
        self.disk.sync_data().map_err(AppendError::Flushing)?;
        self.at = end;
        Ok(())
    }

    /// Continues in the other segment. The store's file must have everything that is in it.
    pub(super) fn switch(&mut self) {
        self.current = 1 - self.current;
        self.at = 0;
    }

    /// Continues at the beginning of the current segment. The store's file must have everything.
    pub(super) fn restart(&mut self) {
        self.at = 0;
    }

    fn position(&self, at: u64) -> u64 {
        HEADER_BYTES + self.current as u64 * self.segment_bytes + at
    }

    /// Extends the current segment to at least `end`.
    fn extend(&mut self, end: u64) -> io::Result<()> {
        let from = self.extended[self.current];
        let to = end.next_multiple_of(EXTENSION_BYTES).max(EXTENSION_BYTES).min(self.segment_bytes);
        let zeros = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(0)];
        let position = self.position(from);
        // A backend need not write beyond its end.
        let length = position + zeros.len() as u64;
        if self.disk.len()? < length {
            self.disk.set_len(length)?;
        }
        self.disk.write(position, &zeros)?;
        // Otherwise a length that is not a multiple would not show that the file was cut.
        self.disk.sync_data()?;
        self.extended[self.current] = to;
        Ok(())
    }
}

/// Returns how much of a segment was extended, if the file has this much of it. An extension may be incomplete, or cut.
fn whole(bytes: u64, segment_bytes: u64) -> u64 {
    if bytes < segment_bytes { bytes / EXTENSION_BYTES * EXTENSION_BYTES } else { segment_bytes }
}

fn header(id: u64, segment_bytes: u64) -> Vec<u8> {
    let mut header = [MAGIC, &id.to_le_bytes(), &segment_bytes.to_le_bytes()].concat();
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    header
}

/// Returns the id and the size of a segment.
fn read_header(found: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = found.strip_prefix(MAGIC)?;
    let (id, segment_bytes) = (numbers.try_get_u64_le().ok()?, numbers.try_get_u64_le().ok()?);
    found.starts_with(&header(id, segment_bytes)).then_some((id, segment_bytes))
}

/// Returns a length as it is stored. Keys, values and records are far smaller.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(REMOVED - 1)
}

/// A record that was read.
struct Read {
    facts: Facts,
    changes: Bytes,
    /// Where the next one begins.
    end: usize,
}

/// Finds out what a log holds beyond a store's file, and where it continues: in which segment, and where in that.
fn recover(contents: &[Bytes; 2], id: u64, facts: Facts) -> Result<(Recovered, usize, usize), Damage> {
    let mut recovered = Recovered { frozen_facts: facts, facts, ..Recovered::default() };
    let mut segments = [0, 1].map(|segment| (segment, records(&contents[segment], id)));
    let first = |records: &[Read]| records.first().map_or(u64::MAX, |read| read.facts.logged);
    segments.sort_by_key(|(_, records)| first(records));
    let (mut current, mut at) = (0, 0);
    for (segment, records) in segments {
        let is_next = |read: &&Read| read.facts.logged > facts.logged;
        if records.iter().find(is_next).is_some_and(|read| read.facts.logged == recovered.facts.logged + 1) {
            recovered.frozen = std::mem::take(&mut recovered.active);
            recovered.frozen_facts = recovered.facts;
            for read in records.iter().filter(is_next) {
                recovered.active.extend(changes(read.changes.clone())?);
                recovered.facts = read.facts;
            }
        }
        if let Some(last) = records.last().filter(|last| last.facts.logged == recovered.facts.logged) {
            (current, at) = (segment, last.end);
        }
    }
    let reached = recovered.facts.logged;
    let is_later = |read: &Read| read.facts.logged > reached;
    if let Some(later) = contents.iter().find_map(|contents| find(contents, id, is_later)) {
        let (lost, found) = (reached + 1, later.facts.logged);
        return Err(Damage::Torn(format!("record {lost} is missing or cannot be read, but record {found} is there")));
    }
    Ok((recovered, current, at))
}

/// Returns the records from the beginning of a segment up to the first that does not follow the one before it.
fn records(segment: &Bytes, id: u64) -> Vec<Read> {
    let (mut at, mut found) = (0, Vec::<Read>::new());
    while let Some(read) = read(segment, at, id) {
        if found.last().is_some_and(|last| read.facts.logged != last.facts.logged + 1) {
            break;
        }
        at = read.end;
        found.push(read);
    }
    found
}

/// Finds a record anywhere in a segment.
fn find(segment: &Bytes, id: u64, is_wanted: impl Fn(&Read) -> bool) -> Option<Read> {
    (0..segment.len()).step_by(SECTOR_BYTES).filter_map(|at| read(segment, at, id)).find(is_wanted)
}

/// Reads the record at a place of a segment. `None` if there is none, or a damaged one.
fn read(segment: &Bytes, at: usize, id: u64) -> Option<Read> {
    let mut front = segment.get(at..at + FRONT_BYTES)?;
    let (sum, bytes) = (front.get_u32_le(), front.get_u32_le());
    let [found, logged, version, clock_ms] = [0; 4].map(|_: u64| front.get_u64_le());
    let end = (at + FRONT_BYTES).checked_add(usize::try_from(bytes).ok()?)?;
    let record = segment.get(at + 4..end)?;
    let is_whole = found == id && crc32fast::hash(record) == sum;
    is_whole.then(|| Read {
        facts: Facts { version, clock_ms, logged },
        changes: segment.slice(at + FRONT_BYTES..end),
        end: end.next_multiple_of(SECTOR_BYTES),
    })
}

/// Reads the changes of a record.
fn changes(mut record: Bytes) -> Result<Changes, Damage> {
    let damaged = || Damage::Torn("a record cannot be understood".to_owned());
    let mut changes = Changes::default();
    while !record.is_empty() {
        let number = record.try_get_u8().map_err(|_| damaged())?;
        let key = record.try_get_u32_le().map_err(|_| damaged())? as usize;
        let value = record.try_get_u32_le().map_err(|_| damaged())?;
        let value = (value != REMOVED).then_some(value as usize);
        let table = Table::of_number(number).ok_or_else(damaged)?;
        if record.len() < key.saturating_add(value.unwrap_or(0)) {
            return Err(damaged());
        }
        let key = record.split_to(key);
        // Copied, so that one small value does not keep a whole segment in memory.
        changes.set(table, &key, value.map(|value| Bytes::copy_from_slice(&record.split_to(value))));
    }
    Ok(changes)
}
