//! Why calls are refused. The table comes from `teamwire/v1/reason.proto`.

use std::{fmt, str::FromStr};

use tonic::Code;

include!(concat!(env!("OUT_DIR"), "/reason.rs"));

/// The domain of every `google.rpc.ErrorInfo` of teamwire.
pub const DOMAIN: &str = "teamwire";

/// Whether a client repeats a refused call, with the same idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never: it would be refused again.
    Never,
    /// By itself, after the delay that the refusal names.
    Automatic,
    /// Only when the program asks for it: a member has to act first.
    OnRequest,
}

impl Reason {
    /// Returns whether the same call, with the same idempotency key, may succeed later.
    pub const fn is_retryable(self) -> bool {
        !matches!(self.retry(), Retry::Never)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no known reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReason;

impl FromStr for Reason {
    type Err = UnknownReason;

    /// Reads the name of a reason.
    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == text).ok_or(UnknownReason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back_as_itself() {
        for reason in Reason::ALL {
            let read: Reason = reason.as_str().parse().expect("a reason's own name");
            assert_eq!(read, *reason);
        }
    }
}
