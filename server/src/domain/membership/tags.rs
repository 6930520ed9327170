//! Which tags a member has.

use teamwire_proto::{Reason, Refusal, v1};

use crate::domain::{
    identity::{self, Admit, CallerCredentials, invalid},
    query::show_new_member,
    records::TeamRecord,
    tags,
    tx::{RuleError, Tx},
};

/// Adds tags to a member, and removes some.
pub fn set_tags(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SetTagsRequest,
) -> Result<v1::Member, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    caller.lead_only("set tags")?;
    tx.needs_no_room();
    let (add, remove) = (tags::checked(&request.add, "add")?, tags::checked(&request.remove, "remove")?);
    if add.is_empty() && remove.is_empty() {
        let text = "Say which tags to add or to remove.";
        return Err(Refusal::new(Reason::InvalidField, text).field("add").into());
    }
    let name = team.resolve(&request.member, "member")?.name.clone();
    let mut changed = TeamRecord::clone(&team);
    let member = changed.member_mut(&name).ok_or_else(invalid)?;
    let before = member.tags.clone();
    member.tags.retain(|tag| !remove.contains(tag));
    tags::add(member, &add)?;
    if member.tags != before {
        tx.put("", &changed);
    }
    let member = changed.member(&name).ok_or_else(invalid)?;
    Ok(show_new_member(&changed, member, tx.ctx))
}
