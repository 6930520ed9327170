//! The timing of sessions: heartbeats, write timeouts, the age of streams.

use std::{sync::LazyLock, time::Duration};

use tokio::time::Instant;

/// Sessions give their heartbeats at common instants, this far apart. So many of them cost the coordinator one wake-up.
const BEAT: Duration = Duration::from_millis(50);

/// From which those instants are counted.
static FIRST_BEAT: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The rhythm of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The longest silence between two frames. 10 s.
    pub heartbeat_interval: Duration,
    /// How long a client may take no frame while one is waiting. 30 s.
    pub write_timeout: Duration,
    /// How long a stream lives at most; a tenth more or less. 45 min.
    pub stream_age: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            stream_age: Duration::from_secs(45 * 60),
        }
    }
}

impl Pace {
    /// Returns when a session that begins now gives its first heartbeat.
    pub(super) fn first_heartbeat(&self, now: Instant) -> Instant {
        let latest = now + self.heartbeat_interval;
        let past = latest.saturating_duration_since(*FIRST_BEAT).as_nanos() % BEAT.as_nanos();
        latest - Duration::from_nanos(u64::try_from(past).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_begin_within_a_beat_give_their_heartbeats_together() {
        let pace = Pace::default();
        let first = *FIRST_BEAT + Duration::from_secs(3);
        let at = |millis| pace.first_heartbeat(first + Duration::from_millis(millis)) - first;
        assert_eq!([0, 1, 49, 50, 99].map(at).map(|at| at.as_millis()), [10_000, 10_000, 10_000, 10_050, 10_050]);
    }
}
