//! The one table of reasons: what can be refused, and with which gRPC code.

use std::{fmt, str::FromStr};

use tonic::Code;

/// The domain of every `google.rpc.ErrorInfo` of teamwire.
pub const DOMAIN: &str = "teamwire";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal => $code:ident,)*) => {
        /// Why a call was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the reason as it stands in `google.rpc.ErrorInfo`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the gRPC code that goes with the reason.
            pub const fn code(self) -> Code {
                match self { $(Self::$variant => Code::$code,)* }
            }
        }
    };
}

reasons! {
    /// The message's type is missing or unknown.
    InvalidType = "INVALID_TYPE" => InvalidArgument,
    /// A recipient is needed and was not given.
    MissingRecipient = "MISSING_RECIPIENT" => InvalidArgument,
    /// A recipient was given where none belongs.
    UnexpectedRecipient = "UNEXPECTED_RECIPIENT" => InvalidArgument,
    /// The recipient is not in the roster.
    AgentNotFound = "AGENT_NOT_FOUND" => NotFound,
    /// The recipient has exited, or is about to.
    AgentExited = "AGENT_EXITED" => FailedPrecondition,
    /// The recipient is the sender.
    SelfRecipient = "SELF_RECIPIENT" => InvalidArgument,
    /// The recipient was addressed in another team.
    TeamMismatch = "TEAM_MISMATCH" => InvalidArgument,
    /// A name is malformed or reserved.
    InvalidName = "INVALID_NAME" => InvalidArgument,
    /// The content is empty.
    MissingContent = "MISSING_CONTENT" => InvalidArgument,
    /// The content is over its limit.
    ContentTooLarge = "CONTENT_TOO_LARGE" => InvalidArgument,
    /// The summary is empty.
    MissingSummary = "MISSING_SUMMARY" => InvalidArgument,
    /// The summary is not one line, or too long.
    InvalidSummary = "INVALID_SUMMARY" => InvalidArgument,
    /// An attachment is malformed, or there are too many.
    InvalidAttachment = "INVALID_ATTACHMENT" => InvalidArgument,
    /// A message's id is malformed.
    InvalidMessageId = "INVALID_MESSAGE_ID" => InvalidArgument,
    /// Another field is out of its bounds; the field violation names it.
    InvalidField = "INVALID_FIELD" => InvalidArgument,
    /// JSON could not be read.
    InvalidJson = "INVALID_JSON" => InvalidArgument,
    /// A request's id is missing or malformed.
    InvalidRequestId = "INVALID_REQUEST_ID" => InvalidArgument,
    /// No such request in the caller's team. Travels as INVALID_REQUEST_ID with NOT_FOUND.
    RequestNotFound = "INVALID_REQUEST_ID" => NotFound,
    /// No such message, or not the caller's to see.
    MessageNotFound = "MESSAGE_NOT_FOUND" => NotFound,
    /// The request is of the other kind.
    RequestKindMismatch = "REQUEST_KIND_MISMATCH" => FailedPrecondition,
    /// `approve` was not given.
    ApproveMissing = "APPROVE_MISSING" => InvalidArgument,
    /// The caller is not the member that was asked.
    NotRequestTarget = "NOT_REQUEST_TARGET" => PermissionDenied,
    /// The plan's author is another member.
    RecipientMismatch = "RECIPIENT_MISMATCH" => InvalidArgument,
    /// The request was decided the other way.
    AlreadyDecided = "ALREADY_DECIDED" => FailedPrecondition,
    /// The request has expired.
    RequestExpired = "REQUEST_EXPIRED" => FailedPrecondition,
    /// The request was cancelled.
    RequestCancelled = "REQUEST_CANCELLED" => FailedPrecondition,
    /// A shutdown request is pending for the member.
    ShutdownPending = "SHUTDOWN_PENDING" => AlreadyExists,
    /// Only the lead and the operator may do this.
    LeadOnly = "LEAD_ONLY" => PermissionDenied,
    /// Only the operator may do this.
    OperatorOnly = "OPERATOR_ONLY" => PermissionDenied,
    /// The kind of credential does not permit this.
    NotPermitted = "NOT_PERMITTED" => PermissionDenied,
    /// A plan must be approved first.
    PlanRequired = "PLAN_REQUIRED" => FailedPrecondition,
    /// No credential was given.
    CredentialMissing = "CREDENTIAL_MISSING" => Unauthenticated,
    /// The credential is not known.
    CredentialInvalid = "CREDENTIAL_INVALID" => Unauthenticated,
    /// The credential has expired.
    CredentialExpired = "CREDENTIAL_EXPIRED" => Unauthenticated,
    /// The join token has been used up.
    JoinTokenUsed = "JOIN_TOKEN_USED" => Unauthenticated,
    /// The join token has expired.
    JoinTokenExpired = "JOIN_TOKEN_EXPIRED" => Unauthenticated,
    /// A newer session, or a newer life of the member, holds.
    SessionSuperseded = "SESSION_SUPERSEDED" => Aborted,
    /// This life of the member has ended.
    MemberStopped = "MEMBER_STOPPED" => FailedPrecondition,
    /// The idempotency key is malformed.
    InvalidIdempotencyKey = "INVALID_IDEMPOTENCY_KEY" => InvalidArgument,
    /// The idempotency key went with another payload before.
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED" => AlreadyExists,
    /// No such team, or not the caller's.
    TeamNotFound = "TEAM_NOT_FOUND" => NotFound,
    /// A team of this name exists.
    TeamExists = "TEAM_EXISTS" => AlreadyExists,
    /// Members are live.
    TeamHasActiveMembers = "TEAM_HAS_ACTIVE_MEMBERS" => FailedPrecondition,
    /// A live member bears the name.
    MemberExists = "MEMBER_EXISTS" => AlreadyExists,
    /// The present lead is live.
    LeadActive = "LEAD_ACTIVE" => FailedPrecondition,
    /// No such task in the caller's team.
    TaskNotFound = "TASK_NOT_FOUND" => NotFound,
    /// Another member has claimed the task, or it is assigned to another member.
    TaskClaimed = "TASK_CLAIMED" => FailedPrecondition,
    /// The task waits for others.
    TaskBlocked = "TASK_BLOCKED" => FailedPrecondition,
    /// The task is completed or deleted.
    TaskClosed = "TASK_CLOSED" => FailedPrecondition,
    /// The task has changed since the caller has seen it.
    TaskChanged = "TASK_CHANGED" => Aborted,
    /// Tasks would wait for each other.
    TaskCycle = "TASK_CYCLE" => InvalidArgument,
    /// The claim's token is not that of the present claim.
    StaleClaim = "STALE_CLAIM" => Aborted,
    /// A recipient's inbox is full.
    InboxFull = "INBOX_FULL" => ResourceExhausted,
    /// Too many calls in too short a time.
    RateLimited = "RATE_LIMITED" => ResourceExhausted,
    /// A limit of the team is reached.
    QuotaExceeded = "QUOTA_EXCEEDED" => ResourceExhausted,
    /// The subscriber did not read.
    SlowConsumer = "SLOW_CONSUMER" => ResourceExhausted,
    /// The store cannot be reached, is read-only or out of memory.
    StoreUnavailable = "STORE_UNAVAILABLE" => Unavailable,
    /// The change was made, but not as durably as was asked for.
    DurabilityNotReached = "DURABILITY_NOT_REACHED" => Unavailable,
    /// This coordinator is going away.
    Draining = "DRAINING" => Unavailable,
    /// A fault of the coordinator itself.
    Internal = "INTERNAL" => Internal,
}

impl Reason {
    /// Returns whether the same call, with the same idempotency key, may succeed later.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::StoreUnavailable
                | Self::DurabilityNotReached
                | Self::Draining
                | Self::InboxFull
                | Self::RateLimited
                | Self::SlowConsumer
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no reason of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownReason;

impl FromStr for Reason {
    type Err = UnknownReason;

    /// Reads the text of a reason. Of the two that share `INVALID_REQUEST_ID` it returns the first.
    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == text).ok_or(UnknownReason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_reads_back_as_itself() {
        for reason in Reason::ALL {
            let read: Reason = reason.as_str().parse().expect("a reason's own text");
            assert_eq!(read.as_str(), reason.as_str());
            assert!(read == *reason || *reason == Reason::RequestNotFound);
        }
    }
}
