//! How a program exited, why its incarnation ended, and the exit code that the runner makes of both.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use teamwire_client::{Closed, Error};
use teamwire_proto::{
    Reason,
    v1::{self, RunnerAction},
    word,
};

/// The exit codes of a runner that are not its program's.
pub mod exit_code {
    /// The shutdown was approved, the team was deleted, or the program succeeded.
    pub const OK: u8 = 0;
    /// The configuration cannot be used.
    pub const USAGE: u8 = 64;
    /// The coordinator could not be reached at startup.
    pub const UNREACHABLE: u8 = 69;
    /// The coordinator may not know how this ended; or another incarnation of the name has not ended yet, which may
    /// change soon.
    pub const OUTCOME_UNKNOWN: u8 = 75;
    /// The coordinator does not permit this, or no longer does.
    pub const NOT_PERMITTED: u8 = 77;
    /// The program cannot be executed.
    pub const CANNOT_EXECUTE: u8 = 126;
    /// There is no such program.
    pub const NOT_FOUND: u8 = 127;
}

pub(crate) use self::exit_code::{CANNOT_EXECUTE, NOT_FOUND};
use self::exit_code::{NOT_PERMITTED, OK, OUTCOME_UNKNOWN, UNREACHABLE, USAGE};

/// How a runner ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerExit {
    /// The exit code for the runner's process.
    ///
    /// - 0: the shutdown was approved, the team was deleted, or the program succeeded.
    /// - The program's own code, if it exited by itself or after a signal to the runner; 128 plus the signal's number,
    ///   if a signal killed it; 127 or 126, if it could not be started.
    /// - 64: the configuration cannot be used.
    /// - 69: the coordinator could not be reached at startup.
    /// - 75: the outcome of the last call is unknown, or another incarnation of the name has not ended yet.
    /// - 77: not permitted to join, or to continue because the member was stopped by force, its credential was revoked,
    ///   or another process took over.
    pub code: u8,
    /// Why, in words for a person.
    pub detail: String,
}

/// How a process exited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Its exit code. `None` if a signal killed it.
    pub(crate) code: Option<i32>,
    /// The signal's number. Zero means none.
    pub(crate) signal: i32,
    /// How long it ran.
    pub(crate) duration: Duration,
    /// What the runner did to end it.
    pub(crate) action: RunnerAction,
    /// What else is to be said. Usually empty.
    pub(crate) detail: String,
    /// The last lines that it wrote to its error output, as one line, if it failed by itself.
    pub(crate) last_words: String,
}

impl Exit {
    /// Reads a process's status.
    pub(crate) fn of(status: ExitStatus, duration: Duration, action: RunnerAction) -> Self {
        let (code, signal) = (status.code(), status.signal().unwrap_or_default());
        Self { code, signal, duration, action, ..Self::default() }
    }

    /// Returns the exit of a member that had no program running.
    pub(crate) fn without_program() -> Self {
        Self { code: Some(0), action: RunnerAction::None, ..Self::default() }
    }

    /// Returns the exit of a program that could not be started, with the codes that shells use.
    pub(crate) fn not_started(error: &std::io::Error) -> Self {
        let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
        let detail = format!("The program could not be started: {error}.");
        Self { code: Some(code.into()), action: RunnerAction::None, detail, ..Self::default() }
    }

    /// Returns whether the exit code is 0.
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns how it ended, in a few words.
    pub(crate) fn text(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("the program ended with code {code}"),
            (None, signal) => format!("the program was ended by signal {signal}"),
        }
    }

    /// Returns the exit code that a shell would report.
    pub(crate) fn shell_code(&self) -> u8 {
        let code = self.code.unwrap_or(128 + self.signal);
        u8::try_from(code).unwrap_or(u8::MAX)
    }

    /// Returns the exit as it is reported to the coordinator.
    pub(crate) fn report(&self) -> v1::ExitReport {
        v1::ExitReport {
            code: self.code,
            signal: self.signal,
            duration: prost_types::Duration::try_from(self.duration).ok(),
            // The protocol asks for one line of up to 200 characters.
            detail: if self.detail.is_empty() { &self.last_words } else { &self.detail }
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect(),
            runner_action: self.action.into(),
            ..v1::ExitReport::default()
        }
    }
}

