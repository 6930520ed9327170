//! Classifies failed calls: the error for the caller, and what may recover from it.

use redis::{ErrorKind, RedisError};

use super::functions::FunctionLibrary;
use crate::store::StoreError;

/// A call that failed.
#[derive(Clone, Debug)]
pub(super) struct CallError {
    /// The error to return if nothing recovers.
    pub(super) error: StoreError,
    /// What may recover.
    pub(super) recovery: Recovery,
    /// Whether the connection is unusable.
    pub(super) connection_lost: bool,
}

/// What may recover from a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Nothing: fail.
    None,
    /// The server is gone or is not the primary: look for its replacement, and fail.
    FindServer,
    /// Another cluster node owns the slot, at `HOST:PORT`. An empty host means the host of the node that answered. The
    /// call was not executed.
    Redirect(String),
    /// The slot is migrating, and the call's keys are not all on one node. The call was not executed.
    WaitForSlot,
}

impl CallError {
    /// Classifies an error from the server at `address`.
    pub(super) fn new(error: &RedisError, address: &str, functions: &FunctionLibrary) -> Self {
        let text = format!("{address}: {error}");
        let code = code(error);
        let recovery = match code.as_deref() {
            Some("MOVED") => moved_to(error).map_or(Recovery::FindServer, Recovery::Redirect),
            // The function reads keys that are known only once it runs (see commit.lua), so only a node that owns the
            // whole slot may run it. Hence an ASK is never followed.
            Some("ASK" | "TRYAGAIN") => Recovery::WaitForSlot,
            Some("ERR") if text.contains("non local key") => Recovery::WaitForSlot,
            Some("READONLY" | "CLUSTERDOWN" | "MASTERDOWN") => Recovery::FindServer,
            _ if error.is_unrecoverable_error() || error.is_timeout() => Recovery::FindServer,
            _ => Recovery::None,
        };
        // A server that became a replica keeps its connections open, but its name may resolve to another server now.
        let connection_lost =
            error.is_unrecoverable_error() || error.is_timeout() || code.as_deref() == Some("READONLY");
        let error = match code.as_deref() {
            // The server answers these before it executes anything.
            Some("OOM") => StoreError::Full(text),
            Some(
                "READONLY" | "MISCONF" | "NOREPLICAS" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY" | "MOVED"
                | "ASK" | "TRYAGAIN",
            ) => StoreError::Refusing(text),
            Some("WRONGTYPE" | "CORRUPT") => StoreError::Corrupt(text),
            _ if recovery == Recovery::WaitForSlot => StoreError::Refusing(text),
            // In a cluster that is down, the commands inside the function fail with this text.
            Some("ERR") if text.contains("cluster is down") => StoreError::Refusing(text),
            // The function itself failed. It fails only on contents it cannot read, and before it writes.
            Some("ERR") if functions.is_named_in(&text) => StoreError::Corrupt(text),
            Some("ERR") if text.contains("unknown command") && text.contains("FUNCTION") => StoreError::Misconfigured(
                format!("{address}: teamwire requires Redis 7.0 or newer, or Valkey: {error}"),
            ),
            _ => misconfigured(error, address, code.as_deref()).unwrap_or(StoreError::Unavailable(text)),
        };
        Self { error, recovery, connection_lost }
    }
}

/// Explains an error that lasts until a person changes the store's URL or the server's users.
fn misconfigured(error: &RedisError, address: &str, code: Option<&str>) -> Option<StoreError> {
    let why = match code {
        _ if error.kind() == ErrorKind::AuthenticationFailed => {
            format!("{address} does not accept the user and password in the store URL: correct them ({error})")
        }
        // Before a client has authenticated, the server also refuses commands that are as long as our library.
        _ if code == Some("NOAUTH") || error.to_string().contains("unauthenticated bulk length") => {
            format!("{address} requires a password: write it into the store URL, as redis://[USER]:PASSWORD@HOST")
        }
        Some("NOPERM") => format!("{address}: the user in the store URL lacks a right that teamwire needs: {error}"),
        // The client's own text; the server's code is the general ERR.
        _ if error.to_string().contains("refused to switch database") => {
            format!("{address} does not have the database in the store URL: name one that it has ({error})")
        }
        _ => return None,
    };
    Some(StoreError::Misconfigured(why))
}

