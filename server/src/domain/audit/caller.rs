//! Who called, as the audit log names it.

use teamwire_proto::{
    credential::Credential,
    v1::{AuditCaller, AuditCallerKind as Kind},
};

use crate::domain::{
    identity::CallerCredentials,
    records::{ActsFor, ConsoleRecord, JoinTokenRecord, ObserverRecord, SignInCodeRecord, TeamRecord},
    secret::SecretHash,
    tx::{RuleError, Tx},
};

/// Describes a caller by its credential, also by one that has ended. Anyone without such a credential is a stranger.
pub fn describe(tx: &mut Tx<'_>, who: &CallerCredentials) -> Result<AuditCaller, RuleError> {
    let of = |kind: Kind, id: &str| AuditCaller {
        kind: kind.into(),
        credential_id: id.to_owned(),
        ..AuditCaller::default()
    };
    let known = match &who.credential {
        Credential::Operator { .. } => tx.ctx.is_operator(&who.hash).then(|| of(Kind::Operator, "")),
        Credential::Member { member, .. } => {
            let team = tx.read::<TeamRecord>("")?;
            team.and_then(|team| life(&team, member.folded(), &who.hash))
        }
        Credential::Join { id, .. } => {
            tx.read::<JoinTokenRecord>(id)?.filter(|token| token.secret == who.hash).map(|_| of(Kind::JoinToken, id))
        }
        Credential::Observer { id, .. } => {
            let observer = tx.read::<ObserverRecord>(id)?;
            observer.filter(|observer| observer.secret == who.hash).map(|_| of(Kind::Observer, id))
        }
        Credential::SignInCode { id, .. } => {
            match tx.read::<SignInCodeRecord>(id)?.filter(|code| code.secret == who.hash) {
                Some(code) => Some(acting(tx, &code.acts_for, &code.proof, id)?),
                None => None,
            }
        }
        Credential::Console { id, .. } => {
            match tx.read::<ConsoleRecord>(id)?.filter(|console| console.secret == who.hash) {
                Some(console) => Some(acting(tx, &console.acts_for, &console.proof, id)?),
                None => None,
            }
        }
    };
    Ok(known.unwrap_or_else(|| stranger(Some(&who.credential))))
}

/// Describes a caller without a valid credential. `claimed`: what it presented, if that could be read.
pub fn stranger(claimed: Option<&Credential>) -> AuditCaller {
    // The debug form leaves the secret out.
    let claim = claimed.map_or_else(String::new, |credential| format!("{credential:?}"));
    AuditCaller { kind: Kind::Stranger.into(), claim, ..AuditCaller::default() }
}

/// Describes the one that a code or a console credential acts for.
fn acting(tx: &mut Tx<'_>, acts_for: &ActsFor, proof: &SecretHash, id: &str) -> Result<AuditCaller, RuleError> {
    let credential_id = id.to_owned();
    Ok(match acts_for {
        ActsFor::Operator => AuditCaller { kind: Kind::Operator.into(), credential_id, ..AuditCaller::default() },
        ActsFor::Observer(_) => AuditCaller { kind: Kind::Observer.into(), credential_id, ..AuditCaller::default() },
        ActsFor::Member(name) => {
            let team = tx.read::<TeamRecord>("")?;
            let life = team.and_then(|team| life(&team, name.folded(), proof));
            // Its life may be too long ago for the roster to know.
            let gone = AuditCaller { kind: Kind::Member.into(), member: name.to_string(), ..AuditCaller::default() };
            AuditCaller { credential_id, ..life.unwrap_or(gone) }
        }
    })
}

/// Describes the life of a member or a host that a credential belongs or belonged to.
fn life(team: &TeamRecord, folded: &str, credential: &SecretHash) -> Option<AuditCaller> {
    let member = team.members.iter().find(|member| member.name.folded() == folded)?;
    let is_current = member.credential == *credential;
    if !is_current && !member.former_credentials.contains(credential) {
        return None;
    }
    Some(AuditCaller {
        kind: if member.is_host { Kind::Host } else { Kind::Member }.into(),
        member: member.name.to_string(),
        incarnation: if is_current { member.incarnation } else { 0 },
        is_lead: is_current && team.is_lead(&member.name),
        ..AuditCaller::default()
    })
}

/// Returns to whose account calls are counted. A member's sign-ins count to the member, and all observers of a team
/// share an account, so that new credentials bring no new account. `ip`: the caller's address, which is all that
/// strangers have.
pub fn account(caller: &AuditCaller, ip: &str) -> String {
    match caller.kind() {
        Kind::Member | Kind::Host => format!("member/{}", caller.member.to_ascii_lowercase()),
        Kind::JoinToken => format!("token/{}", caller.credential_id),
        Kind::Observer => "observers".to_owned(),
        Kind::Operator | Kind::Administrator => "operator".to_owned(),
        Kind::Stranger | Kind::Unspecified => format!("stranger/{ip}"),
    }
}
