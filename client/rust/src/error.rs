//! Errors, sorted by what a caller can do about them.

use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status};

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule of the coordinator refused the call; nothing has changed. The refusal says what to do.
    #[error("{0}")]
    Refused(Refusal),

    /// No coordinator answered while the client retried; nothing has changed.
    #[error("The coordinator at {address} cannot be reached: {detail}. Check the address and that it runs.")]
    Unreachable {
        /// The address that was tried.
        address: String,
        /// Why the last attempt failed.
        detail: String,
        /// Nothing listens at any of the addresses.
        is_refused: bool,
    },

    /// TLS failed: the client does not trust the coordinator, or the other way round. Nothing has changed.
    #[error("Cannot connect securely to the coordinator at {address}: {detail}.")]
    Insecure {
        /// The address that was tried.
        address: String,
        /// What is wrong, and what to do.
        detail: String,
    },

    /// A certificate or key cannot be used.
    #[error("TLS cannot be set up: {0}.")]
    TlsOptions(String),

    /// The call may or may not have been carried out.
    #[error(
        "It is not known whether {call} was carried out: {}. {}",
        detail.trim_end_matches('.'),
        remedy(*is_once, idempotency_key)
    )]
    OutcomeUnknown {
        /// The name of the RPC.
        call: &'static str,
        /// The key that it was sent with. The same call with the same key is carried out at most once. Empty if the
        /// call takes no key.
        idempotency_key: String,
        /// Why the last attempt failed.
        detail: String,
        /// The reason, if the last attempt was refused.
        reason: Option<Reason>,
        /// Repeating the call could do harm.
        is_once: bool,
    },

    /// The subscription has ended, so its acknowledgements can no longer be confirmed.
    #[error("The subscription has ended: {0}")]
    Closed(crate::Closed),

    /// The address of the coordinator cannot be used.
    #[error(
        "\"{address}\" is not a valid coordinator address: {detail}. Write https://HOST:PORT, http://HOST:PORT or unix:///PATH, or \
             several separated by commas."
    )]
    Address {
        /// The address as given.
        address: String,
        /// What is wrong with it.
        detail: String,
    },

    /// The context file cannot be used, or does not say which identity to use.
    #[error("{0}")]
    Context(String),

    /// The credential contains characters that cannot be sent.
    #[error("The credential contains invalid characters. Use it exactly as you got it.")]
    Credential,

    /// The answer does not follow the protocol; most likely something other than a coordinator listens at the address.
    #[error(
        "The answer from {address} does not follow the protocol: {status}. Check that a coordinator listens there."
    )]
    Unexpected {
        /// Where the answer came from.
        address: String,
        /// The answer.
        status: Box<Status>,
    },
}

fn remedy(is_once: bool, idempotency_key: &str) -> &'static str {
    match (is_once, idempotency_key) {
        (true, _) => "Check whether it took effect before you repeat it.",
        (false, "") => "Repeating it is safe.",
        (false, _) => "Repeating it with the same idempotency key is safe.",
    }
}

impl Error {
    /// Returns whether the same call, with the same idempotency key, may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.reason.is_retryable(),
            Self::Unreachable { .. } => true,
            Self::OutcomeUnknown { reason, is_once, .. } => {
                !is_once && reason.is_none_or(|reason| reason.is_retryable())
            }
            Self::Closed(_)
            | Self::Address { .. }
            | Self::Credential
            | Self::Insecure { .. }
            | Self::TlsOptions(_)
            | Self::Context(_)
            | Self::Unexpected { .. } => false,
        }
    }

    /// Returns whether the call may have been carried out all the same.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    /// Returns the reason, if the last attempt was refused.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refusal) => Some(refusal.reason),
            Self::OutcomeUnknown { reason, .. } => *reason,
            _ => None,
        }
    }

    /// If the caller has seen entries that the store does not have any more, returns the newest one that it has.
    pub fn store_end(&self) -> Option<u64> {
        match self {
            Self::Refused(refusal) if refusal.reason == Reason::CursorAhead => {
                refusal.metadata.get("last_sequence")?.parse().ok()
            }
            _ => None,
        }
    }

    /// Returns whether the caller may not do this because of its credential, its role or its state.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Refused(refusal) => {
                matches!(refusal.reason.code(), Code::PermissionDenied | Code::Unauthenticated)
                    || matches!(refusal.reason, Reason::MemberStopped | Reason::SessionSuperseded)
            }
            Self::Unexpected { status, .. } => matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated),
            Self::Credential => true,
            _ => false,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
