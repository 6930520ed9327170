//! What a host offers, and how replies show it.

use std::collections::BTreeSet;

use teamwire_proto::{Reason, Refusal, name::Name, v1};

use crate::domain::{
    fields::start_deadline,
    identity::{self, Admit, CallerCredentials},
    life::check_labels,
    query::{MemberFacts, show_member},
    records::{HostRecord, MemberRecord, ProfileRecord, TeamRecord},
    tags,
    text::check_line,
    time::duration,
    tx::{RuleError, Tx},
};

/// How many profiles a host may offer.
const PROFILES_MAX: usize = 64;

/// How many slots a host may offer.
const SLOTS_MAX: u32 = 1_000;

/// How many characters the platform may have.
const PLATFORM_CHARS_MAX: usize = 100;

/// Records what the caller, a host, offers.
pub fn update(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::UpdateHostRequest,
) -> Result<v1::Host, RuleError> {
    let (team, name) = identity::host(tx, who, Admit::Live)?;
    // An offer replaces the previous one.
    tx.needs_no_room();
    let offer = request.offer.clone().unwrap_or_default();
    let offer = checked(tx, offer)?;
    let before = tx.read::<HostRecord>(name.folded())?;
    if before.as_deref() != Some(&offer) {
        tx.put(name.folded(), &offer);
    }
    let host = team.member(&name).ok_or_else(identity::invalid)?;
    let facts = MemberFacts { now_ms: tx.ctx.now_ms, ..MemberFacts::default() }.is_calling();
    Ok(show(&team, host, Some(&offer), &facts))
}

fn checked(tx: &Tx<'_>, offer: v1::HostOffer) -> Result<HostRecord, Refusal> {
    let refuse = |field: &str, text: &str| Refusal::new(Reason::InvalidField, text.to_owned()).field(field);
    check_labels(offer.labels.iter(), "offer.labels")?;
    if offer.slots > SLOTS_MAX {
        return Err(refuse("offer", "offer.slots must be up to 1,000."));
    }
    check_line(&offer.platform, "offer.platform", Reason::InvalidField, &tx.ctx.limits)?;
    if offer.platform.chars().count() > PLATFORM_CHARS_MAX {
        return Err(refuse("offer", "offer.platform takes up to 100 characters."));
    }
    if offer.profiles.len() > PROFILES_MAX {
        return Err(refuse("offer", "offer.profiles takes up to 64 profiles."));
    }
    let mut seen = BTreeSet::new();
    let mut profiles = Vec::new();
    for profile in &offer.profiles {
        let name = Name::parse(&profile.name, "offer")?;
        if !seen.insert(name.folded().to_owned()) {
            return Err(refuse("offer", &format!("offer.profiles has {name} twice.")));
        }
        check_line(&profile.description, "offer.profiles.description", Reason::InvalidField, &tx.ctx.limits)?;
        let deadline = profile.start_deadline.as_ref();
        let start_deadline_ms =
            deadline.map(|given| start_deadline(given, "offer.profiles.start_deadline")).transpose()?;
        let tags = tags::checked(&profile.tags, "offer.profiles.tags")?;
        profiles.push(ProfileRecord { name, description: profile.description.clone(), start_deadline_ms, tags });
    }
    Ok(HostRecord { labels: offer.labels, profiles, slots: offer.slots, platform: offer.platform })
}

/// Returns a host as replies show it.
pub fn show(team: &TeamRecord, host: &MemberRecord, offer: Option<&HostRecord>, facts: &MemberFacts) -> v1::Host {
    let member = show_member(team, host, facts);
    v1::Host {
        name: member.name,
        state: member.state,
        incarnation: member.incarnation,
        joined_at: member.joined_at,
        state_since: member.state_since,
        lease_left: member.lease_left,
        connected: member.connected,
        offer: offer.map(show_offer),
        slots_used: team.slots_used(&host.name),
        exit: member.exit,
    }
}

fn show_offer(offer: &HostRecord) -> v1::HostOffer {
    let profile = |profile: &ProfileRecord| v1::HostProfile {
        name: profile.name.to_string(),
        description: profile.description.clone(),
        start_deadline: profile.start_deadline_ms.map(duration),
        tags: profile.tags.iter().map(Name::to_string).collect(),
    };
    v1::HostOffer {
        labels: offer.labels.clone(),
        profiles: offer.profiles.iter().map(profile).collect(),
        slots: offer.slots,
        platform: offer.platform.clone(),
    }
}
