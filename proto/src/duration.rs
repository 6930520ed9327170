//! Durations, from their protocol form.

use std::time::Duration;

/// Converts a duration from its protocol form. `None` if it is negative.
///
/// The conversion in `prost-types` overflows if a client sends the smallest number of seconds.
pub fn from_proto(given: prost_types::Duration) -> Option<Duration> {
    let given = given.normalized();
    Some(Duration::new(u64::try_from(given.seconds).ok()?, u32::try_from(given.nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_durations_that_are_not_negative_are_converted() {
        let converted = |seconds, nanos| from_proto(prost_types::Duration { seconds, nanos });
        assert_eq!(converted(2, 5), Some(Duration::new(2, 5)));
        assert_eq!(converted(2, -1), Some(Duration::new(1, 999_999_999)));
        assert_eq!(converted(i64::MAX, i32::MAX), Some(Duration::new(9_223_372_036_854_775_807, 999_999_999)));
        for (seconds, nanos) in [(-1, 0), (0, -1), (-1, 1), (i64::MIN, 0), (i64::MIN, i32::MIN), (i64::MIN, i32::MAX)] {
            assert_eq!(converted(seconds, nanos), None, "{seconds} {nanos}");
        }
    }
}
