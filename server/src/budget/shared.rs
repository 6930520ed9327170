//! What all accounts share: rates, sizes, and the memory for calls.

use std::sync::Arc;

use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::{sync::Semaphore, time::Instant};

use super::bounds::{Class, Rates, Shares};

/// Leads and the operator have a reserve of one part in so many of what all share.
const RESERVED_PART: usize = 8;

/// Counts refusals by class.
pub type Refusals = Family<[(&'static str, &'static str); 1], Counter>;

/// What all accounts share.
#[derive(Debug)]
pub(super) struct SharedBudget {
    pub(super) rates: Rates,
    pub(super) shares: Shares,
    pub(super) reading: Pool,
    pub(super) reply_bytes: Pool,
    pub(super) request_bytes: Pool,
    pub(super) strangers_request_bytes: Arc<Semaphore>,
    began: Instant,
    refusals: Refusals,
}

/// Something that all accounts share, and the reserve of leads and the operator.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) shared: Arc<Semaphore>,
    pub(super) reserved: Arc<Semaphore>,
}

impl Pool {
    fn new(size: usize) -> Self {
        Self { shared: semaphore(size), reserved: semaphore(size.div_ceil(RESERVED_PART)) }
    }
}

/// Makes a semaphore of at most as many permits as there can be.
pub(super) fn semaphore(size: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS)))
}

impl SharedBudget {
    pub(super) fn new(rates: Rates, shares: Shares, refusals: Refusals) -> Self {
        for class in Class::ALL {
            drop(refusals.get_or_create(&[("budget", class.name())]));
        }
        Self {
            rates,
            shares,
            reading: Pool::new(shares.reads_max),
            reply_bytes: Pool::new(shares.reply_bytes_max),
            request_bytes: Pool::new(shares.request_bytes_max),
            strangers_request_bytes: semaphore(shares.strangers_request_bytes_max()),
            began: Instant::now(),
            refusals,
        }
    }

    /// Returns the time since the start, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counts a refusal.
    pub(super) fn count(&self, class: Class) {
        self.refusals.get_or_create(&[("budget", class.name())]).inc();
    }
}
