//! What went wrong with a call, and what may still be done about it.

use redis::RedisError;

use super::functions::FunctionLibrary;
use crate::store::StoreError;

/// A call that failed.
#[derive(Clone, Debug)]
pub(super) struct CallError {
    /// What the caller is told in the end.
    pub(super) error: StoreError,
    /// What may help.
    pub(super) recovery: Recovery,
    /// Whether the connection is of no more use.
    pub(super) lost: bool,
}

/// What may help after a call has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Nothing.
    None,
    /// The server is gone, or is not the one to write to: see whether another one has taken its place.
    FindServer,
    /// Another node of the cluster has the slot: `HOST:PORT`, where no host means that of the node that said so.
    /// Nothing was carried out.
    Redirect(String),
    /// The slot is on its way to another node, and what the call needs is not all in one place. Nothing was carried out.
    WaitForSlot,
}

impl CallError {
    /// Reads an error of the server at `address`.
    pub(super) fn new(error: &RedisError, address: &str, library: &FunctionLibrary) -> Self {
        let text = format!("{address}: {error}");
        let code = code(error);
        let recovery = match code.as_deref() {
            Some("MOVED") => moved_to(error).map_or(Recovery::FindServer, Recovery::Redirect),
            // A function reads keys that are known only once it runs, so that no node but the one that has the whole slot
            // may run it; see commit.lua. Hence nobody follows an ASK.
            Some("ASK" | "TRYAGAIN") => Recovery::WaitForSlot,
            Some("ERR") if text.contains("non local key") => Recovery::WaitForSlot,
            Some("READONLY" | "CLUSTERDOWN" | "MASTERDOWN") => Recovery::FindServer,
            _ if error.is_unrecoverable_error() || error.is_timeout() => Recovery::FindServer,
            _ => Recovery::None,
        };
        // A server that has become a replica keeps its connections; its name may lead elsewhere by now.
        let lost = error.is_unrecoverable_error() || error.is_timeout() || code.as_deref() == Some("READONLY");
        let error = match code.as_deref() {
            // Said before anything was carried out.
            Some(
                "OOM" | "READONLY" | "MISCONF" | "NOREPLICAS" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "BUSY"
                | "MOVED" | "ASK" | "TRYAGAIN",
            ) => StoreError::Refusing(text),
            Some("WRONGTYPE" | "CORRUPT") => StoreError::Corrupt(text),
            _ if recovery == Recovery::WaitForSlot => StoreError::Refusing(text),
            // A node of a cluster that is down for all or for writes says so to the function itself, too.
            Some("ERR") if text.contains("cluster is down") => StoreError::Refusing(text),
            // The function itself failed, which it does on content that it cannot read, before it writes.
            Some("ERR") if library.is_named_in(&text) => StoreError::Corrupt(text),
            Some("ERR") if text.contains("unknown command") && text.contains("FUNCTION") => {
                StoreError::Unavailable(format!("{address}: Redis 7.0 or newer is needed: {error}"))
            }
            _ => StoreError::Unavailable(text),
        };
        Self { error, recovery, lost }
    }
}

impl From<StoreError> for CallError {
    /// There is no connection, so that another server may have taken over.
    fn from(error: StoreError) -> Self {
        Self { error, recovery: Recovery::FindServer, lost: true }
    }
}

/// Returns whether the server does not know the function, so that nothing was carried out.
pub(super) fn is_function_missing(error: &RedisError) -> bool {
    code(error).as_deref() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains("Function not found"))
}

/// Returns the first word of what the server answered, also where it answered to one command of several.
pub(super) fn code(error: &RedisError) -> Option<String> {
    // First, since the whole of several is an EXECABORT, which says nothing.
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
    #![allow(clippy::unwrap_used)]

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
    fn what_was_certainly_not_carried_out_is_told_from_what_may_have_been() {
        for refused in ["OOM", "READONLY", "MISCONF", "NOREPLICAS", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "BUSY"] {
            assert!(matches!(failed(&format!("{refused} x")).error, StoreError::Refusing(_)), "{refused}");
        }
        for corrupt in [
            "WRONGTYPE x".to_owned(),
            "CORRUPT x".to_owned(),
            format!("ERR x {}", FunctionLibrary::new().name_of(crate::store::redis::functions::Function::Commit)),
        ] {
            assert!(matches!(failed(&corrupt).error, StoreError::Corrupt(_)), "{corrupt}");
        }
        for unknown in ["ERR x", "NOAUTH x", "NOPERM x", "SOMETHING new"] {
            assert!(matches!(failed(unknown).error, StoreError::Unavailable(_)), "{unknown}");
        }
    }

    #[test]
    fn a_slot_elsewhere_or_on_its_way_is_no_failure_yet() {
        assert_eq!(failed("MOVED 7 10.0.0.1:7000").recovery, Recovery::Redirect("10.0.0.1:7000".to_owned()));
        assert_eq!(failed("MOVED 7 :7000").recovery, Recovery::Redirect(":7000".to_owned()));
        for on_its_way in [
            "ASK 7 10.0.0.1:7000".to_owned(),
            "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
            format!(
                "ERR Script attempted to access a non local key script: {}",
                FunctionLibrary::new().name_of(crate::store::redis::functions::Function::Commit)
            ),
        ] {
            let failed = failed(&on_its_way);
            assert_eq!(failed.recovery, Recovery::WaitForSlot, "{on_its_way}");
            assert!(matches!(failed.error, StoreError::Refusing(_)), "{on_its_way}");
        }
        for look in ["READONLY x", "CLUSTERDOWN x"] {
            assert_eq!(failed(look).recovery, Recovery::FindServer, "{look}");
        }
        assert_eq!(failed("OOM x").recovery, Recovery::None);
    }
}
