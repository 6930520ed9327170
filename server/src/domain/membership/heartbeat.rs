//! Heartbeats: members report that they are alive, and what they do.

use teamwire_proto::{
    Reason,
    v1::{self, MemberState, NoticeKind},
};

use super::work_failure::report_failure;
use crate::domain::{
    actor::Actor,
    identity::{self, Admit, CallerCredentials},
    life::renew,
    notices,
    records::{Event, Life, PresenceRecord},
    subscriptions::{self, member_idle},
    text::check_line,
    tx::{RuleError, Tx},
};

/// Renews the caller's lease, and records what it does.
pub fn heartbeat(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::HeartbeatRequest,
) -> Result<v1::HeartbeatResponse, RuleError> {
    let (team, name) = identity::process(tx, who, Admit::Stopping)?;
    // A heartbeat replaces what the previous one said, and notices replace each other.
    tx.needs_no_room();
    check_line(&request.summary, "summary", Reason::InvalidSummary, &tx.ctx.limits)?;
    let lease = tx.ctx.limits.lease_ttl;
    renew(tx, std::slice::from_ref(&name))?;
    let incarnation = team.member(&name).map_or(0, |member| member.incarnation);
    let before = tx.read::<PresenceRecord>(name.folded())?.filter(|before| before.incarnation == incarnation);
    let was_idle = before.as_ref().is_some_and(|before| before.idle);
    let idle = match request.activity() {
        v1::Activity::Unspecified => was_idle,
        activity => activity == v1::Activity::Idle,
    };
    let last = before.as_ref().map_or("", |before| before.summary.as_str());
    let summary = if request.summary.is_empty() { last } else { &request.summary };
    if before.is_none() || was_idle != idle || last != summary {
        let since_ms = match &before {
            Some(before) if was_idle == idle => before.since_ms,
            _ => tx.ctx.now_ms,
        };
        let summary_ms = match &before {
            Some(before) if last == summary => before.summary_ms,
            _ => tx.ctx.now_ms,
        };
        tx.put(name.folded(), &PresenceRecord { incarnation, idle, since_ms, summary: summary.to_owned(), summary_ms });
    }
    if idle && !was_idle && team.member(&name).is_some_and(|member| !member.is_host) {
        let notice = v1::Notice { kind: NoticeKind::Idle.into(), ..member_idle(&name, summary) };
        subscriptions::happened(tx, &team, &[Event::Idle(name.clone())], &notice)?;
        if !team.is_lead(&name) {
            notices::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice)?;
        }
    }
    if let Some(failure) = &request.failure {
        report_failure(tx, &team, &name, failure)?;
    }
    let stopping = team.member(&name).is_some_and(|member| matches!(member.life, Life::Stopping { .. }));
    let state = match (stopping, idle) {
        (true, _) => MemberState::Stopping,
        (false, true) => MemberState::Idle,
        (false, false) => MemberState::Active,
    };
    Ok(v1::HeartbeatResponse { lease: prost_types::Duration::try_from(lease).ok(), state: state.into() })
}
