//! What went wrong, for a reader or a program, and the exit code that says so.

use std::io;

use teamwire_client::{Error, Refusal};
use teamwire_proto::Reason;

/// The command line was wrong, or its input.
pub const USAGE: u8 = 64;
/// No coordinator answered.
pub const UNREACHABLE: u8 = 69;
/// Whether it was done is not known.
pub const OUTCOME_UNKNOWN: u8 = 75;
/// The credential does not permit it.
pub const NOT_PERMITTED: u8 = 77;
/// Anything else was refused.
pub const REFUSED: u8 = 1;
/// The member or the lead said no.
pub const REJECTED: u8 = 3;
/// A request ended without an answer: it expired or was cancelled.
pub const UNANSWERED: u8 = 4;
/// What was waited for has not happened in time.
pub const NOT_IN_TIME: u8 = 5;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// A call failed.
    Call(Error),
    /// Something else, with the exit code that says what.
    Other { code: u8, message: String },
}

impl Failure {
    /// The command line or its input was wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Other { code: USAGE, message: message.into() }
    }

    /// Something on this machine went wrong.
    pub fn local(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Other { code: REFUSED, message: format!("{what}: {error}") }
    }

    /// Ends with an exit code and a text.
    pub fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self::Other { code, message: message.into() }
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Other { code, .. } => *code,
            Self::Call(error) if error.is_forbidden() => NOT_PERMITTED,
            Self::Call(Error::Refused(refusal)) => match refusal.reason {
                Reason::StoreUnavailable | Reason::Draining => UNREACHABLE,
                reason if reason.code() == Reason::InvalidField.code() => USAGE,
                _ => REFUSED,
            },
            Self::Call(Error::Unreachable { .. } | Error::Insecure { .. } | Error::Unexpected { .. }) => UNREACHABLE,
            Self::Call(Error::OutcomeUnknown { .. }) => OUTCOME_UNKNOWN,
            Self::Call(Error::Address { .. } | Error::TlsOptions(_) | Error::Context(_)) => USAGE,
            Self::Call(_) => REFUSED,
        }
    }

    /// Prints it to standard error: a sentence for a reader, or an object for a program.
    pub fn print(&self, json: bool) {
        let refusal = match self {
            Self::Call(Error::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        if json {
            anstream::eprintln!("{}", self.to_json(refusal));
            return;
        }
        let message = match self {
            Self::Call(error) => error.to_string(),
            Self::Other { message, .. } => message.clone(),
        };
        let red = anstyle::AnsiColor::Red.on_default().bold();
        let dim = anstyle::Style::new().dimmed();
        match refusal {
            Some(refusal) => {
                let field = refusal.field.as_ref().map_or_else(String::new, |field| format!(", {field}"));
                anstream::eprintln!("{red}error:{red:#} {message} {dim}({}{field}){dim:#}", refusal.reason);
            }
            None => anstream::eprintln!("{red}error:{red:#} {message}"),
        }
    }

    fn to_json(&self, refusal: Option<&Refusal>) -> serde_json::Value {
        let message = match self {
            Self::Call(error) => error.to_string(),
            Self::Other { message, .. } => message.clone(),
        };
        let mut error = serde_json::json!({ "message": message, "exit_code": self.code() });
        if let Some(refusal) = refusal {
            error["reason"] = refusal.reason.as_str().into();
            error["code"] = format!("{:?}", refusal.reason.code()).into();
            error["metadata"] = serde_json::json!(refusal.metadata);
            if let Some(field) = &refusal.field {
                error["field"] = field.as_str().into();
            }
            if let Some(after) = refusal.retry_after {
                error["retry_after_ms"] = u64::try_from(after.as_millis()).unwrap_or(u64::MAX).into();
            }
        }
        serde_json::json!({ "error": error })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Call(Error::Refused(refusal))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::local("reading or writing failed", error)
    }
}
