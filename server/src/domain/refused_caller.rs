//! The refusals of callers that are not who they must be.

use teamwire_proto::{Reason, Refusal, name::Name};

/// Returns the refusal of a caller that a newer process or session has replaced.
pub fn superseded(name: &Name) -> Refusal {
    Refusal::new(
        Reason::SessionSuperseded,
        format!("A newer process or session holds the name {name}. End this one; do not reconnect automatically."),
    )
}

/// Returns the refusal of a member's credential that was revoked.
pub fn revoked_member(name: &Name) -> Refusal {
    Refusal::new(
        Reason::CredentialRevoked,
        format!(
            "The credential of {name} was revoked. End this process. To come back, join with a new join string for this name: \
             `teamwire invite {name}`, by the lead or the operator."
        ),
    )
}

/// Returns the refusal of an operator's credential that was valid when its stream or waiting call began.
pub fn operator_replaced() -> Refusal {
    Refusal::new(
        Reason::CredentialRevoked,
        "The operator's credential was replaced. Use the new one, which the coordinator keeps in its state directory.",
    )
}

/// Returns the refusal of a session id that no coordinator has issued.
pub(super) fn unknown_session() -> Refusal {
    Refusal::new(
        Reason::InvalidField,
        "The session is not known: no stream of this member has ever had this id. Present the session_id of the stream's first \
         frame, or none.",
    )
    .field("session_id")
}

/// Returns the refusal of an unknown credential.
pub fn invalid() -> Refusal {
    Refusal::new(
        Reason::CredentialInvalid,
        "The credential is not valid here. Its team may have been deleted or lost with the coordinator's store, or the \
         address may be another coordinator's. Join again with a new token; an operator uses the current \
         credential, because an earlier one may have been replaced.",
    )
}

/// Returns the refusal of a call about a team that does not exist, or is not the caller's.
pub fn team_not_found(named: &str) -> Refusal {
    if named.is_empty() {
        return Refusal::new(Reason::TeamNotFound, "Name the team: the operator's credential does not belong to one.")
            .field("team");
    }
    Refusal::new(
        Reason::TeamNotFound,
        format!("There is no team \"{named}\" that this credential can reach. See `teamwire team list`."),
    )
    .field("team")
    .with("team", named)
}

pub(super) fn only_members() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a member can do this: the operator and observers have no inbox and no tasks. Use a member's credential.",
    )
}

/// Returns the refusal of a call that only a process may make.
pub(super) fn only_processes() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a process can do this, with the credential of its life: a sign-in to the console belongs to none.",
    )
}
