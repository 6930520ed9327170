//! The credentials of a team: showing and revoking them.

use std::sync::Arc;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    name::Name,
    v1::{self, CallerKind, CredentialKind},
};

use super::{member, sign_in::end};
use crate::{
    domain::{
        actor::Actor,
        history,
        identity::{self, Admit, Authenticated, CallerCredentials, Principal},
        limits::Limits,
        records::{
            ActsFor, ConsoleRecord, JoinTokenRecord, Life, ObserverRecord, SignInPurpose, SignInsRecord, TeamRecord,
        },
        secret::SecretHash,
        time::timestamp,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// What a caller may list.
#[derive(Clone, Debug)]
pub enum Listing {
    /// Every credential of the team.
    Team(Arc<TeamRecord>),
    /// The caller's own console credentials.
    Own(Vec<v1::Credential>),
}

/// To whom credentials are shown, and when.
#[derive(Clone, Copy, Debug)]
pub struct Viewer<'i> {
    /// The id of the credential that the call was made with, if it has one.
    calling: Option<&'i str>,
    /// The hash of that credential's secret.
    hash: &'i SecretHash,
    now_ms: u64,
}

impl<'i> Viewer<'i> {
    /// Describes the caller.
    pub fn new(who: &'i CallerCredentials, now_ms: u64) -> Self {
        let calling = match &who.credential {
            Credential::Console { id, .. } | Credential::Observer { id, .. } => Some(id.as_str()),
            _ => None,
        };
        Self { calling, hash: &who.hash, now_ms }
    }
}

/// Shows the valid credentials of a team's members and hosts, in the order of their ids. `leases`: as just read.
pub fn show_members(viewer: Viewer<'_>, team: &TeamRecord, leases: &Leases, limits: &Limits) -> Vec<v1::Credential> {
    member::show_all(team, leases, limits, viewer.hash)
}

/// Returns what the caller may list.
pub fn listing(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str) -> Result<Listing, RuleError> {
    let is_operator = matches!(&who.credential, Credential::Operator { .. } | Credential::Console { team: None, .. });
    if is_operator && named.is_empty() {
        identity::operator(tx, who)?;
        return own(tx, who, None, &ActsFor::Operator).map(Listing::Own);
    }
    let (team, caller) = identity::call(tx, who, named, Admit::Stopping)?;
    match own_key(tx, who, &caller)? {
        Some(acts_for) => own(tx, who, Some(&team), &acts_for).map(Listing::Own),
        None => Ok(Listing::Team(team)),
    }
}

/// Returns whose console credentials are the caller's own. `None` if the caller may see and revoke all of the team's.
fn own_key(tx: &mut Tx<'_>, who: &CallerCredentials, caller: &Principal) -> Result<Option<ActsFor>, RuleError> {
    Ok(match (caller, &who.credential) {
        (Principal::Operator | Principal::Member { lead: true, .. }, _) => None,
        (Principal::Member { name, .. }, _) => Some(ActsFor::Member(name.clone())),
        (Principal::Observer, Credential::Console { id, .. }) => {
            tx.read::<ConsoleRecord>(id)?.map(|console| console.acts_for.clone())
        }
        (Principal::Observer, Credential::Observer { id, .. }) => Some(ActsFor::Observer(id.clone())),
        (Principal::Observer, _) => return Err(identity::invalid().into()),
    })
}

fn own(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    team: Option<&TeamRecord>,
    acts_for: &ActsFor,
) -> Result<Vec<v1::Credential>, RuleError> {
    let viewer = Viewer::new(who, tx.ctx.now_ms);
    let Some(sign_ins) = tx.read::<SignInsRecord>(&acts_for.key())? else { return Ok(Vec::new()) };
    let mut live = [&sign_ins.live[..], &sign_ins.tools[..]].concat();
    tx.want::<ConsoleRecord>(live.iter().cloned())?;
    let observer = match acts_for {
        ActsFor::Observer(id) => tx.read::<ObserverRecord>(id)?,
        _ => None,
    };
    live.sort();
    let mut shown = Vec::new();
    for id in live {
        let Some(console) = tx.read::<ConsoleRecord>(&id)? else { continue };
        if console.acts_for != ActsFor::Operator || tx.ctx.is_operator(&console.proof) {
            shown.extend(show_console(viewer, team, observer.as_deref(), &id, &console));
        }
    }
    Ok(shown)
}

/// Returns whether the identity that a console credential acts for is still current.
fn is_current(team: Option<&TeamRecord>, observer: Option<&ObserverRecord>, console: &ConsoleRecord) -> bool {
    match &console.acts_for {
        ActsFor::Operator => true,
        ActsFor::Observer(_) => observer.is_some_and(|observer| observer.secret == console.proof && !observer.revoked),
        ActsFor::Member(name) => team.and_then(|team| team.member(name)).is_some_and(|member| {
            let is_over = matches!(member.life, Life::Exited { .. } | Life::Spawning) || member.life.is_forced();
            member.credential == console.proof && !member.revoked && !is_over
        }),
    }
}

fn kind_of(console: &ConsoleRecord) -> CredentialKind {
    match console.purpose {
        SignInPurpose::Console => CredentialKind::Console,
        SignInPurpose::Tools { .. } => CredentialKind::Tool,
    }
}

/// Shows a console or a tool credential. `None` if it is no longer valid. `team`: its team. `observer`: the observer that it acts
/// for.
pub fn show_console(
    viewer: Viewer<'_>,
    team: Option<&TeamRecord>,
    observer: Option<&ObserverRecord>,
    id: &str,
    console: &ConsoleRecord,
) -> Option<v1::Credential> {
    let (acts_for, member, created_by) = match &console.acts_for {
        ActsFor::Operator => (CallerKind::Operator, String::new(), Some(Actor::Operator)),
        ActsFor::Member(name) => (CallerKind::Member, name.to_string(), Some(Actor::Member(name.clone()))),
        ActsFor::Observer(_) => (CallerKind::Observer, String::new(), None),
    };
    let has_expired = console.expires_ms.is_some_and(|expires_ms| expires_ms <= viewer.now_ms);
    let is_valid = !console.revoked && !has_expired && is_current(team, observer, console);
    is_valid.then(|| v1::Credential {
        id: id.to_owned(),
        kind: kind_of(console).into(),
        acts_for: acts_for.into(),
        member,
        read_only: console.read_only,
        created_at: Some(timestamp(console.created_ms)),
        expires_at: console.expires_ms.map(timestamp),
        last_used_at: console.last_used_ms.map(timestamp),
        uses_left: 0,
        created_by: created_by.as_ref().map(Into::into),
        is_calling: viewer.calling == Some(id),
    })
}

/// Shows an observer's credential. `None` if it is no longer valid.
pub fn show_observer(viewer: Viewer<'_>, id: &str, observer: &ObserverRecord) -> Option<v1::Credential> {
    let is_valid = !observer.revoked && observer.expires_ms > viewer.now_ms;
    is_valid.then(|| v1::Credential {
        id: id.to_owned(),
        kind: CredentialKind::Observer.into(),
        acts_for: CallerKind::Observer.into(),
        read_only: true,
        created_at: Some(timestamp(observer.created_ms)),
        expires_at: Some(timestamp(observer.expires_ms)),
        last_used_at: observer.last_used_ms.map(timestamp),
        created_by: Some((&observer.created_by).into()),
        is_calling: viewer.calling == Some(id),
        ..v1::Credential::default()
    })
}

/// Shows a join token. `None` if it is no longer valid.
pub fn show_join_token(viewer: Viewer<'_>, id: &str, token: &JoinTokenRecord) -> Option<v1::Credential> {
    let is_valid = !token.revoked && token.uses_left > 0 && token.expires_ms > viewer.now_ms;
    is_valid.then(|| v1::Credential {
        id: id.to_owned(),
        kind: CredentialKind::JoinToken.into(),
        member: token.member.as_ref().map_or_else(String::new, Name::to_string),
        created_at: Some(timestamp(token.created_ms)),
        expires_at: Some(timestamp(token.expires_ms)),
        last_used_at: token.last_used_ms.map(timestamp),
        uses_left: token.uses_left,
        created_by: Some((&token.created_by).into()),
        ..v1::Credential::default()
    })
}

/// Returns whether a call would revoke the console credential that it is made with.
pub fn is_itself(who: &CallerCredentials, id: &str) -> bool {
    matches!(&who.credential, Credential::Console { id: own, .. } if own.eq_ignore_ascii_case(id))
}

/// Revokes a credential. The operator's console credentials are revoked in the directory.
pub fn revoke(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::RevokeCredentialRequest,
) -> Result<(), RuleError> {
    let revoker = revoker(tx, who, request)?;
    let id = request.id.to_ascii_lowercase();
    if id.is_empty() {
        return Err(Refusal::new(Reason::InvalidField, "Name the id of the credential.").field("id").into());
    }
    let is_own = |console: &ConsoleRecord| revoker.own.as_ref().is_none_or(|own| *own == console.acts_for);
    if let Some(console) = tx.read::<ConsoleRecord>(&id)?.filter(|console| is_own(console)) {
        if console.revoked {
            return Ok(());
        }
        let key = console.acts_for.key();
        let mut sign_ins = tx.read::<SignInsRecord>(&key)?.as_deref().cloned().unwrap_or_default();
        end(tx, &mut sign_ins, &id)?;
        tx.put(&key, &sign_ins);
        let member = match &console.acts_for {
            ActsFor::Member(name) => Some(name),
            ActsFor::Operator | ActsFor::Observer(_) => None,
        };
        revoker.record(tx, kind_of(&console), member);
        return Ok(());
    }
    if revoker.own.is_none() {
        if let Some(observer) = tx.read::<ObserverRecord>(&id)? {
            if observer.revoked {
                return Ok(());
            }
            tx.put(&id, &ObserverRecord { revoked: true, ..ObserverRecord::clone(&observer) });
            revoker.record(tx, CredentialKind::Observer, None);
            return Ok(());
        }
        if let Some(token) = tx.read::<JoinTokenRecord>(&id)? {
            if token.revoked {
                return Ok(());
            }
            tx.put(&id, &JoinTokenRecord { revoked: true, ..JoinTokenRecord::clone(&token) });
            revoker.record(tx, CredentialKind::JoinToken, token.member.as_ref());
            return Ok(());
        }
        if let Some(team) = &revoker.team
            && let Some(found) = member::with_id(team, &id)
        {
            if member::revoke(tx, team, &revoker.caller, &found.name)? {
                revoker.record(tx, CredentialKind::Member, Some(&found.name));
            }
            return Ok(());
        }
    }
    let text = "There is no such credential that this one may revoke. `teamwire access list` shows those that it may, \
                with their ids.";
    Err(Refusal::new(Reason::CredentialNotFound, text).field("id").into())
}

/// A caller that revokes a credential.
struct Revoker {
    /// Its team. `None` if it is the operator, and the credential is in the directory.
    team: Option<Arc<TeamRecord>>,
    caller: Principal,
    /// Whose console credentials it may revoke. `None` means each credential of the team.
    own: Option<ActsFor>,
}

impl Revoker {
    /// Records the revocation in the history of the team, if there is one.
    fn record(&self, tx: &mut Tx<'_>, kind: CredentialKind, member: Option<&Name>) {
        if self.team.is_some() {
            history::append(tx, history::revocation_event(self.caller.actor().ok().as_ref(), kind, member));
        }
    }
}

/// Authenticates the caller. A console credential that can only read may revoke itself.
fn revoker(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::RevokeCredentialRequest,
) -> Result<Revoker, RuleError> {
    let is_itself = is_itself(who, &request.id);
    let is_operator = matches!(&who.credential, Credential::Operator { .. } | Credential::Console { team: None, .. });
    if is_operator && (request.team.is_empty() || is_itself) {
        if identity::operator_reads_only(tx, who)? && !is_itself {
            tx.forbid_writes();
        }
        return Ok(Revoker { team: None, caller: Principal::Operator, own: Some(ActsFor::Operator) });
    }
    let Authenticated { team, caller, read_only } =
        identity::authenticate(tx, who, if is_itself { "" } else { &request.team }, Admit::Stopping)?;
    tx.needs_no_room();
    if read_only && !is_itself {
        tx.forbid_writes();
    }
    if let Principal::Member { name, .. } = &caller
        && team.member(name).is_some_and(|member| member.is_host)
    {
        return Err(Refusal::new(Reason::NotPermitted, "A host revokes no credentials.").into());
    }
    let own = own_key(tx, who, &caller)?;
    Ok(Revoker { team: Some(team), caller, own })
}
