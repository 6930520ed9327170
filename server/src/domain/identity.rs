//! Who calls: resolves a credential to a member, the operator or an observer, by the team's current records.
//!
//! A console credential resolves to the identity that it acts for, so every rule decides as it would for that identity.
//! If it can only read, the transaction is marked, and refuses to be committed with a write. Calls that only a process
//! may make check [`process`], which refuses a console credential.
//!
//! An unknown team, an unknown name and a wrong secret are refused alike, so that a stranger learns nothing by
//! guessing.

use std::sync::Arc;

use teamwire_proto::{Reason, Refusal, credential::Credential, name::Name};

pub(super) use super::refused_caller::only_processes;
pub use super::{
    caller::{CallerCredentials, OperatorSignIn, Principal},
    quota::Spender,
    refused_caller::{invalid, operator_replaced, revoked_member, superseded, team_not_found},
};
use super::{
    records::{
        ActsFor, ConsoleRecord, EndCause, JoinTokenRecord, Life, MemberRecord, ObserverRecord, SessionRecord,
        SignInCodeRecord, SignInPurpose, TeamRecord, is_lost,
    },
    refused_caller::{only_members, unknown_session},
    secret::SecretHash,
    tx::{RuleError, Tx},
};
use crate::store::Namespace;

/// How long a credential's last use is good for: another use within this time is not recorded.
const USE_RECORDED_MS: u64 = 60_000;

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

/// Authenticates the caller of a team, and refuses hosts. `named`: the team in the request's field, which only the
/// operator must set.
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

/// Authenticates the caller of a team, whatever it is. If it can only read, the transaction cannot write.
pub fn any_caller(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    named: &str,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Principal), RuleError> {
    let authenticated = authenticate(tx, who, named, admit)?;
    if authenticated.read_only {
        tx.forbid_writes();
    }
    Ok((authenticated.team, authenticated.caller))
}

/// The caller of a team.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The team.
    pub team: Arc<TeamRecord>,
    /// Who calls.
    pub caller: Principal,
    /// Whether it can only read.
    pub read_only: bool,
}

/// Authenticates the caller of a team, whatever it is, and leaves it to the caller of this function what a caller that
/// can only read may write.
pub(super) fn authenticate(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    named: &str,
    admit: Admit,
) -> Result<Authenticated, RuleError> {
    let own = who.credential.team();
    if let Some(own) = own
        && !named.is_empty()
        && !named.eq_ignore_ascii_case(own.as_str())
    {
        // A caller with a wrong secret must learn that first, whichever team it names.
        authenticate(tx, who, "", admit)?;
        return Err(team_not_found(named).into());
    }
    let team = tx.read::<TeamRecord>("")?;
    let (team, caller, read_only) = match &who.credential {
        Credential::Operator { .. } | Credential::Console { team: None, .. } => {
            let read_only = operator_reads_only(tx, who)?;
            (team.ok_or_else(|| team_not_found(named))?, Principal::Operator, read_only)
        }
        Credential::Member { member, .. } => {
            let team = team.ok_or_else(invalid)?;
            let record = team.member(member).ok_or_else(invalid)?;
            check_member(record, who)?;
            check_life(record, admit)?;
            check_session(tx, record, who)?;
            let caller = Principal::Member { name: record.name.clone(), lead: team.is_lead(member) };
            (team, caller, false)
        }
        Credential::Console { team: Some(_), id, .. } => {
            let team = team.ok_or_else(invalid)?;
            let console = console(tx, who, id)?;
            let caller = acts_for(tx, &team, &console.acts_for, &console.proof, admit)?;
            if let (Principal::Member { name, lead: true }, SignInPurpose::Tools { leads: false }) =
                (&caller, console.purpose)
            {
                let text = format!(
                    "{name} leads the team now, and this tool credential was not created for a lead. `teamwire mcp --http \
                     --lead` creates another one."
                );
                return Err(revoked(&text).into());
            }
            (team, caller, console.read_only)
        }
        Credential::Observer { id, .. } => {
            let team = team.ok_or_else(invalid)?;
            let observer = tx.read::<ObserverRecord>(id)?.ok_or_else(invalid)?;
            if observer.secret != who.hash {
                return Err(invalid().into());
            }
            check_observer(tx, &observer)?;
            (team, Principal::Observer, false)
        }
        Credential::Join { .. } => {
            let text = "A join token is valid only for joining. Join with it, and use the credential in the reply.";
            return Err(Refusal::new(Reason::NotPermitted, text).into());
        }
        Credential::SignInCode { .. } => {
            let text = "A code is valid only for signing in. Sign in with it, and use the credential in the reply.";
            return Err(Refusal::new(Reason::NotPermitted, text).into());
        }
    };
    tx.spends_as(Spender::from(&caller));
    Ok(Authenticated { team, caller, read_only })
}

