//! Orders a member again from another host when it was lost together with its host.

use teamwire_proto::{
    name::Name,
    v1::{self, MemberState, SenderKind},
};

use super::{
    placement::{place, read_candidates},
    spawn::{post_prompt, reserve},
};
use crate::{
    domain::{
        actor::Actor,
        history::{self, member_event},
        records::{Life, TeamRecord},
        request::{
            find, requester,
            spawn::{self, NewOrder},
        },
        tags,
        time::milliseconds,
        topics::Topic,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// Orders a member again if its order says so and both it and its host are gone. Returns whether it was ordered. If no
/// host fits, the next visit to the team tries again. The caller puts the team.
pub fn reschedule(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name, leases: &Leases) -> Result<bool, RuleError> {
    let lost = team.member(name).filter(|member| member.life == Life::Lost);
    let ordered = lost.and_then(|member| member.ordered.clone()).filter(|ordered| ordered.reschedule);
    let Some(ordered) = ordered else { return Ok(false) };
    if team.member(&ordered.host).is_some_and(|host| host.is_host && host.life.is_live()) {
        return Ok(false);
    }
    let before = find(tx, ordered.request_id.as_str())?;
    let terms = v1::SpawnTerms { refused_by: Vec::new(), ..before.spawn.clone().unwrap_or_default() };
    let candidates = read_candidates(tx, team, leases)?;
    let profile = Name::parse(&terms.profile, "profile")?;
    let Ok(chosen) = place(&candidates, &profile, &terms) else { return Ok(false) };

    // The commit fails if either has called since the leases were read.
    tx.check_lease_gone(name.folded());
    tx.check_lease_gone(ordered.host.folded());
    let orderer = match before.requester.as_ref().map(v1::Sender::kind) {
        Some(SenderKind::Operator) => Actor::Operator,
        _ => Actor::Member(requester(team, &before).unwrap_or_else(|| team.lead.clone())),
    };
    let unread = match ordered.prompt_id {
        Some(id) => tx.place_in_inbox(name, id)?.map(|_| id),
        None => None,
    };
    let life = reserve(tx, team, name, terms.plan_mode_required)?;
    if let Some(member) = team.member_mut(name) {
        tags::add_what_fits(member, &chosen.tags_of(&profile));
    }
    let prompt_id = match unread {
        Some(id) => Some(id),
        None => post_prompt(tx, team, &orderer, name, &before.content)?,
    };
    let time = |at: &Option<_>| at.as_ref().map_or(0, milliseconds);
    let order = NewOrder {
        requester: &orderer,
        member: name,
        host: &chosen.name,
        terms,
        prompt: prompt_id.map(|id| (before.content.as_str(), id)),
        deadline_ms: time(&before.expires_at).saturating_sub(time(&before.created_at)),
    };
    spawn::open(tx, team, order)?;
    let detail = format!("It was lost with {}, and ordered again from {}.", ordered.host, chosen.name);
    history::append(tx, member_event(name, MemberState::Spawning, life, &detail));
    tx.notify(Topic::Team);
    Ok(true)
}
