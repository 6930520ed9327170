//! Of what all accounts have a part.

use std::sync::Arc;

use prometheus_client::metrics::{counter::Counter, family::Family};
use tokio::{sync::Semaphore, time::Instant};

use super::bounds::{Class, Rates, Shares};

/// Of what all share, one part of so many more is for leads and the operator.
const LANE: usize = 8;

/// Counts refusals by class.
pub type Refusals = Family<[(&'static str, &'static str); 1], Counter>;

/// What all accounts share.
#[derive(Debug)]
pub(super) struct SharedBudget {
    pub(super) rates: Rates,
    pub(super) shares: Shares,
    pub(super) reading: Lanes,
    pub(super) reply_bytes: Lanes,
    pub(super) request_bytes: Lanes,
    pub(super) strangers_request_bytes: Arc<Semaphore>,
    began: Instant,
    refusals: Refusals,
}

/// Something of which all have a part, and leads and the operator one more.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) all: Arc<Semaphore>,
    pub(super) leads: Arc<Semaphore>,
}

impl Lanes {
    fn new(size: usize) -> Self {
        Self { all: semaphore(size), leads: semaphore(size.div_ceil(LANE)) }
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
            reading: Lanes::new(shares.reads_max),
            reply_bytes: Lanes::new(shares.reply_bytes_max),
            request_bytes: Lanes::new(shares.request_bytes_max),
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
