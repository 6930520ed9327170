//! Why a store call failed.

/// The format in which this version writes stores. Increase it when older versions could no longer read them.
pub(super) const FORMAT_KNOWN: u64 = 1;

/// Why a store call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store is unreachable or did not answer in time. A commit may have been applied.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store's URL is not valid, or its server does not admit the user or lacks the database that the URL names. A
    /// person must change one of them; the text says which. A commit may have been applied.
    #[error("{0}")]
    Misconfigured(String),
    /// The store accepts no writes at present, for example because it is not the primary. A commit was not applied.
    #[error("the store takes no writes: {0}")]
    Refusing(String),
    /// The store's memory or disk is full. A commit was not applied. See [`Txn::applies_when_full`].
    #[error("the store is full: {0}")]
    Full(String),
    /// The transaction was applied, now or by an earlier call, but is not yet as durable as the store was configured to
    /// make it. Repeating it with its idempotency key succeeds once it is.
    #[error("too few replicas have the commit: {0}")]
    DurabilityNotReached(String),
    /// This program must not use the store: a newer version wrote it, or it is gone although one was there. An operator
    /// must intervene.
    #[error("{0}")]
    Unusable(String),
    /// The store's contents cannot be read. An operator must intervene.
    #[error("the store's contents cannot be read: {0}")]
    Corrupt(String),
}

/// Returns the error for a store whose format is newer than [`FORMAT_KNOWN`]. `release`: the teamwire that wrote it, if
/// known.
pub(super) fn newer_format(store: &str, format: u64, release: Option<&str>) -> String {
    format!(
        "{store} was written by teamwire {} in format {format}; this version, {}, reads up to format {FORMAT_KNOWN}. Upgrade \
         teamwire, or use another store with --store",
        release.unwrap_or("of a newer version"),
        env!("CARGO_PKG_VERSION")
    )
}
