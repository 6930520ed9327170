//! How many records are read at once, so that what is read fits into memory, whatever its size; and how many for one
//! page, so that a search that finds little ends.

use crate::domain::page::{SEARCHED_BYTES_MAX, SEARCHED_MAX};

/// How many bytes the records of a batch should have.
const BYTES: usize = 1 << 20;

/// How many records are read before it is known how large they are.
const START: usize = 16;

/// How many records are read at once at most.
const RECORDS_MAX: usize = 128;

/// The size of the next batch, which follows the size of the records in the last one, and at most doubles.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    size: usize,
    /// How many records were read so far, and their bytes.
    read: (usize, usize),
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// Starts with few records.
    pub fn new() -> Self {
        Self { size: START, read: (0, 0) }
    }

    /// Returns how many records to read.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns whether enough was read for one page.
    pub fn is_enough(&self) -> bool {
        self.read.0 >= SEARCHED_MAX || self.read.1 >= SEARCHED_BYTES_MAX
    }

    /// Notes that so many records had so many bytes.
    pub fn had(&mut self, records: usize, bytes: usize) {
        self.read = (self.read.0 + records, self.read.1 + bytes);
        if let Some(mean) = bytes.checked_div(records) {
            let fit = BYTES / mean.max(1);
            self.size = fit.clamp(1, (self.size * 2).min(RECORDS_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_for_small_records_and_shrink_for_large_ones() {
        let mut batch = Batch::new();
        let sizes: Vec<usize> = [100, 100, 100, 64 << 10, 8 << 20, 100, 0]
            .into_iter()
            .map(|bytes| {
                batch.had(batch.size(), batch.size() * bytes);
                batch.size()
            })
            .collect();
        assert_eq!(sizes, [32, 64, 128, 16, 1, 2, 4]);
        batch.had(0, 0);
        assert_eq!(batch.size(), 4);
    }
}
