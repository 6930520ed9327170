//! Who calls: resolves a credential to a member, the operator or an observer, by the team's current records.
//!
//! An unknown team, an unknown name and a wrong secret are refused alike, so that a stranger learns nothing by
//! guessing.

use std::sync::Arc;

use teamwire_proto::{Reason, Refusal, credential::Credential, name::Name};

use super::{
    actor::Actor,
    records::{JoinTokenRecord, Life, MemberRecord, ObserverRecord, SessionRecord, TeamRecord, is_lost},
    secret::{SecretHash, is_session_id},
    tx::{RuleError, Tx},
};
use crate::store::Namespace;

/// The credentials that a call presented.
#[derive(Clone, Debug)]
pub struct CallerCredentials {
    /// The credential.
    pub credential: Credential,
    /// The hash of its secret.
    pub hash: SecretHash,
    /// The session that the caller says it has open.
    pub session_id: Option<String>,
    /// The trace that the call belongs to. Empty: none.
    pub trace_parent: String,
}

impl CallerCredentials {
    /// Takes what a call presented, and hashes the credential's secret.
    pub fn new(credential: Credential, session_id: Option<String>) -> Self {
        // A stream that was opened after an approved shutdown has no session; its client presents an empty id.
        let session_id = session_id.filter(|id| !id.is_empty());
        Self { hash: SecretHash::of(credential.secret()), credential, session_id, trace_parent: String::new() }
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

/// Which lives of a member may make a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// Those that are not about to end: for calls that create something.
    Live,
    /// Also those that have approved their shutdown and have not exited: for calls that finish something.
    Stopping,
    /// The current life in any state: for reporting its end.
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

/// Authenticates the caller of a team, and refuses hosts. `named`: the team in the request's field, which only the operator
/// must set.
pub fn call(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    named: &str,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Principal), RuleError> {
    let (team, caller) = any_caller(tx, who, named, admit)?;
    match host_of(&team, &caller) {
        Some(host) => Err(Refusal::new(
            Reason::NotPermitted,
            format!("{host} is a host: its credential takes orders, and nothing else. Use a member's credential."),
        )
        .into()),
        None => Ok((team, caller)),
    }
}

/// Returns the caller's name if it is a host.
fn host_of<'a>(team: &TeamRecord, caller: &'a Principal) -> Option<&'a Name> {
    match caller {
        Principal::Member { name, .. } => team.member(name).is_some_and(|member| member.is_host).then_some(name),
        Principal::Operator | Principal::Observer => None,
    }
}

/// Authenticates the caller of a team, whatever it is.
fn any_caller(
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
        // A caller with a wrong secret must learn that first, whichever team it names.
        any_caller(tx, who, "", admit)?;
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
            "A join token is valid only for joining. Join with it, and use the credential in the reply.",
        )
        .into()),
    }
}

/// Returns whether a credential is valid. False: it once was, and the rule of its call explains what happened to it.
/// Refuses a credential that was never issued, or that no call accepts anymore.
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

/// Returns the record of a join token.
pub fn join_token(tx: &mut Tx<'_>, id: &str, who: &CallerCredentials) -> Result<Arc<JoinTokenRecord>, RuleError> {
    let token = tx.read::<JoinTokenRecord>(id)?.ok_or_else(invalid)?;
    if token.secret == who.hash { Ok(token) } else { Err(invalid().into()) }
}

/// Authenticates a member; refuses everyone else.
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

/// Authenticates a host; refuses everyone else.
pub fn host(tx: &mut Tx<'_>, who: &CallerCredentials, admit: Admit) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    let (team, name) = member_or_host(tx, who, admit)?;
    if team.member(&name).is_some_and(|member| member.is_host) {
        return Ok((team, name));
    }
    let text = format!("{name} is not a host, and only hosts take orders. A host joins with `teamwire host`.");
    Err(Refusal::new(Reason::NotPermitted, text).into())
}

/// Authenticates whatever has an inbox and a life: a member or a host.
pub fn member_or_host(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    match &who.credential {
        Credential::Member { .. } => match any_caller(tx, who, "", admit)? {
            (team, Principal::Member { name, .. }) => Ok((team, name)),
            _ => Err(only_members().into()),
        },
        _ => member(tx, who, admit),
    }
}

/// Refuses everyone but the operator.
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

/// Checks that the secret is the current life's.
fn check_member(record: &MemberRecord, who: &CallerCredentials) -> Result<(), Refusal> {
    if record.credential == who.hash {
        return Ok(());
    }
    Err(if record.former_credentials.contains(&who.hash) { superseded(&record.name) } else { invalid() })
}

/// The metadata key of a refusal that says that the credential of an ended life may still join.
const MAY_JOIN: &str = "may_join";

fn check_life(record: &MemberRecord, admit: Admit) -> Result<(), Refusal> {
    let why = match &record.life {
        Life::Live | Life::Lost => return Ok(()),
        _ if admit == Admit::Ended => return Ok(()),
        Life::Stopping { request_id: Some(_), .. } if admit == Admit::Stopping => return Ok(()),
        Life::Stopping { request_id: Some(id), .. } if id.is_empty() => "has left",
        Life::Stopping { request_id: Some(_), .. } => "has approved its shutdown",
        Life::Stopping { request_id: None, .. } => "was stopped by force",
        Life::Exited { dismissed: false, .. } => {
            let text = format!(
                "{} has exited: this credential can only start a new life with Join. End this process, or join \
                 again with it.",
                record.name
            );
            return Err(Refusal::new(Reason::MemberStopped, text).with(MAY_JOIN, "true"));
        }
        Life::Exited { dismissed: true, .. } => "has exited",
        Life::Spawning => "has not started",
    };
    Err(Refusal::new(
        Reason::MemberStopped,
        format!(
            "{} {why}: this credential is no longer valid. End this process; to come back, join again with a token.",
            record.name
        ),
    ))
}

fn check_session(tx: &mut Tx<'_>, record: &MemberRecord, who: &CallerCredentials) -> Result<(), RuleError> {
    let Some(presented) = &who.session_id else { return Ok(()) };
    let session = tx.read::<SessionRecord>(record.name.folded())?;
    let lives = std::iter::once(&record.credential).chain(&record.former_credentials);
    match session {
        Some(session) if session.session_id == *presented => Ok(()),
        _ if !is_session_id(lives, presented) => Err(unknown_session().into()),
        // No newer session has opened.
        session if is_lost(presented, session.as_deref()) => Ok(()),
        _ => Err(superseded(&record.name).into()),
    }
}

/// Returns the refusal of a caller that a newer process or session has replaced.
pub fn superseded(name: &Name) -> Refusal {
    Refusal::new(
        Reason::SessionSuperseded,
        format!("A newer process or session holds the name {name}. End this one; do not reconnect automatically."),
    )
}

/// Returns the refusal of a session id that no coordinator has issued.
fn unknown_session() -> Refusal {
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
         address may be another coordinator's. Join again with a new token.",
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

fn only_members() -> Refusal {
    Refusal::new(
        Reason::NotPermitted,
        "Only a member can do this: the operator and observers have no inbox and no tasks. Use a member's credential.",
    )
}

/// Returns whether a credential is of the member's current life or of a recent former one, in any state.
pub fn is_or_was(record: &MemberRecord, who: &CallerCredentials) -> bool {
    record.credential == who.hash || record.former_credentials.contains(&who.hash)
}
