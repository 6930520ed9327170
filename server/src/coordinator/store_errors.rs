//! What callers learn when the store fails.

use teamwire_proto::{Reason, Refusal};

use crate::store::{Namespace, StoreError};

/// The metadata key that tells clients that a call with the reason STORE_UNAVAILABLE has changed nothing.
const NOTHING_CHANGED: &str = "nothing_changed";

/// Converts a failure of the store into the refusal of the call.
pub(super) fn unavailable(error: StoreError) -> Refusal {
    match &error {
        StoreError::Unavailable(_) | StoreError::Misconfigured(_) => Refusal::new(
            Reason::StoreUnavailable,
            format!("{error}. The change may or may not have been made: try again with the same idempotency key."),
        ),
        StoreError::Refusing(_) => {
            Refusal::new(Reason::StoreUnavailable, format!("{error}. Nothing was changed: try again later."))
                .with(NOTHING_CHANGED, "true")
        }
        StoreError::Full(_) => Refusal::new(
            Reason::StoreUnavailable,
            format!(
                "{error}. Nothing was changed. Reading, acknowledging and leaving still work; acknowledging messages and deleting \
                 teams makes room. Try again once the operator has made room."
            ),
        )
        .with("store", "full"),
        StoreError::DurabilityNotReached(_) => Refusal::new(
            Reason::DurabilityNotReached,
            format!(
                "{error}. The change was made, but could still be lost with its server: try again with the same \
                 idempotency key until the call succeeds."
            ),
        ),
        StoreError::Unusable(_) => Refusal::new(
            Reason::StoreUnavailable,
            format!("The coordinator cannot use its store: {error}. Nothing was changed: ask its operator."),
        ),
        StoreError::Corrupt(what) => {
            tracing::error!(what, "the store holds data that cannot be read");
            Refusal::new(Reason::Internal, format!("{error}. Ask the coordinator's operator to check its log."))
        }
    }
}

/// Returns the refusal of a call that came upon a record that cannot be read.
pub(super) fn corrupt(namespace: &Namespace, what: &str) -> Refusal {
    tracing::error!(?namespace, what, "a record cannot be read");
    Refusal::new(
        Reason::Internal,
        "A record of this team cannot be read. Ask the coordinator's operator to check its log.",
    )
}
