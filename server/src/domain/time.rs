//! Converts instants and durations between records, rules and the protocol.

use std::time::Duration;

use teamwire_proto::duration;

/// Converts a duration to milliseconds.
pub fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Converts an instant to its protocol form.
pub fn timestamp(ms: u64) -> prost_types::Timestamp {
    let seconds = i64::try_from(ms / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds, nanos }
}

/// Converts an instant from its protocol form.
pub fn milliseconds(timestamp: &prost_types::Timestamp) -> u64 {
    u64::try_from(timestamp.seconds).unwrap_or(0) * 1000 + u64::try_from(timestamp.nanos).unwrap_or(0) / 1_000_000
}

/// Converts a number of milliseconds to its protocol form.
pub fn duration(ms: u64) -> prost_types::Duration {
    let prost_types::Timestamp { seconds, nanos } = timestamp(ms);
    prost_types::Duration { seconds, nanos }
}

/// The longest duration that its protocol form may hold: about 10,000 years.
const DURATION_MAX: Duration = Duration::from_secs(315_576_000_000);

/// Converts a duration from its protocol form, in milliseconds. Returns 0 if it is absent, negative, or longer than the
/// protocol form may hold, which some clients could not read back.
pub fn duration_ms(given: Option<&prost_types::Duration>) -> u64 {
    let given = given.and_then(|&given| duration::from_proto(given));
    given.filter(|given| *given <= DURATION_MAX).map_or(0, ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_durations_that_clients_can_represent_are_kept() {
        let kept = |seconds, nanos| duration_ms(Some(&prost_types::Duration { seconds, nanos }));
        assert_eq!([kept(2, 5_000_000), kept(315_576_000_000, 0)], [2_005, 315_576_000_000_000]);
        assert_eq!([kept(-1, 0), kept(0, -1), kept(315_576_000_000, 1), kept(i64::MAX, 0)], [0; 4]);
    }
}
