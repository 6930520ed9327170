//! Checks of fields that several calls share.

use std::time::Duration;

use teamwire_proto::{Reason, Refusal, Wait, duration};

use super::time::ms;

/// Checks how long something lasts, in milliseconds: 1 second to `days_max` days.
pub fn ttl(given: Option<&prost_types::Duration>, default: Duration, days_max: u64) -> Result<u64, Refusal> {
    let Some(given) = given else { return Ok(ms(default)) };
    within(given, Duration::from_secs(days_max * 24 * 60 * 60)).ok_or_else(|| {
        Refusal::new(Reason::InvalidField, format!("ttl must be between 1 second and {days_max} days.")).field("ttl")
    })
}

/// Checks how long a start may take, in milliseconds: 1 second to 1 hour. `path`: where it is in the request.
pub fn start_deadline(given: &prost_types::Duration, path: &str) -> Result<u64, Refusal> {
    within(given, Duration::from_secs(60 * 60)).ok_or_else(|| {
        let field = path.split('.').next().unwrap_or(path);
        Refusal::new(Reason::InvalidField, format!("{path} must be between 1 second and 1 hour.")).field(field)
    })
}

/// Returns a duration in milliseconds if it is between 1 second and `max`.
fn within(given: &prost_types::Duration, max: Duration) -> Option<u64> {
    let bounds = Duration::from_secs(1)..=max;
    duration::from_proto(*given).filter(|given| bounds.contains(given)).map(ms)
}

/// Checks how long a call wants to wait, and returns how long it does.
pub fn wait(policy: Wait, given: Option<&prost_types::Duration>) -> Result<Duration, Refusal> {
    let field = policy.field;
    policy
        .asked(given)
        .ok_or_else(|| Refusal::new(Reason::InvalidField, format!("{field} must not be negative.")).field(field))
}

/// Checks the value of a filter: this coordinator cannot look for values that it does not know.
pub fn known<T: TryFrom<i32>>(given: i32, field: &str) -> Result<T, Refusal> {
    T::try_from(given).map_err(|_| {
        Refusal::new(Reason::InvalidField, format!("{field} must be a value of the protocol, not {given}."))
            .field(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_kept_to_the_millisecond_and_within_its_bounds() {
        let ttl = |seconds, nanos| ttl(Some(&prost_types::Duration { seconds, nanos }), Duration::ZERO, 30).ok();
        assert_eq!(
            [ttl(1, 0), ttl(1, 500_000_000), ttl(2_592_000, 0)],
            [Some(1_000), Some(1_500), Some(2_592_000_000)]
        );
        for (seconds, nanos) in
            [(0, 0), (0, 999_999_999), (-1, 0), (2, -1_500_000_000), (2_592_000, 1), (i64::MAX, 0), (i64::MIN, 0)]
        {
            assert_eq!(ttl(seconds, nanos), None, "{seconds} {nanos}");
        }
    }
}
