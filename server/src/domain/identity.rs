//! Who calls: from a credential to a member, the operator or an observer, by what the team's records say now.
//!
//! An unknown team, an unknown name and a wrong secret are refused alike, so that nothing can be learnt by trying.

use std::sync::Arc;

use teamwire_proto::{Reason, Refusal, credential::Credential, name::Name};

use super::{
    actor::Actor,
    records::{JoinTokenRecord, Life, MemberRecord, ObserverRecord, SessionRecord, TeamRecord, is_lost},
    secret::SecretHash,
    tx::{RuleError, Tx},
};
use crate::store::Namespace;

/// What a call presented.
#[derive(Clone, Debug)]
pub struct CallerCredentials {
    /// The credential.
    pub credential: Credential,
    /// Of its secret.
    pub hash: SecretHash,
    /// The session that the caller says it has open.
    pub session_id: Option<String>,
    /// The trace that the call belongs to; empty for none.
    pub trace_parent: String,
}

impl CallerCredentials {
    /// Hashes the credential's secret.
    pub fn new(credential: Credential, session_id: Option<String>) -> Self {
        // A stream that was opened after the approval has no session, and says so with an empty id.
        let session_id = session_id.filter(|id| !id.is_empty());
        Self { hash: SecretHash::of(credential.secret()), credential, session_id, trace_parent: String::new() }
    }
}

/// A caller that is known, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The operator.
    Operator,
    /// A member.
    Member {
        /// Which.
        name: Name,
        /// It leads.
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
                "An observer's credential reads only. Use a member's credential to change something.",
            )),
        }
    }

    /// Returns whether the caller may see everything of the team.
    pub fn sees_all(&self) -> bool {
        !matches!(self, Self::Member { lead: false, .. })
    }

    /// Refuses everybody but the lead and the operator.
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

/// Which members pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Those that are not about to end: for what makes something new.
    Live,
    /// Those, too, that have approved their shutdown and not yet ended: for what finishes something.
    Stopping,
    /// Every bearer of the present life's credential: for reporting its end.
    Ended,
}

/// Returns the namespace of the team that a call is about: the caller's own, or the one that the operator names. If the
/// operator names none, it is the directory, where no rule finds a team.
pub fn namespace_of(who: &CallerCredentials, named: &str) -> Result<Namespace, Refusal> {
    match who.credential.team() {
        Some(team) => Ok(Namespace::team(team)),
        None if named.is_empty() => Ok(Namespace::directory()),
        None => Ok(Namespace::team(&Name::parse(named, "team")?)),
    }
}

/// Finds the team and the caller. `named`: the team in the request's field, which only the operator must give.
pub fn call(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    named: &str,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Principal), RuleError> {
    let own = who.credential.team();
    if let Some(own) = own
        && !named.is_empty()
        && !named.eq_ignore_ascii_case(own.as_str())
    {
        // Whoever bears a wrong secret must learn that first, whatever team it asks for.
        call(tx, who, "", admit)?;
        return Err(team_not_found(named).into());
    }
    let team = tx.read::<TeamRecord>("")?;
    match &who.credential {
        Credential::Operator { .. } => {
            operator(tx, who)?;
            Ok((team.ok_or_else(|| team_not_found(named))?, Principal::Operator))
        }
        Credential::Member { member, .. } => {
            let team = team.ok_or_else(invalid)?;
            let record = team.member(member).ok_or_else(invalid)?;
            check_member(record, who)?;
            check_life(record, admit)?;
            check_session(tx, record, who)?;
            let caller = Principal::Member { name: record.name.clone(), lead: team.is_lead(member) };
            Ok((team, caller))
        }
        Credential::Observer { id, .. } => {
            let team = team.ok_or_else(invalid)?;
            let observer = tx.read::<ObserverRecord>(id)?.ok_or_else(invalid)?;
            if observer.secret != who.hash {
                return Err(invalid().into());
            }
            if observer.expires_ms <= tx.ctx.now_ms {
                return Err(Refusal::new(
                    Reason::CredentialExpired,
                    "The observer's credential has expired. Ask the lead for a new one.",
                )
                .into());
            }
            Ok((team, Principal::Observer))
        }
        Credential::Join { .. } => Err(Refusal::new(
            Reason::NotPermitted,
            "A join token is only good for joining. Join with it, and use the credential that the reply carries.",
        )
        .into()),
    }
}

