//! What is due when time passes: requests and claims of detached lives expire, silent members are declared lost,
//! missing exits are reported to the lead, subscriptions expire, notices have waited long enough.

use teamwire_proto::{
    name::Name,
    v1::{self, MemberState, NoticeKind},
};

use super::{
    actor::Actor,
    history::{self, member_event},
    host,
    limits::Limits,
    membership::conclude_life,
    notices,
    records::{Event, Exit, Life, MemberRecord, PresenceRecord, TeamRecord},
    request, subscriptions,
    task::give_back,
    time::ms,
    tx::{RuleError, Tx},
};
use crate::store::Leases;

/// How many requests expire in one transaction, so that its size is bounded. The others follow in the next one.
const EXPIRED_REQUESTS_MAX: usize = 256;

/// How long a detached life that approved its shutdown or was stopped by force may still complete tasks and acknowledge
/// messages, in milliseconds.
const DETACHED_END_MS: u64 = 5_000;

/// Carries out everything that is due in a team. `leases`: as just read. `may_lose`: whether members whose lease ran
/// out long enough ago may be declared lost; false while this coordinator itself may have been away. Returns in how
/// many milliseconds something will be due if nothing changes. `None` means never.
pub fn carry_out_due(tx: &mut Tx<'_>, leases: &Leases, may_lose: bool) -> Result<Option<u64>, RuleError> {
    let Some(team) = tx.read::<TeamRecord>("")? else { return Ok(None) };
    // Uses the clock that is ahead, because looking too early is harmless.
    let now_ms = tx.ctx.now_ms.max(leases.now_ms);
    let is_due = |member: &&MemberRecord| next_due(member, leases, &tx.ctx.limits).is_some_and(|at_ms| at_ms <= now_ms);
    let due: Vec<Name> = team.members.iter().filter(is_due).map(|member| member.name.clone()).collect();
    let mut team = TeamRecord::clone(&team);
    let (mut changed, mut expired) = (false, 0);
    for name in &due {
        if expired < EXPIRED_REQUESTS_MAX {
            expired += request::expiry::expire_overdue(tx, &mut team, name)?;
            expired += usize::from(host::expire_overdue(tx, &mut team, name)?);
        }
        changed |= end_detached(tx, &mut team, name)?;
        changed |= alarm(tx, &mut team, name)?;
        if may_lose {
            changed |= lose(tx, &mut team, name, leases)?;
        }
    }
    if may_lose {
        let lost = team.members.iter().filter(|member| member.life == Life::Lost && member.ordered.is_some());
        let lost: Vec<Name> = lost.map(|member| member.name.clone()).collect();
        for name in &lost {
            changed |= host::reschedule(tx, &mut team, name, leases)?;
        }
    }
    if changed || expired > 0 {
        tx.put("", &team);
    }
    let claim = match team.members.iter().any(|member| member.detached) {
        true => give_back::expire_claims(tx, &team)?,
        false => None,
    };
    let subscriptions = subscriptions::expire(tx, &team)?;
    let notices = notices::send_due(tx, &team)?;
    let members = team.members.iter().filter_map(|member| next_due(member, leases, &tx.ctx.limits));
    Ok(members.chain(claim).chain(subscriptions).chain(notices).min().map(|due_ms| due_ms.saturating_sub(now_ms)))
}

/// Returns when something will next be due for a member.
fn next_due(member: &MemberRecord, leases: &Leases, limits: &Limits) -> Option<u64> {
    let requests = member.pending().map(|pending| pending.expires_ms);
    let alarm = match member.life {
        Life::Stopping { .. } if member.detached => Some(member.since_ms + DETACHED_END_MS),
        Life::Stopping { alarmed: false, .. } => Some(member.since_ms + ms(limits.exit_alarm_after)),
        _ => None,
    };
    let loss = (member.life.is_live() && !member.detached).then(|| {
        let lease_ms = leases.until_ms.get(member.name.folded()).copied();
        lease_ms.unwrap_or(member.since_ms + ms(limits.lease_ttl)) + ms(limits.lost_grace)
    });
    requests.chain(alarm).chain(loss).min()
}

