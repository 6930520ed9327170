//! Failures of a command: the message for a person, the JSON for a program, and the exit code.

use std::io;

use teamwire_agents::visible::{json_line, shown};
use teamwire_client::{Error, Refusal};
use teamwire_proto::{Method, Reason, address::Address};

/// The command line or its input is wrong (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// No coordinator answered (`EX_UNAVAILABLE`).
pub(crate) const UNREACHABLE: u8 = 69;
/// The outcome is unknown: the call may or may not have taken effect (`EX_TEMPFAIL`).
pub(crate) const OUTCOME_UNKNOWN: u8 = 75;
/// The credential does not permit the call (`EX_NOPERM`).
pub(crate) const NOT_PERMITTED: u8 = 77;
/// The coordinator refused the call for any other reason, or something on this machine failed.
pub(crate) const REFUSED: u8 = 1;
/// The member, the lead or the host rejected the request.
pub(crate) const REJECTED: u8 = 3;
/// The request expired or was cancelled before it was answered.
pub(crate) const UNANSWERED: u8 = 4;
/// The awaited event did not happen in time.
pub(crate) const NOT_IN_TIME: u8 = 5;
/// What the command waited for cannot come any more: a member, its runner or its host was lost, or has exited.
pub(crate) const LOST: u8 = 6;
/// The user stopped waiting with Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A call failed.
    Call(Error),
    /// The command is only for members, and the caller is none; exit code [`USAGE`].
    NotAMember,
    /// Anything else, with its exit code.
    Other { code: u8, message: String },
}

impl Failure {
    /// Creates a failure for a wrong command line, input or configuration; exit code [`USAGE`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Other { code: USAGE, message: message.into() }
    }

    /// Creates a failure of something on this machine, such as a file; exit code [`REFUSED`].
    pub(crate) fn local(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Other { code: REFUSED, message: format!("{what}: {error}") }
    }

    /// Creates a failure with the given exit code.
    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self::Other { code, message: message.into() }
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Other { code, .. } => *code,
            Self::NotAMember => USAGE,
            Self::Call(error) if error.is_forbidden() => NOT_PERMITTED,
            Self::Call(Error::Refused(refusal)) => match refusal.reason {
                Reason::StoreUnavailable | Reason::Draining => UNREACHABLE,
                Reason::AnswererLost => LOST,
                reason if reason.code() == Reason::InvalidField.code() => USAGE,
                _ => REFUSED,
            },
            Self::Call(Error::Unreachable { .. } | Error::Insecure { .. } | Error::Unexpected { .. }) => UNREACHABLE,
            Self::Call(Error::OutcomeUnknown { .. }) => OUTCOME_UNKNOWN,
            Self::Call(Error::Address { .. } | Error::TlsOptions(_) | Error::Context(_)) => USAGE,
            Self::Call(_) => REFUSED,
        }
    }

    /// Returns whether the coordinator is one of this machine that does not run.
    pub(crate) fn is_no_coordinator_here(&self) -> bool {
        matches!(self, Self::Call(Error::Unreachable { address, is_refused: true, .. }) if is_local(address))
    }

    /// Returns the sentence for a person.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Call(Error::Unreachable { address, .. }) if self.is_no_coordinator_here() => format!(
                "Nothing listens at {address}{}. `teamwire up` starts a team with its coordinator, `teamwire serve` only a coordinator.",
                if address.starts_with("unix:") { ", which leads to the coordinator of this user only" } else { "" }
            ),
            Self::Call(Error::OutcomeUnknown { call, detail, .. }) => format!(
                "It is not known whether {call} was carried out: {}. {}",
                detail.trim_end_matches('.'),
                after_unknown_outcome(call)
            ),
            Self::Call(error) => error.to_string(),
            Self::NotAMember => {
                "This command needs a member's identity. Choose one with --as NAME, or join a team with \
                                 `teamwire join`."
                    .to_owned()
            }
            Self::Other { message, .. } => message.clone(),
        }
    }

    /// Prints the failure to standard error: a sentence for a person or, with `json`, an object for a program.
    pub(crate) fn print(&self, json: bool) {
        let refusal = match self {
            Self::Call(Error::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        if json {
            anstream::eprintln!("{}", json_line(&self.to_json(refusal)));
            return;
        }
        let message = shown(&self.message());
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
        let mut error = serde_json::json!({ "message": self.message(), "exit_code": self.code() });
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

/// Says what to do about a call that may have been carried out, in terms of the command line.
fn after_unknown_outcome(call: &str) -> String {
    let method = Method::ALL.iter().find(|method| method.name() == call);
    let check = match (method, method.map(|method| method.service())) {
        (Some(Method::CreateTeam | Method::DeleteTeam), _) => "team list",
        (_, Some("TaskService")) => "task list",
        (_, Some("RequestService")) => "requests",
        (_, Some("TeamService")) => "status",
        _ => "history",
    };
    format!("Check with `teamwire {check}` before you repeat it.")
}

/// Returns whether all of the addresses, separated by commas, are on this machine.
pub(crate) fn is_local(addresses: &str) -> bool {
    Address::parse_list(addresses).is_ok_and(|addresses| addresses.iter().all(Address::is_loopback))
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
        Self::local("Cannot read or write a file", error)
    }
}
