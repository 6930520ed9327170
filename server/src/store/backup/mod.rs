//! Backups: a whole store as lines of JSON, and back.
//!
//! - [`format`](self): what a line is. [`write`]: reads a store into lines. [`read`]: checks lines. [`restore`]: writes
//!   them into an empty store of any kind.
//!
//! The first line is a header, the last one a trailer with the numbers of lines of each sort and a checksum, so a file
//! that was cut short or damaged is refused. Compressing them, and keeping them in files, is left to the caller.

mod format;
mod read;
mod restore;
#[cfg(test)]
mod tests;
mod write;

use super::StoreError;

pub use self::{
    format::{Counts, FORMAT, Header},
    read::{Checker, Reader},
    restore::{is_unfinished, restore},
    write::write,
};

/// Why a backup cannot be read or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is damaged, cut short or no backup.
    #[error("{0}")]
    Damaged(String),
    /// The file cannot be read.
    #[error("the backup cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The backup was made by a newer version, in a format that this one does not know.
    #[error("{0}")]
    Newer(String),
    /// The store to restore into holds something.
    #[error("{0}")]
    NotEmpty(String),
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}