/// Why an incarnation ended.
#[derive(Debug, Default)]
pub(crate) enum Why {
    /// The program exited by itself.
    #[default]
    Exited,
    /// Its shutdown was approved.
    Approved,
    /// The program has called Leave.
    Left,
    /// A person takes over the session. The incarnation goes on without a program.
    HandedOver,
    /// The program did not end its turn when it was interrupted. The incarnation goes on with another process of it.
    IgnoredInterrupt,
    /// The runner was asked to stop.
    Stopped,
    /// The subscription was ended for good.
    Closed(Closed),
    /// The coordinator refused the subscription.
    Refused(Error),
}

impl Why {
    /// Returns whether the member itself agreed to end, so that its program gets time to finish.
    pub(crate) fn is_agreed(&self) -> bool {
        matches!(self, Self::Approved | Self::Left | Self::HandedOver)
    }

    /// Returns whether the member continues: with a later runner, or with the one that has replaced this one.
    pub(crate) fn leaves_member(&self) -> bool {
        matches!(
            self,
            Self::Stopped | Self::Refused(_) | Self::Closed(Closed::Superseded | Closed::Dropped | Closed::Refused(_))
        )
    }

    /// Returns whether the runner must report the exit. A process that another one has replaced may still hold its
    /// credential, but the incarnation is no longer its own.
    pub(crate) fn is_reported(&self) -> bool {
        match self {
            Self::Exited | Self::Approved | Self::Left | Self::Stopped | Self::Closed(Closed::MemberStopped) => true,
            Self::HandedOver | Self::IgnoredInterrupt | Self::Closed(_) | Self::Refused(_) => false,
        }
    }
}

/// The end of an incarnation.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// Why it ended.
    pub(crate) why: Why,
    /// How the program exited. `None` if no program was running.
    pub(crate) exit: Option<Exit>,
    /// `true` if something that the program said was not confirmed.
    pub(crate) is_outcome_unknown: bool,
    /// `true` if the program would probably fail in the same way again, because it was never ready to work or has said
    /// so. It is not restarted.
    pub(crate) is_final: bool,
}

impl End {
    /// Returns how the runner ends. `is_report_lost`: its report of the exit may not have arrived.
    pub(crate) fn runner_exit(&self, is_report_lost: bool) -> RunnerExit {
        let exit = self.exit.clone().unwrap_or_else(Exit::without_program);
        let (code, detail) = match &self.why {
            Why::Exited | Why::Stopped if self.is_outcome_unknown => {
                (OUTCOME_UNKNOWN, "The program's last message may not have been sent. Check its receipts.".to_owned())
            }
            Why::Approved => (OK, format!("The member {}.", word::approved_exit(&exit.report()))),
            Why::Left => (OK, format!("The member has left: {}.", word::exit(&exit.report()))),
            Why::Exited if exit.detail.is_empty() => (exit.shell_code(), "The program has ended.".to_owned()),
            Why::Exited => (exit.shell_code(), exit.detail),
            Why::Stopped | Why::HandedOver | Why::IgnoredInterrupt => {
                (exit.shell_code(), "The runner was asked to stop.".to_owned())
            }
            Why::Closed(Closed::TeamDeleted) => (OK, "The team was deleted.".to_owned()),
            Why::Closed(Closed::DataLost) => (NOT_PERMITTED, format!("The member is gone: {}.", Closed::DataLost)),
            Why::Closed(closed) => (NOT_PERMITTED, format!("The member is no longer this process: {closed}.")),
            Why::Refused(error) => (if error.is_forbidden() { NOT_PERMITTED } else { UNREACHABLE }, error.to_string()),
        };
        if is_report_lost {
            let detail = format!("{detail} The exit could not be reported to the coordinator.");
            return RunnerExit { code: OUTCOME_UNKNOWN, detail };
        }
        RunnerExit { code, detail }
    }
}

/// Returns how a runner ends whose program ended before it was ready.
pub(crate) fn not_ready(exit: &Exit) -> RunnerExit {
    let said = [&exit.detail, &exit.last_words].into_iter().find(|said| !said.is_empty());
    let detail = match said {
        Some(said) => format!("The program ended before it was ready: {said}"),
        None => "The program ended before it was ready.".to_owned(),
    };
    RunnerExit { code: exit.shell_code(), detail }
}

