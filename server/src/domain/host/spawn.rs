//! Ordering a member: reserves its name, chooses its host, and posts its prompt.

use std::path::{Component, Path};

use teamwire_proto::{
    Reason, Refusal,
    id::MessageId,
    name::Name,
    v1::{self, CancelCause, MemberState, message::Body},
};

use super::placement::{place, read_candidates};
use crate::{
    domain::{
        actor::Actor,
        fields::{known, start_deadline},
        history::{self, member_event},
        idempotency::{KeyedCall, fingerprint},
        identity::{self, Admit, CallerCredentials, invalid},
        inbox::id_of,
        life::{NewLife, check_labels},
        post::{self, Urgency},
        query::show_new_member,
        records::{Attributes, Life, MemberRecord, PresenceRecord, ProfileRecord, SessionEnd, TeamRecord},
        request::{self, spawn::NewOrder},
        session, subscriptions, tags,
        text::check_size,
        time::ms,
        topics::Topic,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// How many bytes the directory may have.
const DIR_BYTES_MAX: usize = 1_000;

/// How many characters of the prompt the summary of its message repeats.
const SUMMARY_CHARS: usize = 100;

/// Orders a member from a host. `leases`: as just read.
pub fn spawn(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SpawnRequest,
    leases: &Leases,
) -> Result<v1::SpawnResponse, RuleError> {
    let (team, caller) = identity::call(tx, who, &request.team, Admit::Live)?;
    let requester = caller.lead_only("start a member")?;
    let bare = v1::SpawnRequest { idempotency_key: String::new(), team: String::new(), ..request.clone() };
    let call =
        KeyedCall::new(&format!("spawn/{}", requester.key()), &request.idempotency_key, fingerprint(&bare, None))?;
    if let Some(reply) = call.recorded_reply::<v1::SpawnResponse>(tx)? {
        return Ok(reply);
    }
    let name = Name::parse_member(&request.name, "name")?;
    let profile = Name::parse(&request.profile, "profile")?;
    let terms = terms(request)?;
    let tags = tags::checked(&request.tags, "tags")?;
    check_size(&request.prompt, "prompt", &tx.ctx.limits)?;
    let mut team = TeamRecord::clone(&team);
    check_free(tx, &team, &name, leases)?;
    let candidates = read_candidates(tx, &team, leases)?;
    let chosen = place(&candidates, &profile, &terms)?;
    let profile = chosen.offer.as_ref().and_then(|offer| offer.profile(&profile));
    let deadline_ms = deadline(tx, request, profile)?;

    let member = reserve(tx, &mut team, &name, request.plan_mode_required)?;
    if let Some(member) = team.member_mut(&name) {
        for tags in profile.map(|profile| &profile.tags).into_iter().chain([&tags]) {
            tags::add(member, tags)?;
        }
    }
    let prompt_id = post_prompt(tx, &team, &requester, &name, &request.prompt)?;
    let order = NewOrder {
        requester: &requester,
        member: &name,
        host: &chosen.name,
        terms,
        prompt: prompt_id.map(|id| (request.prompt.as_str(), id)),
        deadline_ms,
    };
    let made = request::spawn::open(tx, &mut team, order)?;
    let detail = format!("It was ordered from {}.", chosen.name);
    history::append(tx, member_event(&name, MemberState::Spawning, member, &detail));
    tx.put("", &team);
    tx.notify(Topic::Team);
    let member = team.member(&name).ok_or_else(invalid)?;
    let reply = v1::SpawnResponse {
        member: Some(show_new_member(&team, member, tx.ctx)),
        request: Some(made),
        prompt_message_id: prompt_id.as_ref().map(MessageId::to_string).unwrap_or_default(),
    };
    call.record_reply(tx, &reply);
    Ok(reply)
}

/// Checks the terms of an order.
fn terms(request: &v1::SpawnRequest) -> Result<v1::SpawnTerms, Refusal> {
    let host = match request.host.as_str() {
        "" => String::new(),
        host => Name::parse(host, "host")?.to_string(),
    };
    if request.reschedule && !host.is_empty() {
        let text = "reschedule lets the coordinator choose another host: leave out `host`, or say with labels which hosts fit.";
        return Err(Refusal::new(Reason::InvalidField, text).field("reschedule"));
    }
    check_labels(request.labels.iter(), "labels")?;
    known::<v1::RestartPolicy>(request.restart, "restart")?;
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let dir = &request.dir;
    let is_sound = dir.len() <= DIR_BYTES_MAX && !dir.chars().any(char::is_control) && !dir.contains('\\');
    if !is_sound || !Path::new(dir).components().all(is_plain) {
        let text =
            "dir must be a relative path without \"..\", of up to 1,000 bytes: it lies below the profile's directory.";
        return Err(Refusal::new(Reason::InvalidField, text).field("dir"));
    }
    Ok(v1::SpawnTerms {
        profile: request.profile.clone(),
        host,
        labels: request.labels.clone(),
        plan_mode_required: request.plan_mode_required,
        restart: request.restart,
        dir: dir.clone(),
        refused_by: Vec::new(),
        reschedule: request.reschedule,
    })
}

fn deadline(tx: &Tx<'_>, request: &v1::SpawnRequest, profile: Option<&ProfileRecord>) -> Result<u64, Refusal> {
    let usual = profile.and_then(|profile| profile.start_deadline_ms).unwrap_or(ms(tx.ctx.limits.spawn_deadline));
    request.ttl.as_ref().map_or(Ok(usual), |given| start_deadline(given, "ttl"))
}

/// Refuses a name that is not free.
fn check_free(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name, leases: &Leases) -> Result<(), RuleError> {
    let Some(bearer) = team.member(name) else { return Ok(team.check_room(&tx.ctx.limits)?) };
    let state = match &bearer.life {
        _ if bearer.is_host => "is a host's",
        Life::Spawning => "is reserved for a member that is about to start",
        Life::Live if bearer.is_away(leases) => "is taken by a member that is away",
        Life::Live | Life::Stopping { .. } => "is taken",
        Life::Exited { .. } | Life::Lost => {
            // A lost member that calls is live again.
            tx.check_lease_gone(name.folded());
            return Ok(());
        }
    };
    let text = format!("The name {name} {state}. Choose another, or wait until its bearer has exited.");
    Err(Refusal::new(Reason::MemberExists, text).field("name").into())
}

/// Reserves a name. Returns the incarnation of the life that will begin.
pub(super) fn reserve(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    name: &Name,
    plan_mode_required: bool,
) -> Result<u64, RuleError> {
    request::cancel::cancel_all(tx, team, name, CancelCause::TargetReplaced)?;
    let before = team.member(name).cloned();
    let secret = tx.new_secret();
    let attributes = Attributes::default();
    let life = NewLife { name: name.clone(), secret: &secret, attributes, plan_mode_required, detached: false };
    let member = MemberRecord { life: Life::Spawning, ..life.begin(before.as_ref(), tx.ctx.now_ms) };
    let incarnation = member.incarnation;
    match team.member_mut(name) {
        Some(present) => *present = member,
        None => team.members.push(member),
    }
    tx.delete::<PresenceRecord>(name.folded());
    subscriptions::forget(tx, name)?;
    session::end(tx, name, SessionEnd::Replaced)?;
    Ok(incarnation)
}

/// Puts the prompt into the member's inbox. Returns the message's id, which is empty if there is no prompt.
pub(super) fn post_prompt(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    sender: &Actor,
    name: &Name,
    prompt: &str,
) -> Result<Option<MessageId>, RuleError> {
    if prompt.is_empty() {
        return Ok(None);
    }
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut summary: String = line.chars().filter(|c| !c.is_control()).take(SUMMARY_CHARS).collect();
    if !teamwire_proto::visible::is_visible(&summary) {
        "What you are to do".clone_into(&mut summary);
    }
    let body = Body::Message(v1::DirectMessage { recipient: name.to_string(), summary, content: prompt.to_owned() });
    let message = v1::Message { prompt: true, ..post::compose(tx, team, sender, body) };
    Ok(Some(id_of(&post::post(tx, message, &[name], Urgency::Ordinary))?))
}
