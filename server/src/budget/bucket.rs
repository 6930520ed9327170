//! A token bucket that can go into debt, because the cost of a call may be known only after its reply.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How fast something may be used up, and how much of it at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    per_second: u64,
    burst: u64,
}

impl Rate {
    /// Makes a rate. Neither number is 0.
    pub(super) fn new(per_second: impl Into<u64>, burst: impl Into<u64>) -> Self {
        Self { per_second: per_second.into().max(1), burst: burst.into().max(1) }
    }

    /// Returns how much there is each second.
    pub(super) fn per_second(self) -> u64 {
        self.per_second
    }

    /// Returns in how many nanoseconds this much becomes available.
    fn nanos(self, amount: u64) -> u64 {
        u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(self.per_second)).unwrap_or(u64::MAX)
    }
}

/// What is left of a rate. Keeps one number: the time at which the whole burst is available again.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes this much, if it is there; otherwise returns how long to wait for it. `now`: in nanoseconds.
    pub(super) fn take(&self, rate: Rate, now: u64, amount: u64) -> Result<(), Duration> {
        let (cost, room) = (rate.nanos(amount), now.saturating_add(rate.nanos(rate.burst)));
        let taken = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            Some(full_at.max(now).saturating_add(cost)).filter(|full_at| *full_at <= room)
        });
        taken.map(drop).map_err(|full_at| Duration::from_nanos(full_at.max(now).saturating_add(cost) - room))
    }

    /// Takes this much, whether it is there or not.
    pub(super) fn charge(&self, rate: Rate, now: u64, amount: u64) {
        let cost = rate.nanos(amount);
        let charge = |full_at: u64| Some(full_at.max(now).saturating_add(cost));
        // It always succeeds.
        let _ = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge);
    }

    /// Waits in line for one: takes it, and returns how long it takes until it is there. The line is never longer than
    /// `max`.
    pub(super) fn line_up(&self, rate: Rate, now: u64, max: Duration) -> Duration {
        let room = now.saturating_add(rate.nanos(rate.burst));
        let end = room.saturating_add(u64::try_from(max.as_nanos()).unwrap_or(u64::MAX));
        let after = |full_at: u64| full_at.max(now).saturating_add(rate.nanos(1)).min(end);
        let line_up = |full_at: u64| Some(after(full_at));
        let (Ok(before) | Err(before)) = self.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, line_up);
        Duration::from_nanos(after(before).saturating_sub(room))
    }

    /// Returns how long it takes until anything is left. `None` if something is.
    pub(super) fn debt(&self, rate: Rate, now: u64) -> Option<Duration> {
        let room = now.saturating_add(rate.nanos(rate.burst));
        let debt = self.full_at.load(Ordering::Relaxed).checked_sub(room)?;
        Some(Duration::from_nanos(debt + 1))
    }

    /// Returns whether the whole burst is available.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.full_at.load(Ordering::Relaxed) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_and_the_next_call_learns_how_long_to_wait() {
        let (bucket, rate) = (Bucket::default(), Rate::new(10_u64, 3_u64));
        for _ in 0..3 {
            assert_eq!(bucket.take(rate, SECOND, 1), Ok(()));
        }
        assert_eq!(bucket.take(rate, SECOND, 1), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(rate, SECOND + SECOND / 10, 1), Ok(()));
        assert!(!bucket.is_full(SECOND + 3 * SECOND / 10) && bucket.is_full(SECOND + 4 * SECOND / 10));
        assert_eq!(bucket.take(rate, 9 * SECOND, 3), Ok(()), "a pause restores the burst, and not more");
        assert!(bucket.take(rate, 9 * SECOND, 1).is_err());
    }

    #[test]
    fn a_charge_may_cause_a_debt_that_time_repays() {
        let (bucket, rate) = (Bucket::default(), Rate::new(100_u64, 50_u64));
        assert_eq!(bucket.debt(rate, SECOND), None);
        bucket.charge(rate, SECOND, 150);
        let wait = bucket.debt(rate, SECOND).unwrap_or_default();
        assert!(wait > Duration::from_millis(999) && wait < Duration::from_millis(1_001), "{wait:?}");
        assert_eq!(bucket.debt(rate, SECOND + u64::try_from(wait.as_nanos()).unwrap_or(0)), None);
    }

    #[test]
    fn waits_grow_up_to_a_maximum_and_shrink_again() {
        let (bucket, rate, max) = (Bucket::default(), Rate::new(10_u64, 2_u64), Duration::from_millis(250));
        let waits = |now: u64| [(); 3].map(|()| bucket.line_up(rate, now, max).as_millis());
        assert_eq!(waits(SECOND), [0, 0, 100]);
        assert_eq!(waits(SECOND), [200, 250, 250]);
        assert_eq!(waits(SECOND + SECOND / 2), [0, 0, 100]);
    }

    #[test]
    fn no_amount_overflows() {
        let (bucket, rate) = (Bucket::default(), Rate::new(1_u64, u64::MAX));
        bucket.charge(rate, u64::MAX - 1, u64::MAX);
        assert!(bucket.debt(rate, 1).is_some() || bucket.take(rate, 1, 1).is_err());
    }
}
