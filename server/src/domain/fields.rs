//! Checks of fields that several calls share.

use std::time::Duration;

use teamwire_proto::{Reason, Refusal};

use super::time::ms;

/// How long a call waits at most.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Checks how long something lasts, in milliseconds: 1 second to `days_max` days.
pub fn ttl(given: Option<&prost_types::Duration>, default: Duration, days_max: i64) -> Result<u64, Refusal> {
    let Some(given) = given else { return Ok(ms(default)) };
    let seconds = u64::try_from(given.seconds).ok().filter(|s| (1..=days_max.unsigned_abs() * 86_400).contains(s));
    seconds.map(|s| s * 1000).ok_or_else(|| {
        Refusal::new(Reason::InvalidField, format!("ttl must be between 1 second and {days_max} days.")).field("ttl")
    })
}

/// Checks how long a call wants to wait. Returns at most `WAIT_MAX`.
pub fn wait(given: &prost_types::Duration, field: &str) -> Result<Duration, Refusal> {
    let nanos = i128::from(given.seconds) * 1_000_000_000 + i128::from(given.nanos);
    let nanos = u64::try_from(nanos.min(i128::from(u64::MAX)))
        .map_err(|_| Refusal::new(Reason::InvalidField, format!("{field} must not be negative.")).field(field))?;
    Ok(Duration::from_nanos(nanos).min(WAIT_MAX))
}

/// Checks the value of a filter: this coordinator cannot look for values that it does not know.
pub fn known<T: TryFrom<i32>>(given: i32, field: &str) -> Result<T, Refusal> {
    T::try_from(given).map_err(|_| {
        Refusal::new(Reason::InvalidField, format!("{field} must be a value of the protocol, not {given}."))
            .field(field)
    })
}
