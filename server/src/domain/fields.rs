//! Checks of single fields that several calls have.

use std::time::Duration;

use teamwire_proto::{Reason, Refusal};

/// How many entries a list returns where the call does not say.
const LIMIT_DEFAULT: u32 = 100;

/// How many entries a list returns at most.
pub const LIMIT_MAX: u32 = 1_000;

/// How long a call waits at most.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Checks the bound of a list.
pub fn limit(given: u32, field: &str) -> Result<usize, Refusal> {
    match given {
        0 => Ok(LIMIT_DEFAULT as usize),
        1..=LIMIT_MAX => Ok(given as usize),
        _ => Err(Refusal::new(Reason::InvalidField, format!("{field} must be up to {LIMIT_MAX}.")).field(field)),
    }
}

/// Checks how long a call is to wait, which is `WAIT_MAX` at most.
pub fn wait(given: &prost_types::Duration, field: &str) -> Result<Duration, Refusal> {
    let nanos = i128::from(given.seconds) * 1_000_000_000 + i128::from(given.nanos);
    let nanos = u64::try_from(nanos.min(i128::from(u64::MAX)))
        .map_err(|_| Refusal::new(Reason::InvalidField, format!("{field} must not be negative.")).field(field))?;
    Ok(Duration::from_nanos(nanos).min(WAIT_MAX))
}

/// Checks the value of a filter: what this coordinator does not know it cannot look for.
pub fn known<T: TryFrom<i32>>(given: i32, field: &str) -> Result<T, Refusal> {
    T::try_from(given).map_err(|_| {
        Refusal::new(Reason::InvalidField, format!("{field} must be a value of the protocol, not {given}."))
            .field(field)
    })
}
