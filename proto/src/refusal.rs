//! A refusal: a reason, a text that says what to do, and the field at fault. It travels in a `tonic::Status`.

use std::{collections::BTreeMap, time::Duration};

use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use crate::reason::{DOMAIN, Reason};

/// The metadata key of a refusal that says that the attempt changed nothing, although its reason leaves that open.
const NOTHING_CHANGED: &str = "nothing_changed";

/// Why a call was refused, for a program and for a reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What was wrong and what to do, in one or two sentences.
    pub message: String,
    /// The field of the request at fault, if any.
    pub field: Option<String>,
    /// When to try again, if that makes sense.
    pub retry_after: Option<Duration>,
    /// Facts for a program, such as the id of a pending request.
    pub metadata: BTreeMap<String, String>,
}

impl Refusal {
    /// Makes a refusal with a text that says what was wrong and what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let retry_after = match reason {
            // Not repeated automatically: a member has to make room first.
            Reason::QuotaExceeded => Some(Duration::from_secs(60)),
            reason => reason.is_retryable().then_some(Duration::from_secs(1)),
        };
        Self { reason, message: message.into(), field: None, retry_after, metadata: BTreeMap::new() }
    }

    /// Names the field at fault.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Adds a fact for a program.
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Says that the attempt changed nothing, although its reason leaves that open.
    pub fn nothing_changed(self) -> Self {
        self.with(NOTHING_CHANGED, "true")
    }

    /// Returns whether the refused call may have changed something.
    pub fn may_have_changed(&self) -> bool {
        let changed_nothing = self.metadata.get(NOTHING_CHANGED).is_some_and(|value| value == "true");
        !self.reason.is_outcome_known() && !changed_nothing
    }

    /// Says when to try again.
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Reads the refusal that a status carries. `None` if the status does not come from the rules of teamwire, for
    /// example because the connection broke.
    pub fn from_status(status: &Status) -> Option<Self> {
        let details = status.get_error_details();
        let info = details.error_info()?;
        if info.domain != DOMAIN {
            return None;
        }
        let field = details.bad_request().and_then(|bad| bad.field_violations.first()).map(|v| v.field.clone());
        Some(Self {
            reason: info.reason.parse().ok()?,
            message: status.message().to_owned(),
            field,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            metadata: info.metadata.clone().into_iter().collect(),
        })
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let message = cut(refusal.message);
        let mut room = METADATA_BYTES_MAX;
        let fits = |(key, value): &(String, String)| {
            room = room.saturating_sub(key.len() + value.len());
            room > 0
        };
        let metadata: std::collections::HashMap<_, _> = refusal.metadata.into_iter().take_while(fits).collect();
        let mut details = ErrorDetails::with_error_info(refusal.reason.as_str(), DOMAIN, metadata);
        if let Some(field) = refusal.field {
            details.add_bad_request_violation(field, message.clone());
        }
        if let Some(after) = refusal.retry_after {
            details.set_retry_info(Some(after));
        }
        Status::with_error_details(refusal.reason.code(), message, details)
    }
}

/// How many bytes of a refusal's text are sent. It travels in the headers, up to three times, and many clients accept
/// no more than 8 KiB of headers.
const MESSAGE_BYTES_MAX: usize = 1_400;

/// How many bytes of a refusal's metadata are sent.
const METADATA_BYTES_MAX: usize = 1_300;

/// Truncates a text that is too long, such as one with an invented name of 100 KiB.
fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_back_from_its_status() {
        for reason in Reason::ALL {
            let refusal =
                Refusal::new(*reason, "no; do this").field("recipient").with("closest", "backend").with("n", "1");
            let status = Status::from(refusal.clone());
            assert_eq!(status.code(), reason.code());
            assert_eq!(Refusal::from_status(&status), Some(refusal));
        }
    }

    #[test]
    fn the_longest_refusal_fits_into_the_headers_that_every_client_accepts() {
        let mut refusal = Refusal::new(Reason::TeamNotFound, format!("no {}", "x".repeat(60_000))).field("team");
        for number in 0..1_000 {
            refusal = refusal.with(&format!("member-{number}"), "y".repeat(60));
        }
        let status = Status::from(refusal);
        let mut headers = tonic::codegen::http::HeaderMap::new();
        status.add_header(&mut headers).expect("headers");
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        assert!(bytes < 8_192, "{bytes}");
        assert!(status.message().ends_with("..."), "{status}");
    }

    #[test]
    fn a_status_from_another_source_is_not_a_refusal() {
        assert_eq!(Refusal::from_status(&Status::unavailable("tcp")), None);
    }
}
