//! The store's clock, estimated without asking the store.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Follows the store's clock: starts at the store's latest answer, and continues by this machine's monotonic clock.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// The store's time when this clock started, according to the latest answer.
    start_ms: AtomicU64,
}

impl Clock {
    /// Starts a clock at the store's current time.
    pub fn starting_at(now_ms: u64) -> Self {
        Self { started: Instant::now(), start_ms: AtomicU64::new(now_ms) }
    }

    /// Returns what the store's clock should say now.
    pub fn now_ms(&self) -> u64 {
        self.start_ms.load(Ordering::Relaxed) + self.elapsed_ms()
    }

    /// Takes over the time that the store has just answered.
    pub fn observe(&self, now_ms: u64) {
        self.start_ms.store(now_ms.saturating_sub(self.elapsed_ms()), Ordering::Relaxed);
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
