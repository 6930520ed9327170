//! What callers learn when the store fails.

use teamwire_proto::{Reason, Refusal};

use crate::store::{Namespace, StoreError};

/// Converts a failure of the store into the refusal of the call.
pub(super) fn unavailable(error: StoreError) -> Refusal {
    let what = error.to_string();
    // The text of a server may end like a sentence.
    let what = what.trim_end_matches('.');
    match &error {
        // Calls that only read get this text, too, so it says nothing about a change. The reason's documentation does.
        StoreError::Unavailable(_) | StoreError::Misconfigured(_) => {
            Refusal::new(Reason::StoreUnavailable, format!("The store cannot be used now: {what}."))
        }
        StoreError::Refusing(_) => {
            Refusal::new(Reason::StoreUnavailable, format!("{what}. This attempt changed nothing: try again later."))
                .nothing_changed()
        }
        StoreError::Full(_) => Refusal::new(
            Reason::StoreFull,
            format!(
                "{what}. Nothing was changed. Make room: acknowledge messages or delete a team; the operator can free disk space or \
                 raise maxmemory. Reading, leaving and stopping members still work."
            ),
        ),
        StoreError::DurabilityNotReached(_) => Refusal::new(
            Reason::DurabilityNotReached,
            format!(
                "{what}. The change was made, but could still be lost with its server: try again with the same \
                 idempotency key until the call succeeds."
            ),
        ),
        StoreError::Unusable(_) => Refusal::new(
            Reason::StoreUnavailable,
            format!("The coordinator cannot use its store: {what}. This attempt changed nothing: ask its operator."),
        )
        .nothing_changed(),
        StoreError::Corrupt(detail) => {
            tracing::error!(what = detail, "the store holds data that cannot be read");
            Refusal::new(Reason::Internal, format!("{what}. Ask the coordinator's operator to check its log."))
        }
    }
}

/// Returns the refusal of a call that found an unreadable record, before it changed anything.
pub(super) fn corrupt(namespace: &Namespace, what: &str) -> Refusal {
    tracing::error!(?namespace, what, "a record cannot be read");
    Refusal::new(
        Reason::Internal,
        "A record of this team cannot be read. Ask the coordinator's operator to check its log.",
    )
    .nothing_changed()
}
