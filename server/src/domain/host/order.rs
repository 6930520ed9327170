//! How a host answers its orders.

use std::collections::BTreeSet;

use teamwire_proto::{
    Reason, Refusal,
    credential::Credential,
    id::RequestId,
    name::Name,
    v1::{self, RequestState},
};

use super::{
    ending,
    placement::{place, read_candidates},
};
use crate::{
    domain::{
        actor::Actor,
        identity::{self, Admit, CallerCredentials},
        membership::{conclude_life, exit_of},
        records::{EndCause, JoinTokenRecord, Life, TeamRecord},
        request::spawn::{self, check_pending, find_for},
        secret::SecretHash,
        tags,
        text::Required,
        text::check_content,
        time::milliseconds,
        tx::{RuleError, Tx},
    },
    store::Leases,
};

/// How many hosts may refuse an order before it is rejected.
const HOSTS_TRIED_MAX: usize = 3;

/// Takes an order: issues the join token for its member.
pub fn take(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::TakeOrderRequest,
) -> Result<v1::TakeOrderResponse, RuleError> {
    let (team, host) = identity::host(tx, who, Admit::Live)?;
    tx.needs_no_room();
    let order = find_for(tx, &host, &request.request_id)?;
    check_pending(tx, &order)?;
    let name = Name::parse(&order.member, "member")?;
    let mut team = TeamRecord::clone(&team);
    let member = team.member(&name).filter(|member| member.life == Life::Spawning);
    let member = member.ok_or_else(|| {
        Refusal::new(Reason::AlreadyDecided, format!("{name} has joined with this order before.")).field("request_id")
    })?;
    let plan_mode_required = member.plan_mode_required;
    spawn::void_token(tx, &mut team, &name)?;
    let (id, secret) = (tx.new_secret()[..12].to_owned(), tx.new_secret());
    let token = JoinTokenRecord {
        secret: SecretHash::of(&secret),
        member: Some(name.clone()),
        uses_left: 1,
        expires_ms: order.expires_at.as_ref().map_or(0, milliseconds),
        plan_mode_required,
        is_for_host: false,
        tags: BTreeSet::new(),
        order: RequestId::known(&order.id),
        created_ms: tx.ctx.now_ms,
        created_by: Actor::Member(host.clone()),
        last_used_ms: None,
        revoked: false,
    };
    tx.put(&id, &token);
    if let Some(ordered) = team.member_mut(&name).and_then(|member| member.ordered.as_mut()) {
        ordered.token_id = Some(id.clone());
    }
    tx.put("", &team);
    let join_token = Credential::Join { team: team.name.clone(), id, secret }.reveal();
    Ok(v1::TakeOrderResponse { request: Some(v1::Request::clone(&order)), join_token })
}

/// Refuses an order, which another host may then get. `leases`: as just read.
pub fn refuse(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::RefuseOrderRequest,
    leases: &Leases,
) -> Result<v1::Request, RuleError> {
    let (team, host) = identity::host(tx, who, Admit::Live)?;
    tx.needs_no_room();
    if request.reason.trim().is_empty() {
        let text = "Say in `reason` why the member cannot be started, for those who ordered it.";
        return Err(Refusal::new(Reason::InvalidField, text).field("reason").into());
    }
    check_content(&request.reason, Required::Yes, &tx.ctx.limits)?;
    let order = find_for(tx, &host, &request.request_id)?;
    if order.state() == RequestState::Rejected && order.reason == request.reason {
        return Ok(v1::Request::clone(&order));
    }
    check_pending(tx, &order)?;
    let mut team = TeamRecord::clone(&team);
    let name = Name::parse(&order.member, "member")?;
    let has_joined = team.member(&name).is_none_or(|member| member.life != Life::Spawning);
    let next = match request.try_another_host && !has_joined {
        true => another(tx, &team, &order, leases)?,
        false => None,
    };
    let answered = match next {
        Some((next, its_tags)) => {
            if let Some(member) = team.member_mut(&name) {
                tags::add_what_fits(member, &its_tags);
            }
            spawn::hand_on(tx, &mut team, &order, &next)?
        }
        None => ending::reject(tx, &mut team, &order, &host, &request.reason)?,
    };
    tx.put("", &team);
    Ok(answered)
}

/// Chooses another host for an order that its host cannot take. Returns also the tags of its profile. `None` if the order
/// named its host, no other host fits, or too many have refused.
fn another(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    order: &v1::Request,
    leases: &Leases,
) -> Result<Option<(Name, BTreeSet<Name>)>, RuleError> {
    let mut terms = order.spawn.clone().unwrap_or_default();
    terms.refused_by.push(order.approver.clone());
    if !terms.host.is_empty() || terms.refused_by.len() >= HOSTS_TRIED_MAX {
        return Ok(None);
    }
    let candidates = read_candidates(tx, team, leases)?;
    let profile = Name::parse(&terms.profile, "profile")?;
    let chosen = place(&candidates, &profile, &terms).ok();
    Ok(chosen.map(|chosen| (chosen.name.clone(), chosen.tags_of(&profile))))
}

/// Ends the life of a member that no longer has a process on the caller, its host. The reply says how the life ended.
pub fn report_exit(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ReportExitRequest,
) -> Result<v1::ReportExitResponse, RuleError> {
    let unknown = v1::ReportExitResponse { exit: None };
    let exit = exit_of(tx, request.exit.as_ref(), "exit")?;
    let (team, host) = identity::host(tx, who, Admit::Live)?;
    tx.needs_no_room();
    let order = find_for(tx, &host, &request.request_id)?;
    let name = Name::parse(&order.member, "member")?;
    let mut team = TeamRecord::clone(&team);
    let Some(member) = team.member(&name) else { return Ok(unknown) };
    let is_of_order = member.ordered.as_ref().is_some_and(|ordered| ordered.request_id.as_str() == order.id);
    if !is_of_order {
        return Ok(unknown);
    }
    match &member.life {
        Life::Exited { .. } => return Ok(v1::ReportExitResponse { exit: member.life.exit_report() }),
        // It is about to expire.
        Life::Spawning if check_pending(tx, &order).is_err() => return Ok(unknown),
        Life::Spawning => {
            let how = teamwire_proto::word::exit(&exit.report(&EndCause::ProcessEnded));
            ending::reject(tx, &mut team, &order, &host, &format!("Its runner ended before it joined: {how}."))?;
            tx.put("", &team);
            return Ok(unknown);
        }
        Life::Live | Life::Lost | Life::Stopping { .. } => conclude_life(tx, &mut team, &name, exit)?,
    }
    tx.put("", &team);
    Ok(v1::ReportExitResponse { exit: team.member(&name).and_then(|member| member.life.exit_report()) })
}
