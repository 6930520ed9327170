//! Teams: creating and deleting them.

use std::collections::BTreeMap;

use bytes::Bytes;
use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id,
    name::Name,
    v1::{self, Liveness, MemberState, NoticeKind, TeamEventKind},
    word,
};

use super::{
    actor::Actor,
    fields::known,
    history::{self, member_event, team_event},
    idempotency::{KeyedCall, fingerprint, without_labels},
    identity::{self, Admit, CallerCredentials, Principal},
    life::{NewLife, attributes, new_credential},
    notices,
    query::{MemberFacts, member_state, show_member, show_new_member, show_team},
    records::{Life, MemberRecord, PresenceRecord, SessionRecord, TeamRecord},
    topics::Topic,
    tx::{RuleError, Tx},
};
use crate::store::Leases;

/// How many characters a team's description may have.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// The lead's default name.
const LEAD_NAME: &str = "lead";

/// Creates a team, with its lead.
pub fn create(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CreateTeamRequest,
) -> Result<v1::CreateTeamResponse, RuleError> {
    identity::operator(tx, who)?;
    tx.check_may_write()?;
    let name = Name::parse(&request.name, "name")?;
    let lead = if request.lead_name.is_empty() { LEAD_NAME } else { &request.lead_name };
    let lead = Name::parse_member(lead, "lead_name")?;
    if request.description.chars().count() > DESCRIPTION_CHARS_MAX {
        return Err(Refusal::new(Reason::InvalidField, "description takes up to 1,000 characters.")
            .field("description")
            .into());
    }
    let told = request.lead_attributes.clone().unwrap_or_default();
    let told = attributes(&told)?;

    let bare = v1::CreateTeamRequest {
        idempotency_key: String::new(),
        lead_attributes: without_labels(request.lead_attributes.as_ref()),
        ..request.clone()
    };
    let fingerprint = fingerprint(&bare, request.lead_attributes.as_ref());
    let call = KeyedCall::new("create/operator", &request.idempotency_key, fingerprint)?;
    let secret = new_credential(tx, who, id::idempotency_key(&request.idempotency_key)?);
    let credential = Credential::Member { team: name.clone(), member: lead.clone(), secret: secret.clone() }.reveal();
    if let Some(reply) = call.recorded_reply::<v1::CreateTeamResponse>(tx)? {
        return Ok(v1::CreateTeamResponse { credential, ..reply });
    }
    if let Some(existing) = tx.read::<TeamRecord>("")? {
        return Err(Refusal::new(
            Reason::TeamExists,
            format!(
                "Team {} exists. Choose another name, or delete it first with `teamwire team delete`.",
                existing.name
            ),
        )
        .field("name")
        .into());
    }

    let now_ms = tx.ctx.now_ms;
    let detached = known::<Liveness>(request.lead_liveness, "lead_liveness")? == Liveness::Detached;
    let life = NewLife { name: lead.clone(), secret: &secret, attributes: told, plan_mode_required: false, detached };
    let member = life.begin(None, now_ms);
    let team = TeamRecord {
        name: name.clone(),
        id: tx.new_uuid(),
        description: request.description.clone(),
        created_ms: now_ms,
        lead: lead.clone(),
        members: vec![member.clone()],
    };
    tx.put("", &team);
    // A detached lead has not called yet, so it is away: the caller is the operator.
    let shown = if detached {
        show_member(&team, &member, &MemberFacts { now_ms, ..MemberFacts::default() })
    } else {
        tx.lease(lead.folded(), tx.ctx.limits.lease_ttl);
        show_new_member(&team, &member, tx.ctx)
    };
    history::append(tx, team_event(TeamEventKind::Created, &Actor::Operator, ""));
    history::append(tx, member_event(&lead, MemberState::Joined, 1, ""));
    let reply = v1::CreateTeamResponse { team: Some(show_team(&team)), lead: Some(shown), credential: String::new() };
    call.record_reply(tx, &reply);
    Ok(v1::CreateTeamResponse { credential, ..reply })
}