/// Returns how a runner ends that could not join.
pub(crate) fn not_joined(error: &Error) -> RunnerExit {
    let code = match error {
        Error::Refused(refusal) if refusal.reason.is_retryable() => OUTCOME_UNKNOWN,
        Error::Refused(refusal) if refusal.reason == Reason::MemberExists => OUTCOME_UNKNOWN,
        Error::Refused(refusal) if refusal.field.is_some() => USAGE,
        Error::Refused(_) => NOT_PERMITTED,
        Error::OutcomeUnknown { .. } => OUTCOME_UNKNOWN,
        Error::Address { .. } | Error::Credential | Error::TlsOptions(_) | Error::Context(_) => USAGE,
        // Unreachable, Insecure, Unexpected, Closed, and kinds of error that a later client adds.
        _ => UNREACHABLE,
    };
    RunnerExit { code, detail: error.to_string() }
}

#[cfg(test)]
mod tests {
    use teamwire_proto::Refusal;

    use super::*;

    fn code(why: Why, exit: Option<Exit>) -> u8 {
        End { why, exit, ..End::default() }.runner_exit(false).code
    }

    fn exited(code: i32) -> Option<Exit> {
        Some(Exit { code: Some(code), ..Exit::default() })
    }

    fn killed(signal: i32) -> Option<Exit> {
        Some(Exit { signal, ..Exit::default() })
    }

    #[test]
    fn the_exit_code_says_why_the_runner_ended() {
        assert_eq!(code(Why::Exited, exited(0)), 0);
        assert_eq!(code(Why::Exited, exited(3)), 3);
        assert_eq!(code(Why::Exited, killed(9)), 137);
        assert_eq!(code(Why::Approved, killed(15)), 0);
        assert_eq!(code(Why::Left, exited(4)), 0);
        assert_eq!(code(Why::Stopped, killed(15)), 143);
        assert_eq!(code(Why::Stopped, exited(0)), 0);
        assert_eq!(code(Why::Stopped, None), 0);
        assert_eq!(code(Why::Closed(Closed::MemberStopped), killed(9)), 77);
        assert_eq!(code(Why::Closed(Closed::Superseded), killed(15)), 77);
        assert_eq!(code(Why::Closed(Closed::TeamDeleted), killed(15)), 0);
        assert_eq!(code(Why::Closed(Closed::DataLost), killed(15)), 77);
        let refused = Error::Refused(Refusal::new(Reason::CredentialInvalid, "no"));
        assert_eq!(code(Why::Refused(refused), killed(15)), 77);
    }

    #[test]
    fn an_unconfirmed_end_has_an_unknown_outcome() {
        for why in [Why::Exited, Why::Approved] {
            let end = End { why, exit: exited(0), ..End::default() };
            assert_eq!(end.runner_exit(true).code, 75);
        }
        assert_eq!(
            End { why: Why::Exited, exit: exited(0), is_outcome_unknown: true, ..End::default() }
                .runner_exit(false)
                .code,
            75
        );
    }

    #[test]
    fn a_runner_that_cannot_join_says_why() {
        let refused = |reason| not_joined(&Error::Refused(Refusal::new(reason, "no"))).code;
        assert_eq!(refused(Reason::JoinTokenUsed), 77);
        assert_eq!(refused(Reason::MemberExists), 75);
        assert_eq!(refused(Reason::StoreUnavailable), 75);
        let named = Error::Refused(Refusal::new(Reason::InvalidName, "no").field("name"));
        assert_eq!(not_joined(&named).code, 64);
        assert_eq!(
            not_joined(&Error::Unreachable { address: String::new(), detail: String::new(), is_refused: true }).code,
            69
        );
    }

    #[test]
    fn a_program_that_cannot_be_started_exits_as_in_a_shell() {
        let error = |kind| std::io::Error::from(kind);
        assert_eq!(Exit::not_started(&error(std::io::ErrorKind::NotFound)).shell_code(), 127);
        assert_eq!(Exit::not_started(&error(std::io::ErrorKind::PermissionDenied)).shell_code(), 126);
    }
}