/// Ends a detached life that approved its shutdown or was stopped by force: it has no process that would report an
/// exit.
fn end_detached(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<bool, RuleError> {
    let Some(member) = team.member(name) else { return Ok(false) };
    let is_stopping = member.detached && matches!(member.life, Life::Stopping { .. });
    if !is_stopping || tx.ctx.now_ms < member.since_ms + DETACHED_END_MS {
        return Ok(false);
    }
    let exit = Exit::unseen("no process was attached to it");
    conclude_life(tx, team, name, exit)?;
    Ok(true)
}

fn alarm(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<bool, RuleError> {
    let after_ms = ms(tx.ctx.limits.exit_alarm_after);
    let now_ms = tx.ctx.now_ms;
    let lead = team.lead.clone();
    let Some(member) = team.member_mut(name) else { return Ok(false) };
    let overdue = now_ms >= member.since_ms + after_ms;
    let Life::Stopping { alarmed, .. } = &mut member.life else { return Ok(false) };
    if *alarmed || !overdue {
        return Ok(false);
    }
    *alarmed = true;
    let notice = v1::Notice {
        kind: NoticeKind::MemberNotExited.into(),
        member: name.to_string(),
        text: format!(
            "{name} has left, approved its shutdown, or was stopped by force, and has not reported its exit for {} s. Check its \
             process on its machine.",
            after_ms / 1000
        ),
        ..v1::Notice::default()
    };
    notices::notify(tx, team, &[&Actor::Member(lead)], notice)?;
    Ok(true)
}

fn lose(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name, leases: &Leases) -> Result<bool, RuleError> {
    let grace_ms = ms(tx.ctx.limits.lost_grace);
    let until_ms = leases.until_ms.get(name.folded()).copied();
    let Some(member) = team.member(name).filter(|member| !member.detached) else { return Ok(false) };
    // If the life's lease was never written, its time counts from its last change.
    let until_ms = until_ms.unwrap_or(member.since_ms + ms(tx.ctx.limits.lease_ttl));
    if leases.now_ms < until_ms + grace_ms || !member.life.is_live() {
        return Ok(false);
    }
    tx.check_lease_gone(name.folded());
    if matches!(member.life, Life::Stopping { .. }) {
        let exit = Exit::unseen("its exit was never reported, and its lease ran out");
        conclude_life(tx, team, name, exit)?;
        return Ok(true);
    }
    let now_ms = tx.ctx.now_ms;
    let lead = team.lead.clone();
    let Some(member) = team.member_mut(name) else { return Ok(false) };
    member.enter(Life::Lost, now_ms);
    let (shown, incarnation, is_host) = (member.name.clone(), member.incarnation, member.is_host);
    let rescheduled = match &member.ordered {
        Some(ordered) if ordered.reschedule => {
            format!(" If its host, {}, is lost too, it is ordered again from another host.", ordered.host)
        }
        _ => String::new(),
    };
    history::append(
        tx,
        member_event(&shown, MemberState::Lost, incarnation, "Its lease ran out and the grace passed."),
    );
    let tasks = give_back::give_back(tx, name, "its owner was lost")?;
    notices::drop_waiting_idle(tx, team, name)?;
    // If it calls again and is idle, that is news.
    if let Some(presence) = tx.read::<PresenceRecord>(name.folded())?.filter(|presence| presence.idle) {
        tx.put(name.folded(), &PresenceRecord { idle: false, ..PresenceRecord::clone(&presence) });
    }
    let text = format!("{shown} has given no heartbeat for some time and counts as lost.");
    let lost = v1::Notice { member: shown.to_string(), text, ..v1::Notice::default() };
    subscriptions::happened(tx, team, &[Event::Exit(name.clone())], &lost)?;
    if lead != *name {
        let notice = v1::Notice {
            kind: NoticeKind::MemberLost.into(),
            member: shown.to_string(),
            text: match is_host {
                true => format!(
                    "The host {shown} has given no heartbeat for some time and counts as lost. No order goes to it until it calls \
                     again; its members may keep running without it."
                ),
                false => format!(
                    "{shown} has given no heartbeat for some time and counts as lost. Its inbox still accepts messages. It is \
                     active again as soon as it calls; its name can be joined again.{}{rescheduled}",
                    give_back::given_back_text(&tasks)
                ),
            },
            ..v1::Notice::default()
        };
        notices::notify(tx, team, &[&Actor::Member(lead)], notice)?;
    }
    Ok(true)
}
