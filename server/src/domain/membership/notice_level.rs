//! Which notices a member gets.

use teamwire_proto::{Reason, Refusal, v1};

use crate::domain::{
    fields::known,
    identity::{self, Admit, CallerCredentials, Principal, invalid},
    query::show_new_member,
    records::{NoticeLevel, TeamRecord},
    tx::{RuleError, Tx},
};

/// Sets which notices a member gets.
pub fn set_notice_level(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SetNoticeLevelRequest,
) -> Result<v1::Member, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    tx.needs_no_room();
    let level = NoticeLevel::from_protocol(known(request.level, "level")?).ok_or_else(|| {
        Refusal::new(Reason::InvalidField, "level is missing. Say all, important or digest.").field("level")
    })?;
    let own = match &caller {
        Principal::Member { name, .. } => Some(name),
        Principal::Operator | Principal::Observer => None,
    };
    let name = match (request.member.as_str(), own) {
        ("", Some(own)) => own.clone(),
        ("", None) => {
            return Err(Refusal::new(
                Reason::NotPermitted,
                "Only a member gets notices. Name the member whose notices you want to change.",
            )
            .field("member")
            .into());
        }
        (named, _) => team.resolve(named, "member")?.name.clone(),
    };
    if own != Some(&name) {
        caller.lead_only("set another member's notice level")?;
    }
    let mut changed = TeamRecord::clone(&team);
    let member = changed.member_mut(&name).ok_or_else(invalid)?;
    if member.notice_level != level {
        member.notice_level = level;
        tx.put("", &changed);
    }
    let member = changed.member(&name).ok_or_else(invalid)?;
    Ok(show_new_member(&changed, member, tx.ctx))
}
