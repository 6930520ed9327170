//! How fast a member may send.
//!
//! Sends are counted by the presented credential, including the operator's, so that no caller can use up another's
//! rate. Each coordinator counts separately: a member that sends through several of them may send at the full rate
//! through each. A repeated send counts again, whether or not the first was carried out.

use std::{num::NonZeroU32, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    state::keyed::HashMapStateStore,
};
use teamwire_proto::{Reason, Refusal};

use crate::domain::secret::SecretHash;

/// How many credentials are counted before those whose burst is fully replenished are dropped. That takes a fraction of
/// a second after a credential's last send, so few more are ever kept.
const COUNTED_MAX: usize = 16_384;

/// How fast each credential may send. A burst may be sent at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Messages of any kind, including broadcasts. 50 a second.
    pub sends_per_second: NonZeroU32,
    /// 100.
    pub sends_burst: NonZeroU32,
    /// Broadcasts. 2 a second.
    pub broadcasts_per_second: NonZeroU32,
    /// 4.
    pub broadcasts_burst: NonZeroU32,
}

impl Default for Rates {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).expect("not zero");
        Self {
            sends_per_second: number(50),
            sends_burst: number(100),
            broadcasts_per_second: number(2),
            broadcasts_burst: number(4),
        }
    }
}

/// Counts sends.
#[derive(Debug)]
pub struct Meter {
    sends: Counter,
    broadcasts: Counter,
}

impl Meter {
    /// Makes a meter with these rates.
    pub fn new(rates: Rates) -> Self {
        Self {
            sends: Counter::new("messages", rates.sends_per_second, rates.sends_burst),
            broadcasts: Counter::new("broadcasts", rates.broadcasts_per_second, rates.broadcasts_burst),
        }
    }

    /// Counts a send, or refuses it with `RATE_LIMITED` and the time after which it may be repeated.
    pub fn count(&self, sender: SecretHash, is_broadcast: bool) -> Result<(), Refusal> {
        if is_broadcast {
            self.broadcasts.count(sender)?;
        }
        self.sends.count(sender)
    }
}

#[derive(Debug)]
struct Counter {
    what: &'static str,
    per_second: NonZeroU32,
    limiter: RateLimiter<SecretHash, HashMapStateStore<SecretHash>, DefaultClock>,
}

impl Counter {
    fn new(what: &'static str, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self { what, per_second, limiter: RateLimiter::hashmap(quota) }
    }

    fn count(&self, sender: SecretHash) -> Result<(), Refusal> {
        if self.limiter.len() >= COUNTED_MAX {
            self.limiter.retain_recent();
        }
        self.limiter.check_key(&sender).map_err(|not_until| {
            // A retry at exactly that instant could be too early, because clocks are coarse.
            let wait = not_until.wait_time_from(DefaultClock::default().now()) + Duration::from_millis(1);
            let text = format!(
                "You are sending more than {} {} a second. Repeat this send, with the same idempotency key, in {} ms.",
                self.per_second,
                self.what,
                wait.as_millis()
            );
            Refusal::new(Reason::RateLimited, text).retry_after(wait)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rates(sends: u32, broadcasts: u32) -> Rates {
        let number = |number| NonZeroU32::new(number).unwrap();
        Rates {
            sends_per_second: number(1),
            sends_burst: number(sends),
            broadcasts_per_second: number(1),
            broadcasts_burst: number(broadcasts),
        }
    }

    #[test]
    fn a_burst_passes_and_the_next_send_learns_when_to_retry() {
        let meter = Meter::new(rates(3, 3));
        let ann = SecretHash::of("ann");
        for _ in 0..3 {
            meter.count(ann, false).unwrap();
        }
        let refusal = meter.count(ann, false).unwrap_err();
        assert_eq!(refusal.reason, Reason::RateLimited);
        let wait = refusal.retry_after.unwrap();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(1_001), "{wait:?}");
        meter.count(SecretHash::of("bob"), false).expect("another credential's sends do not count");
    }

    #[test]
    fn broadcasts_have_a_separate_rate_and_count_as_sends() {
        let meter = Meter::new(rates(3, 2));
        let ann = SecretHash::of("ann");
        meter.count(ann, true).unwrap();
        meter.count(ann, true).unwrap();
        assert!(meter.count(ann, true).unwrap_err().message.contains("broadcasts"));
        meter.count(ann, false).unwrap();
        assert!(meter.count(ann, false).unwrap_err().message.contains("messages"));
    }

    #[test]
    fn a_credential_whose_burst_is_replenished_is_dropped() {
        let mut fast = rates(1, 1);
        fast.sends_per_second = NonZeroU32::new(1_000_000).unwrap();
        let meter = Meter::new(fast);
        for number in 0..COUNTED_MAX * 2 {
            meter.count(SecretHash::of(&number.to_string()), false).unwrap();
        }
        assert!(meter.sends.limiter.len() <= COUNTED_MAX);
    }
}