/// How many of the members that keep a team from being deleted a refusal names. It must fit into the headers of a
/// reply.
const BLOCKING_NAMED_MAX: usize = 12;

/// Deletes a team with everything that belongs to it. `leases`: as just read.
pub fn delete(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str, leases: &Leases) -> Result<Name, RuleError> {
    let (team, caller) = identity::call(tx, who, named, Admit::Live)?;
    caller.lead_only("delete the team")?;
    tx.needs_no_room();
    let own = match &caller {
        Principal::Member { name, .. } => Some(name),
        _ => None,
    };
    let mut blocking = BTreeMap::new();
    let mut may_go_away = false;
    let is_member = |member: &&MemberRecord| !member.is_host && Some(&member.name) != own;
    for member in team.members.iter().filter(is_member).filter(|member| member.life.holds_name()) {
        let id = member.name.folded();
        if member.is_away(leases) {
            tx.check_lease_gone(id);
            continue;
        }
        let (session, presence) = (tx.peek::<SessionRecord>(id)?, tx.peek::<PresenceRecord>(id)?);
        let facts = MemberFacts { session, presence, ..MemberFacts::of_lease(&member.name, leases, &tx.ctx.limits) };
        let (state, _) = member_state(member, &facts);
        may_go_away |= member.detached && member.life == Life::Live;
        blocking.insert(member.name.to_string(), word::member_state(state).to_owned());
    }
    if !blocking.is_empty() {
        let left_out = blocking.len().saturating_sub(BLOCKING_NAMED_MAX);
        let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
        let blocking: BTreeMap<_, _> = blocking.into_iter().take(BLOCKING_NAMED_MAX).collect();
        let away = match may_go_away {
            true => " A member without a process no longer counts once it is away.",
            false => "",
        };
        let list: Vec<_> = blocking.iter().map(|(name, state)| format!("{name} ({state})")).collect();
        let mut refusal = Refusal::new(
            Reason::TeamHasActiveMembers,
            format!(
                "Team {} still has live members: {}{more}. Ask each to end with `teamwire shutdown NAME --wait`, or stop it with \
                 `--force`, then delete again.{away}",
                team.name,
                list.join(", ")
            ),
        );
        refusal.metadata = blocking;
        return Err(refusal.into());
    }
    tx.drop_namespace();
    tx.notify(Topic::Team);
    tx.notify(Topic::Inboxes);
    Ok(team.name.clone())
}

/// Notifies every member that the store has lost commits that it had acknowledged, once per generation of the
/// namespace.
pub fn writes_lost(tx: &mut Tx<'_>, generation: u64) -> Result<(), RuleError> {
    let key = format!("loss/{generation}");
    if tx.recorded_reply(&key).is_some() {
        return Ok(());
    }
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(()) };
    tx.record_reply(&key, Bytes::new());
    history::append(tx, team_event(TeamEventKind::WritesLost, &Actor::Coordinator, ""));
    let members = team.members.iter().filter(|member| !member.is_host && !matches!(member.life, Life::Exited { .. }));
    let to: Vec<Actor> = members.map(|member| Actor::Member(member.name.clone())).collect();
    let notice = v1::Notice {
        kind: NoticeKind::WritesLost.into(),
        text: "The store has lost changes that it had acknowledged, as in a failover: the latest messages, answers or claims may \
               be gone, and acknowledged messages may be delivered again. Check `teamwire history` and `teamwire task list`, \
               and send what is missing again."
            .to_owned(),
        ..v1::Notice::default()
    };
    notices::notify(tx, &team, &to.iter().collect::<Vec<_>>(), notice)?;
    Ok(())
}

/// Returns the team.
pub fn get(tx: &mut Tx<'_>, who: &CallerCredentials, named: &str) -> Result<v1::Team, RuleError> {
    let (team, _) = identity::call(tx, who, named, Admit::Stopping)?;
    Ok(show_team(&team))
}
