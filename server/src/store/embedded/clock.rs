//! The clock of the embedded store: the machine's, but monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// How far ahead the wall clock must be before this clock follows it. The monotonic clock stops while the machine
/// sleeps.
const JUMP_MS_MIN: u64 = 10_000;

/// A clock in milliseconds since 1970 that never goes backwards and never stops.
#[derive(Debug)]
pub(super) struct Clock(Mutex<Reading>);

#[derive(Debug)]
struct Reading {
    ms: u64,
    taken: Instant,
}

impl Clock {
    /// Starts a clock at the wall clock's time, or at `floor_ms` if that is later.
    pub(super) fn starting_at_least(floor_ms: u64) -> Self {
        Self(Mutex::new(Reading { ms: wall_ms().max(floor_ms), taken: Instant::now() }))
    }

    /// Returns the time.
    pub(super) fn now_ms(&self) -> u64 {
        self.advance(Instant::now(), wall_ms())
    }

    /// Sets the clock ahead to `ms`, unless it is there already.
    pub(super) fn raise(&self, ms: u64) {
        let mut reading = self.0.lock();
        if reading.ms < ms {
            *reading = Reading { ms, taken: Instant::now() };
        }
    }

    fn advance(&self, instant: Instant, wall_ms: u64) -> u64 {
        let mut reading = self.0.lock();
        let elapsed_ms = millis(instant.saturating_duration_since(reading.taken));
        if elapsed_ms > 0 {
            // Advance by whole milliseconds only, so that the fraction counts next time.
            reading.ms += elapsed_ms;
            reading.taken += Duration::from_millis(elapsed_ms);
        }
        if wall_ms >= reading.ms.saturating_add(JUMP_MS_MIN) {
            reading.ms = wall_ms;
            reading.taken = instant;
        }
        reading.ms
    }
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ms: u64, taken: Instant) -> Clock {
        Clock(Mutex::new(Reading { ms, taken }))
    }

    #[test]
    fn setting_the_wall_clock_back_does_not_stop_the_clock() {
        let start = Instant::now();
        let clock = clock(50_000, start);
        assert_eq!(clock.advance(start + Duration::from_millis(7), 10), 50_007);
    }

    #[test]
    fn clock_follows_the_wall_clock_after_the_machine_slept() {
        let start = Instant::now();
        let clock = clock(50_000, start);
        assert_eq!(clock.advance(start + Duration::from_millis(5), 50_000 + JUMP_MS_MIN + 5), 60_005);
        assert_eq!(clock.advance(start + Duration::from_millis(6), 0), 60_006);
    }

    #[test]
    fn fractions_of_a_millisecond_are_not_lost() {
        let start = Instant::now();
        let clock = clock(0, start);
        for half in 1..=10 {
            clock.advance(start + Duration::from_micros(500) * half, 0);
        }
        assert_eq!(clock.advance(start + Duration::from_micros(5_000), 0), 5);
    }
}
