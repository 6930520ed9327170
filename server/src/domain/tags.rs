//! Tags: which members have one, and which of them gets a message to `@any:TAG`.

use std::collections::{BTreeSet, HashMap};

use teamwire_proto::{
    Reason, Refusal,
    name::{Name, Recipient},
    v1::{MemberState, send_request::Body},
    word,
};

use super::{
    query::{MemberFacts, member_state},
    records::{Life, MemberRecord, TeamRecord},
};

/// How many tags a member has.
const TAGS_MAX: usize = 16;

/// How many tags of a team a refusal names.
const NAMED_MAX: usize = 20;

/// Checks tags that were given in the request's field `field`.
pub fn checked(tags: &[String], field: &str) -> Result<BTreeSet<Name>, Refusal> {
    if tags.len() > TAGS_MAX {
        return Err(too_many(field));
    }
    tags.iter().map(|tag| Name::parse_tag(tag, field)).collect()
}

/// Gives a member tags besides those that it has.
pub fn add(member: &mut MemberRecord, tags: &BTreeSet<Name>) -> Result<(), Refusal> {
    for tag in tags {
        member.tags.insert(tag.clone());
    }
    if member.tags.len() > TAGS_MAX { Err(too_many("tags")) } else { Ok(()) }
}

/// Gives a member tags besides those that it has, up to the bound: for calls that must not fail because of tags.
pub fn add_what_fits(member: &mut MemberRecord, tags: &BTreeSet<Name>) {
    for tag in tags {
        if member.tags.len() < TAGS_MAX {
            member.tags.insert(tag.clone());
        }
    }
}

fn too_many(field: &str) -> Refusal {
    Refusal::new(Reason::InvalidField, format!("A member has up to {TAGS_MAX} tags.")).field(field)
}

/// Returns the members that a message to everyone reaches: those whose lives have not ended, without the sender.
pub fn reached<'t>(team: &'t TeamRecord, sender: Option<&Name>) -> impl Iterator<Item = &'t MemberRecord> {
    team.members.iter().filter(move |member| {
        let is_left = matches!(member.life, Life::Live | Life::Lost | Life::Spawning);
        is_left && !member.is_host && Some(&member.name) != sender
    })
}

/// Returns the members that a message to a tag reaches: those that have it, and whose lives have not ended, without the
/// sender. Refuses a tag that reaches no one.
pub fn holders<'t>(team: &'t TeamRecord, tag: &Name, sender: Option<&Name>) -> Result<Vec<&'t MemberRecord>, Refusal> {
    let reached: Vec<&MemberRecord> = reached(team, sender).filter(|member| member.tags.contains(tag)).collect();
    if !reached.is_empty() {
        return Ok(reached);
    }
    if team.members.iter().any(|member| member.tags.contains(tag)) {
        let text =
            format!("No other member that has the tag \"{tag}\" is left in team {}. Nothing was queued.", team.name);
        return Err(Refusal::new(Reason::AgentExited, text).field("recipient"));
    }
    let known: BTreeSet<&Name> = team.members.iter().flat_map(|member| &member.tags).collect();
    let known: Vec<&str> = known.into_iter().take(NAMED_MAX).map(Name::as_str).collect();
    let has = match known.as_slice() {
        [] => "No member has any tags; the lead sets them with `teamwire tag`.".to_owned(),
        known => format!("Its tags are: {}.", known.join(", ")),
    };
    let text = format!("No member of team {} has the tag \"{tag}\". {has}", team.name);
    Err(Refusal::new(Reason::AgentNotFound, text).field("recipient"))
}

/// Chooses the one of these members that gets a message: an idle one if there is one, and the one with the fewest
/// messages in its inbox. `facts`: what was lately known of them, by their folded names. Returns also a warning if it
/// is not idle.
pub fn choose<'t>(
    holders: &[&'t MemberRecord],
    tag: &Name,
    facts: &HashMap<String, MemberFacts>,
) -> (&'t MemberRecord, Option<String>) {
    let known = |member: &MemberRecord| facts.get(member.name.folded()).cloned().unwrap_or_default();
    let rank = |member: &&&MemberRecord| {
        let facts = known(member);
        let (state, since_ms) = member_state(member, &facts);
        let readiness = match state {
            MemberState::Idle => 0,
            MemberState::Joined | MemberState::Active => 1,
            MemberState::Spawning => 2,
            MemberState::Away => 3,
            _ => 4,
        };
        (facts.inbox_full, readiness, facts.inbox_depth, since_ms)
    };
    let chosen = *holders.iter().min_by_key(rank).expect("a tag that reaches someone");
    let facts = known(chosen);
    let warning = match member_state(chosen, &facts).0 {
        // Its state says that it may not read the message soon.
        MemberState::Idle | MemberState::Lost | MemberState::Spawning => None,
        _ => Some(format!(
            "No member that has the tag \"{tag}\" is idle and has room for messages. {} gets this one; its inbox holds {}.",
            chosen.name,
            word::count(facts.inbox_depth, "other message"),
        )),
    };
    (chosen, warning)
}

/// Returns the tag of a message that goes to one of those that have it.
pub fn any_tag(body: Option<&Body>) -> Option<Name> {
    let Some(Body::Message(ask)) = body else { return None };
    match Recipient::parse(&ask.recipient, "recipient") {
        Ok(Recipient::AnyTagged(tag)) => Some(tag),
        _ => None,
    }
}

/// Returns whether a send reaches many members, and counts as a broadcast.
pub fn reaches_many(body: Option<&Body>) -> bool {
    match body {
        Some(Body::Broadcast(_)) => true,
        Some(Body::Message(ask)) => ask.recipient.starts_with('@') && any_tag(body).is_none(),
        _ => false,
    }
}