fn check_observer(tx: &Tx<'_>, observer: &ObserverRecord) -> Result<(), Refusal> {
    if observer.revoked {
        return Err(revoked("The observer's credential was revoked. Ask the lead for a new one."));
    }
    if observer.expires_ms <= tx.ctx.now_ms {
        let text = "The observer's credential has expired. Ask the lead for a new one.";
        return Err(Refusal::new(Reason::CredentialExpired, text));
    }
    Ok(())
}

/// Returns the record of a console credential that has neither expired nor been revoked.
fn console(tx: &mut Tx<'_>, who: &CallerCredentials, id: &str) -> Result<Arc<ConsoleRecord>, RuleError> {
    let console = tx.read::<ConsoleRecord>(id)?.filter(|console| console.secret == who.hash).ok_or_else(invalid)?;
    if console.revoked {
        return Err(revoked(match console.purpose {
            SignInPurpose::Console => "This sign-in was ended. Sign in again with `teamwire console`.",
            SignInPurpose::Tools { .. } => {
                "This tool credential was revoked. `teamwire mcp --http` creates another one."
            }
        })
        .into());
    }
    if console.expires_ms.is_some_and(|expires_ms| expires_ms <= tx.ctx.now_ms) {
        let text = "This sign-in has expired. Sign in again with `teamwire console`.";
        return Err(Refusal::new(Reason::CredentialExpired, text).into());
    }
    Ok(console)
}

/// Resolves whom a sign-in acts for. `proof`: the hash of the credential that it was created with, which must still be
/// valid.
pub(super) fn acts_for(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    acts_for: &ActsFor,
    proof: &SecretHash,
    admit: Admit,
) -> Result<Principal, RuleError> {
    match acts_for {
        // Its record is in the directory, not in a team.
        ActsFor::Operator => Err(invalid().into()),
        ActsFor::Member(name) => {
            let is_current = |record: &&MemberRecord| record.credential == *proof && !record.revoked;
            let record = team.member(name).filter(is_current).ok_or_else(|| {
                revoked(&format!("The life of {name} that this sign-in acted for has ended. Sign in again."))
            })?;
            if matches!(record.life, Life::Exited { .. } | Life::Spawning) || record.life.is_forced() {
                let text =
                    format!("{name} has exited or was stopped, and this sign-in ended with it. Sign in as another.");
                return Err(revoked(&text).into());
            }
            check_life(record, admit)?;
            Ok(Principal::Member { name: record.name.clone(), lead: team.is_lead(name) })
        }
        ActsFor::Observer(id) => {
            let observer = tx.read::<ObserverRecord>(id)?.filter(|observer| observer.secret == *proof);
            let gone = || revoked("The observer's credential that this sign-in acted for is gone. Sign in again.");
            check_observer(tx, &*observer.ok_or_else(gone)?)?;
            Ok(Principal::Observer)
        }
    }
}

fn revoked(text: &str) -> Refusal {
    Refusal::new(Reason::CredentialRevoked, text)
}

/// Returns the record of a code for signing in, used or not.
pub(super) fn sign_in_code(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    id: &str,
) -> Result<Arc<SignInCodeRecord>, RuleError> {
    let code = tx.read::<SignInCodeRecord>(id)?.filter(|code| code.secret == who.hash);
    code.ok_or_else(|| {
        let text = "The code is not valid here. It may be incomplete, too old, or another coordinator's. Run `teamwire console` again.";
        Refusal::new(Reason::CredentialInvalid, text).into()
    })
}

