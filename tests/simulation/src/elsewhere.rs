//! Replaces `determinism` on systems other than Linux, where no simulation runs.

use std::time::Duration;

/// Panics.
pub(crate) fn install(_seed: u64) {
    panic!("a simulation replaces two functions of Linux's C library: run it on Linux");
}

/// Does nothing.
pub(crate) fn advance(_to: Duration) {}