impl From<StoreError> for CallError {
    /// Classifies a failure to connect: another server may have taken over.
    fn from(error: StoreError) -> Self {
        Self { error, recovery: Recovery::FindServer, connection_lost: true }
    }
}

/// Returns whether the server lacks the function, in which case the call was not executed.
pub(super) fn is_function_missing(error: &RedisError) -> bool {
    code(error).as_deref() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains("Function not found"))
}

/// Returns whether the server's memory is full. The call was not executed.
pub(super) fn is_full(error: &RedisError) -> bool {
    code(error).as_deref() == Some("OOM")
}

/// Returns the error code (the first word) of the server's answer, or of its first failed command in a pipeline.
pub(super) fn code(error: &RedisError) -> Option<String> {
    // Take the first command's error: the error of the whole transaction is an uninformative EXECABORT.
    match error.clone().into_server_errors() {
        Some(errors) => errors.first().map(|(_, error)| error.code().to_owned()),
        None => error.code().map(str::to_owned),
    }
}

fn moved_to(error: &RedisError) -> Option<String> {
    let errors = error.clone().into_server_errors()?;
    let detail = errors.first()?.1.details()?;
    detail.split_ascii_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use redis::ServerError;

    use super::*;

    fn failed(answer: &str) -> CallError {
        let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        let error: ServerError = match value {
            redis::Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        };
        CallError::new(&error.into(), "here", &FunctionLibrary::new())
    }

    #[test]
    fn errors_before_execution_are_distinguished_from_unknown_outcomes() {
        assert!(matches!(failed("OOM x").error, StoreError::Full(_)));
        for refused in ["READONLY", "MISCONF", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "BUSY"] {
            assert!(matches!(failed(&format!("{refused} x")).error, StoreError::Refusing(_)), "{refused}");
        }
        for corrupt in [
            "WRONGTYPE x".to_owned(),
            "CORRUPT x".to_owned(),
            format!("ERR x {}", FunctionLibrary::new().name_of(crate::store::redis::functions::Function::Commit)),
        ] {
            assert!(matches!(failed(&corrupt).error, StoreError::Corrupt(_)), "{corrupt}");
        }
        for unknown in ["ERR x", "SOMETHING new"] {
            assert!(matches!(failed(unknown).error, StoreError::Unavailable(_)), "{unknown}");
        }
        for denied in ["NOAUTH x", "NOPERM x", "ERR Protocol error: unauthenticated bulk length"] {
            assert!(matches!(failed(denied).error, StoreError::Misconfigured(_)), "{denied}");
        }
    }

    #[test]
    fn moved_or_migrating_slot_is_recoverable() {
        assert_eq!(failed("MOVED 7 10.0.0.1:7000").recovery, Recovery::Redirect("10.0.0.1:7000".to_owned()));
        assert_eq!(failed("MOVED 7 :7000").recovery, Recovery::Redirect(":7000".to_owned()));
        for migrating in [
            "ASK 7 10.0.0.1:7000".to_owned(),
            "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
            format!(
                "ERR Script attempted to access a non local key script: {}",
                FunctionLibrary::new().name_of(crate::store::redis::functions::Function::Commit)
            ),
        ] {
            let failed = failed(&migrating);
            assert_eq!(failed.recovery, Recovery::WaitForSlot, "{migrating}");
            assert!(matches!(failed.error, StoreError::Refusing(_)), "{migrating}");
        }
        for retry in ["READONLY x", "CLUSTERDOWN x"] {
            assert_eq!(failed(retry).recovery, Recovery::FindServer, "{retry}");
        }
        assert_eq!(failed("OOM x").recovery, Recovery::None);
    }
}
