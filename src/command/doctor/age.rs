//! Ages.

use std::time::{Duration, SystemTime};

/// Returns how long ago a timestamp was; zero if it is missing or in the future.
pub(super) fn age(at: Option<&prost_types::Timestamp>) -> Duration {
    let at = at.and_then(|at| SystemTime::try_from(*at).ok());
    at.and_then(|at| SystemTime::now().duration_since(at).ok()).unwrap_or_default()
}

/// Formats a duration in its largest useful unit.
pub(super) fn duration_text(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}
