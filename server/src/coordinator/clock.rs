//! The store's clock, as far as it can be known without asking.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Follows the store's clock: takes what the store last said, and goes on by this machine's monotonic clock.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// What the store's clock said when this one started, by the latest answer.
    start_ms: AtomicU64,
}

impl Clock {
    /// Starts a clock at what the store says now.
    pub fn starting_at(now_ms: u64) -> Self {
        Self { started: Instant::now(), start_ms: AtomicU64::new(now_ms) }
    }

    /// Returns what the store's clock should say now.
    pub fn now_ms(&self) -> u64 {
        self.start_ms.load(Ordering::Relaxed) + self.elapsed_ms()
    }

    /// Takes over what the store has just said.
    pub fn observe(&self, now_ms: u64) {
        self.start_ms.store(now_ms.saturating_sub(self.elapsed_ms()), Ordering::Relaxed);
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
