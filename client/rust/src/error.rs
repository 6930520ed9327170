//! What can go wrong in a call, sorted by what a caller can do about it.

use teamwire_proto::{Reason, Refusal};
use tonic::{Code, Status};

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The coordinator refused the call by a rule; nothing was changed. The refusal says what to do.
    #[error("{0}")]
    Refused(Refusal),

    /// No coordinator answered, for as long as it was tried; nothing was changed.
    #[error("The coordinator at {address} cannot be reached: {detail}. Check the address and that it runs.")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What the last attempt met with.
        detail: String,
    },

    /// TLS stands in the way: the coordinator cannot be trusted, or does not trust us. Nothing was changed.
    #[error("There is no secure connection to the coordinator at {address}: {detail}.")]
    Insecure {
        /// Where it was looked for.
        address: String,
        /// What is wrong, and what to do.
        detail: String,
    },

    /// A certificate or a key cannot be used.
    #[error("TLS cannot be set up: {0}.")]
    TlsOptions(String),

    /// The call may or may not have been carried out.
    #[error("It is not known whether {call} was carried out: {detail}. {}", remedy(idempotency_key))]
    OutcomeUnknown {
        /// The call, by the name of its RPC.
        call: &'static str,
        /// The key that it was sent with. The same call with the same key is carried out at most once. Empty: the call
        /// has none.
        idempotency_key: String,
        /// What the last attempt met with.
        detail: String,
    },

    /// The subscription has ended, so that what was asked of it cannot be done any more.
    #[error("The subscription has ended: {0}")]
    Closed(crate::Closed),

    /// The address of the coordinator cannot be used.
    #[error(
        "\"{address}\" is no address of a coordinator: {detail}. Write https://HOST:PORT or http://HOST:PORT, several with commas \
             between them."
    )]
    Address {
        /// The address as given.
        address: String,
        /// What is wrong with it.
        detail: String,
    },

    /// The context file cannot be used, or does not tell who calls.
    #[error("{0}")]
    Context(String),

    /// The credential cannot be sent as it is.
    #[error("The credential has characters that no credential has. Use it as it was given.")]
    Credential,

    /// The answer is none that the protocol knows; most likely something else listens at the address.
    #[error("The coordinator at {address} answered outside of the protocol: {status}")]
    Unexpected {
        /// Where the answer came from.
        address: String,
        /// The answer.
        status: Box<Status>,
    },
}

fn remedy(idempotency_key: &str) -> &'static str {
    if idempotency_key.is_empty() {
        "Look before you repeat it."
    } else {
        "Repeating it with the same idempotency key is safe."
    }
}

impl Error {
    /// Returns whether the same call, with the same idempotency key, may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.reason.is_retryable(),
            Self::Unreachable { .. } => true,
            Self::OutcomeUnknown { idempotency_key, .. } => !idempotency_key.is_empty(),
            Self::Closed(_)
            | Self::Address { .. }
            | Self::Credential
            | Self::Insecure { .. }
            | Self::TlsOptions(_)
            | Self::Context(_)
            | Self::Unexpected { .. } => false,
        }
    }

    /// Returns the reason of a refusal.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refusal) => Some(refusal.reason),
            _ => None,
        }
    }

    /// Returns whether the caller is not permitted to do what it tried: by its credential, its role or its state.
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