/// Finds out whether a credential holds. False: it did once, and the rule of its call says what has become of it. Refuses
/// what was never given to anybody, and what is good for no call any more.
pub fn holds(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<bool, RuleError> {
    let team = tx.read::<TeamRecord>("")?;
    match &who.credential {
        Credential::Operator { .. } => operator(tx, who).map(|()| true),
        Credential::Observer { .. } => call(tx, who, "", Admit::Live).map(|_| true),
        Credential::Member { member, .. } => {
            let record = team.as_ref().and_then(|team| team.member(member)).ok_or_else(invalid)?;
            if !is_or_was(record, who) {
                return Err(invalid().into());
            }
            Ok(record.credential == who.hash)
        }
        Credential::Join { id, .. } => {
            let token = join_token(tx, id, who)?;
            Ok(token.expires_ms > tx.ctx.now_ms)
        }
    }
}

/// Finds the record of a join token.
pub fn join_token(tx: &mut Tx<'_>, id: &str, who: &CallerCredentials) -> Result<Arc<JoinTokenRecord>, RuleError> {
    let token = tx.read::<JoinTokenRecord>(id)?.ok_or_else(invalid)?;
    if token.secret == who.hash { Ok(token) } else { Err(invalid().into()) }
}

/// Finds the team and the member that calls; refuses everybody else.
pub fn member(tx: &mut Tx<'_>, who: &CallerCredentials, admit: Admit) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    if let Credential::Operator { .. } = &who.credential {
        operator(tx, who)?;
        return Err(only_members().into());
    }
    match call(tx, who, "", admit)? {
        (team, Principal::Member { name, .. }) => Ok((team, name)),
        _ => Err(only_members().into()),
    }
}

/// Refuses everybody but the operator.
pub fn operator(tx: &Tx<'_>, who: &CallerCredentials) -> Result<(), RuleError> {
    match &who.credential {
        Credential::Operator { .. } if who.hash == tx.ctx.operator => Ok(()),
        Credential::Operator { .. } => Err(invalid().into()),
        _ => Err(Refusal::new(
            Reason::OperatorOnly,
            "This needs the operator's credential, which the coordinator keeps in its state directory.",
        )
        .into()),
    }
}

/// Checks that the secret is that of the present life.
fn check_member(record: &MemberRecord, who: &CallerCredentials) -> Result<(), Refusal> {
    if record.credential == who.hash {
        return Ok(());
    }
    Err(if record.former_credentials.contains(&who.hash) { superseded(&record.name) } else { invalid() })
}

/// What a refusal's metadata says when the credential of an ended life may still begin a new one.
const MAY_JOIN: &str = "may_join";

fn check_life(record: &MemberRecord, admit: Admit) -> Result<(), Refusal> {
    let why = match &record.life {
        Life::Live | Life::Lost => return Ok(()),
        _ if admit == Admit::Ended => return Ok(()),
        Life::Stopping { request_id: Some(_), .. } if admit == Admit::Stopping => return Ok(()),
        Life::Stopping { request_id: Some(_), .. } => "has approved its shutdown",
        Life::Stopping { request_id: None, .. } => "was stopped by force",
        Life::Exited { dismissed: false, .. } => {
            let text = format!(
                "{} has exited: this credential is good for nothing but to begin a new life with Join. End this process, or \
                 join with it again.",
                record.name
            );
            return Err(Refusal::new(Reason::MemberStopped, text).with(MAY_JOIN, "true"));
        }
        Life::Exited { dismissed: true, .. } => "has exited",
    };
    Err(Refusal::new(
        Reason::MemberStopped,
        format!(
            "{} {why}: this credential is good for nothing more. End this process; to come back, join anew.",
            record.name
        ),
    ))
}

fn check_session(tx: &mut Tx<'_>, record: &MemberRecord, who: &CallerCredentials) -> Result<(), RuleError> {
    let Some(presented) = &who.session_id else { return Ok(()) };
    let session = tx.read::<SessionRecord>(record.name.folded())?;
    match session {
        Some(session) if session.session_id == *presented => Ok(()),
        // Nobody has opened a newer one.
        session if is_lost(presented, session.as_deref()) => Ok(()),
        _ => Err(superseded(&record.name).into()),
    }
}

/// The refusal for whoever is not the one to be heard any more.
pub fn superseded(name: &Name) -> Refusal {
    Refusal::new(
        Reason::SessionSuperseded,
        format!("A newer process or session holds the name {name}. End this one; do not reconnect by itself."),
    )
}

/// The refusal for a credential that is not known.
pub fn invalid() -> Refusal {
    Refusal::new(
        Reason::CredentialInvalid,
        "The credential is not valid here. Its team may have been deleted, or the address may be another coordinator's. \
         Join again with a new token.",
    )
}

/// The refusal for a team that is not there, or not the caller's.
pub fn team_not_found(named: &str) -> Refusal {
    if named.is_empty() {
        return Refusal::new(Reason::TeamNotFound, "Name the team: the operator's credential belongs to none.")
            .field("team");
    }
    Refusal::new(
        Reason::TeamNotFound,
        format!("There is no team \"{named}\" that this credential can reach. See `teamwire team list`."),
    )
    .field("team")
}

fn only_members() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a member can do this: the operator and observers have no inbox and no life. Use a member's credential.",
    )
}

/// Checks that a credential is that of a life of the member, the present one or a former one, whatever its state.
pub fn is_or_was(record: &MemberRecord, who: &CallerCredentials) -> bool {
    record.credential == who.hash || record.former_credentials.contains(&who.hash)
}
