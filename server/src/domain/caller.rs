//! Callers: what a call presented, and who that is.

use teamwire_proto::{Reason, Refusal, credential::Credential, name::Name};

use super::{
    actor::Actor,
    secret::{SecretHash, SessionId},
};

/// The credentials that a call presented.
#[derive(Clone, Debug)]
pub struct CallerCredentials {
    /// The credential.
    pub credential: Credential,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The session that the caller says it has open.
    pub session_id: Option<SessionId>,
    /// The trace that the call belongs to, if it names one.
    pub trace_parent: Option<String>,
    /// Set once a console credential of the operator was looked up in the directory, which the rules of a team cannot
    /// read.
    pub operator_sign_in: Option<OperatorSignIn>,
}

impl CallerCredentials {
    /// Takes what a call presented, and hashes the credential's secret.
    pub fn new(credential: Credential, session_id: Option<SessionId>) -> Self {
        // A console credential belongs to no process, so it has no session.
        let has_session = !matches!(credential, Credential::Console { .. });
        let session_id = session_id.filter(|_| has_session);
        let hash = SecretHash::of(credential.secret());
        Self { hash, credential, session_id, trace_parent: None, operator_sign_in: None }
    }
}

/// A valid console credential that acts for the operator. Only [`identity::look_up`](super::identity::look_up) makes
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorSignIn {
    read_only: bool,
}

impl OperatorSignIn {
    pub(super) fn new(read_only: bool) -> Self {
        Self { read_only }
    }

    /// Returns whether it can only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
}

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The operator.
    Operator,
    /// A member.
    Member {
        /// Its name.
        name: Name,
        /// Whether it leads.
        lead: bool,
    },
    /// An observer.
    Observer,
}

impl Principal {
    /// Returns who acts when this caller changes something.
    pub fn actor(&self) -> Result<Actor, Refusal> {
        match self {
            Self::Operator => Ok(Actor::Operator),
            Self::Member { name, .. } => Ok(Actor::Member(name.clone())),
            Self::Observer => Err(Refusal::new(
                Reason::NotPermitted,
                "An observer's credential can only read. Use a member's credential to change something.",
            )),
        }
    }

    /// Returns whether the caller may see everything of the team.
    pub fn sees_all(&self) -> bool {
        !matches!(self, Self::Member { lead: false, .. })
    }

    /// Refuses observers, whichever member's texts they ask for.
    pub fn may_read_texts(&self) -> Result<(), Refusal> {
        if !matches!(self, Self::Observer) {
            return Ok(());
        }
        let text = "An observer's credential does not show what agents write. Use the lead's or the operator's.";
        Err(Refusal::new(Reason::NotPermitted, text))
    }

    /// Refuses everyone but the lead, the operator and the member itself: teammates must not read what each other's agents
    /// write.
    pub fn may_read_texts_of(&self, member: &Name) -> Result<(), Refusal> {
        match self {
            Self::Member { name, .. } if name == member => Ok(()),
            _ => self.lead_only(&format!("read what {member} wrote")).map(drop),
        }
    }

    /// Refuses everyone but the lead and the operator.
    pub fn lead_only(&self, what: &str) -> Result<Actor, Refusal> {
        match self {
            Self::Operator | Self::Member { lead: true, .. } => self.actor(),
            _ => Err(Refusal::new(
                Reason::LeadOnly,
                format!("Only the team's lead may {what}. Send the lead (`team-lead`) a message instead."),
            )),
        }
    }
}
