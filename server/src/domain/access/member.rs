//! The credentials of members and hosts: each life has one.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, CallerKind, CredentialKind},
};

use crate::{
    domain::{
        identity::{Principal, invalid},
        limits::Limits,
        query::MemberFacts,
        records::{Life, MemberRecord, SessionEnd, TeamRecord},
        secret::SecretHash,
        session,
        time::timestamp,
        topics::Topic,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// How many characters of a secret's hash are a credential's id.
const ID_CHARS: usize = 12;

/// Returns the id of the credential whose secret has this hash.
pub(super) fn id(secret: &SecretHash) -> String {
    String::from(*secret)[..ID_CHARS].to_owned()
}

/// Returns the member or host whose present life's credential has this id, and is valid or was revoked.
pub(super) fn with_id<'t>(team: &'t TeamRecord, wanted: &str) -> Option<&'t MemberRecord> {
    team.members.iter().find(|member| (is_valid(member) || member.revoked) && id(&member.credential) == wanted)
}

/// Shows the valid credentials of a team's members and hosts, in the order of their ids. `calling`: the hash of the
/// caller's secret.
pub(super) fn show_all(
    team: &TeamRecord,
    leases: &Leases,
    limits: &Limits,
    calling: &SecretHash,
) -> Vec<v1::Credential> {
    let valid = team.members.iter().filter(|member| is_valid(member));
    let mut shown: Vec<_> = valid
        .map(|member| {
            let used_ms = MemberFacts::of_lease(&member.name, leases, limits).last_call_ms();
            v1::Credential {
                id: id(&member.credential),
                kind: CredentialKind::Member.into(),
                acts_for: if member.is_host { CallerKind::Host } else { CallerKind::Member }.into(),
                member: member.name.to_string(),
                created_at: Some(timestamp(member.joined_ms)),
                last_used_at: Some(timestamp(used_ms.max(member.joined_ms))),
                is_calling: member.credential == *calling,
                ..v1::Credential::default()
            }
        })
        .collect();
    shown.sort_by(|one, other| one.id.cmp(&other.id));
    shown
}

/// Returns whether some call accepts the credential of a member's present life. After an exit, Join may.
fn is_valid(member: &MemberRecord) -> bool {
    let is_over = match &member.life {
        Life::Live | Life::Lost => false,
        Life::Exited { cause, .. } => cause.is_dismissal(),
        Life::Stopping { cause, .. } => !cause.is_own_decision(),
        Life::Spawning => true,
    };
    !is_over && !member.revoked
}

/// Revokes the credential of a member's or host's present life, and ends its session. The member stays as it is.
/// Returns whether that changes anything.
pub(super) fn revoke(tx: &mut Tx<'_>, team: &TeamRecord, caller: &Principal, name: &Name) -> Result<bool, RuleError> {
    if let Principal::Member { name: own, .. } = caller
        && own == name
    {
        let text = "This is the credential of your own life. To replace it, begin a new one: `teamwire join --new-credential`.";
        return Err(Refusal::new(Reason::NotPermitted, text).field("id").into());
    }
    let mut team = TeamRecord::clone(team);
    let member = team.member_mut(name).ok_or_else(invalid)?;
    if std::mem::replace(&mut member.revoked, true) {
        return Ok(false);
    }
    tx.put("", &team);
    session::end(tx, name, SessionEnd::Stopped)?;
    tx.notify(Topic::Team);
    tx.ends_something();
    Ok(true)
}