/// What is known of a credential that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    /// Whether it is valid. `false` if it once was, and the rule of its call explains what happened to it.
    pub is_current: bool,
    /// Set if it is the operator's, by a console.
    pub operator_sign_in: Option<OperatorSignIn>,
    /// Whether its use should be recorded.
    pub is_use_due: bool,
    /// Whether it now is a lead's or the operator's.
    pub leads: bool,
    /// Whom it acts for, if it is a console's, or a code for one.
    pub acts_for: Option<ActsFor>,
}

impl LookedUp {
    fn new(is_current: bool) -> Self {
        Self { is_current, operator_sign_in: None, is_use_due: false, leads: false, acts_for: None }
    }
}

/// Looks a credential up. Refuses one that was never issued, or that no call accepts anymore.
pub fn look_up(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<LookedUp, RuleError> {
    let team = tx.read::<TeamRecord>("")?;
    match &who.credential {
        Credential::Operator { .. } => operator(tx, who).map(|()| LookedUp { leads: true, ..LookedUp::new(true) }),
        Credential::Observer { id, .. } => {
            authenticate(tx, who, "", Admit::Live)?;
            let used_ms = tx.read::<ObserverRecord>(id)?.and_then(|observer| observer.last_used_ms);
            Ok(LookedUp { is_use_due: is_use_due(tx, used_ms), ..LookedUp::new(true) })
        }
        Credential::Console { team: named, id, .. } => {
            let console = console(tx, who, id)?;
            let (operator_sign_in, leads) = match named {
                Some(_) => {
                    let caller = authenticate(tx, who, "", Admit::Stopping)?.caller;
                    (None, matches!(caller, Principal::Member { lead: true, .. }))
                }
                None if console.acts_for == ActsFor::Operator && tx.ctx.is_operator(&console.proof) => {
                    (Some(OperatorSignIn::new(console.read_only)), true)
                }
                None => return Err(revoked("The operator's credential has changed. Sign in again.").into()),
            };
            let is_use_due = is_use_due(tx, console.last_used_ms);
            let acts_for = Some(console.acts_for.clone());
            Ok(LookedUp { operator_sign_in, is_use_due, leads, acts_for, ..LookedUp::new(true) })
        }
        Credential::SignInCode { id, .. } => {
            let code = sign_in_code(tx, who, id)?;
            let acts_for = Some(code.acts_for.clone());
            Ok(LookedUp { acts_for, ..LookedUp::new(code.expires_ms > tx.ctx.now_ms) })
        }
        Credential::Member { member, .. } => {
            let record = team.as_ref().and_then(|team| team.member(member)).ok_or_else(invalid)?;
            if !is_or_was(record, who) {
                return Err(invalid().into());
            }
            let leads = team.as_ref().is_some_and(|team| team.is_lead(member));
            Ok(LookedUp { leads, ..LookedUp::new(record.credential == who.hash && !record.revoked) })
        }
        Credential::Join { id, .. } => {
            let token = join_token(tx, id, who)?;
            Ok(LookedUp::new(token.expires_ms > tx.ctx.now_ms && !token.revoked))
        }
    }
}

fn is_use_due(tx: &Tx<'_>, last_used_ms: Option<u64>) -> bool {
    last_used_ms.is_none_or(|at_ms| at_ms + USE_RECORDED_MS <= tx.ctx.now_ms)
}

/// Records that a valid credential was used, unless its last use is recent or the store is full.
pub fn record_use(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<(), RuleError> {
    if !look_up(tx, who)?.is_use_due || tx.ctx.store_is_full {
        return Ok(());
    }
    tx.needs_no_room();
    let last_used_ms = Some(tx.ctx.now_ms);
    match &who.credential {
        Credential::Console { id, .. } => {
            if let Some(console) = tx.read::<ConsoleRecord>(id)? {
                tx.put(id, &ConsoleRecord { last_used_ms, ..ConsoleRecord::clone(&console) });
            }
        }
        Credential::Observer { id, .. } => {
            if let Some(observer) = tx.read::<ObserverRecord>(id)? {
                tx.put(id, &ObserverRecord { last_used_ms, ..ObserverRecord::clone(&observer) });
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the record of a join token.
pub fn join_token(tx: &mut Tx<'_>, id: &str, who: &CallerCredentials) -> Result<Arc<JoinTokenRecord>, RuleError> {
    let token = tx.read::<JoinTokenRecord>(id)?.ok_or_else(invalid)?;
    if token.secret == who.hash { Ok(token) } else { Err(invalid().into()) }
}

/// Authenticates a member; refuses everyone else.
pub fn member(tx: &mut Tx<'_>, who: &CallerCredentials, admit: Admit) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    if let Credential::Operator { .. } | Credential::Console { team: None, .. } = &who.credential {
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
    let (team, name) = process(tx, who, admit)?;
    if team.member(&name).is_some_and(|member| member.is_host) {
        return Ok((team, name));
    }
    let text = format!("{name} is not a host, and only hosts take orders. A host joins with `teamwire host`.");
    Err(Refusal::new(Reason::NotPermitted, text).into())
}

/// Authenticates the process of a member or a host, by the credential of its life.
pub fn process(tx: &mut Tx<'_>, who: &CallerCredentials, admit: Admit) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    if let Credential::Console { .. } = &who.credential {
        member(tx, who, admit)?;
        return Err(only_processes().into());
    }
    member_or_host(tx, who, admit)
}

/// Authenticates the process of a member; refuses everyone else.
pub fn member_process(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    process(tx, who, admit)?;
    member(tx, who, admit)
}

/// Authenticates whatever has an inbox and a life: a member or a host.
pub fn member_or_host(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    match &who.credential {
        Credential::Member { .. } | Credential::Console { team: Some(_), .. } => {
            match any_caller(tx, who, "", admit)? {
                (team, Principal::Member { name, .. }) => Ok((team, name)),
                _ => Err(only_members().into()),
            }
        }
        _ => member(tx, who, admit),
    }
}

/// Refuses everyone but the operator. If it can only read, the transaction cannot write.
pub fn operator(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<(), RuleError> {
    if operator_reads_only(tx, who)? {
        tx.forbid_writes();
    }
    Ok(())
}

/// Refuses everyone but the operator. Returns whether it can only read.
pub(super) fn operator_reads_only(tx: &Tx<'_>, who: &CallerCredentials) -> Result<bool, RuleError> {
    match (&who.credential, &who.operator_sign_in) {
        (Credential::Operator { .. }, _) if tx.ctx.is_operator(&who.hash) => Ok(false),
        (Credential::Console { team: None, .. }, Some(sign_in)) => Ok(sign_in.is_read_only()),
        (Credential::Operator { .. } | Credential::Console { team: None, .. }, _) => Err(invalid().into()),
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
        return if record.revoked { Err(revoked_member(&record.name)) } else { Ok(()) };
    }
    Err(if record.former_credentials.contains(&who.hash) { superseded(&record.name) } else { invalid() })
}

/// The metadata key of a refusal that says that the credential of an ended life may still join.
const MAY_JOIN: &str = "may_join";

fn check_life(record: &MemberRecord, admit: Admit) -> Result<(), Refusal> {
    let why = match &record.life {
        Life::Live | Life::Lost => return Ok(()),
        _ if admit == Admit::Ended => return Ok(()),
        Life::Stopping { cause, .. } if cause.is_own_decision() && admit == Admit::Stopping => return Ok(()),
        Life::Stopping { cause: EndCause::Left, .. } => "has left",
        Life::Stopping { cause: EndCause::Approved(_), .. } => "has approved its shutdown",
        Life::Stopping { .. } => "was stopped by force",
        Life::Exited { cause, .. } if !cause.is_dismissal() => {
            let text = format!(
                "{} has exited: this credential can only start a new life with Join. End this process, or join \
                 again with it.",
                record.name
            );
            return Err(Refusal::new(Reason::MemberStopped, text).with(MAY_JOIN, "true"));
        }
        Life::Exited { .. } => "has exited",
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
        _ if !presented.is_of(lives) => Err(unknown_session().into()),
        // No newer session has opened.
        session if is_lost(presented, session.as_deref()) => Ok(()),
        _ => Err(superseded(&record.name).into()),
    }
}

/// Returns whether a credential is of the member's current life or of a recent former one, in any state.
pub fn is_or_was(record: &MemberRecord, who: &CallerCredentials) -> bool {
    record.credential == who.hash || record.former_credentials.contains(&who.hash)
}
