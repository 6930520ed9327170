//! One checker per promise. A checker sees a history and nothing else.

mod coordination;
mod counts;
mod index;
mod latency;
mod liveness;
mod messages;
mod orders;
pub mod porcupine;
mod promise;
mod store;
#[cfg(test)]
mod testing;

use std::fmt;

pub use counts::{Counts, count};
pub use latency::{Latencies, Latency, latencies};
pub use promise::{PROMISES, Promise, promise_table};

use crate::history::Event;
use index::Index;

/// The durability of an answer that does not promise to outlive a failure of the store.
const APPLIED: &str = "DURABILITY_APPLIED";

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub promise: Promise,
    /// What happened, for a reader.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.detail)
    }
}

/// Returns every violation in a history.
pub fn check(events: &[Event]) -> Vec<Violation> {
    let known = index::doubt(events);
    let index = Index::of(&known, count(events).lost);
    let violations = PROMISES.iter().flat_map(|spec| {
        let details = (spec.checker)(&index);
        details.into_iter().map(|detail| Violation { promise: spec.promise, detail })
    });
    violations.collect()
}
