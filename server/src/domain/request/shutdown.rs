//! The request that a member exit: who may ask and answer, and what an approval changes.

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, MemberState, RequestKind},
};

use super::{
    Answer, Decided, decide, expect_kind, expiry::expire_overdue, find_visible, member_mut, new_request, settled,
};
use crate::domain::{
    actor::Actor,
    history::{self, member_event},
    records::{EndCause, Life, Pending, SessionEnd, TeamRecord},
    session,
    topics::Topic,
    tx::{RuleError, Tx},
};

/// Asks a member to exit.
pub fn open(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    sender: &Actor,
    to: &Name,
    message: v1::Message,
    deadline_ms: u64,
) -> Result<v1::Message, RuleError> {
    let mut team = team.clone();
    let now_ms = tx.ctx.now_ms;
    let member = member_mut(&mut team, to)?;
    if let Some(pending) = &member.pending_shutdown {
        if pending.expires_ms > now_ms {
            return Err(Refusal::new(
                Reason::ShutdownPending,
                format!(
                    "A shutdown request for {to} is pending: {}. Wait for its answer with `teamwire requests {0} --wait`, or \
                     stop {to} with --force.",
                    pending.id
                ),
            )
            .with("request_id", pending.id.to_string())
            .into());
        }
        expire_overdue(tx, &mut team, to)?;
    }
    let member = member_mut(&mut team, to)?;
    let pending = Pending::new(tx.new_request_id(), now_ms, deadline_ms);
    let request = new_request(RequestKind::Shutdown, sender, member, &pending);
    member.pending_shutdown = Some(pending);
    let message = v1::Message { target_incarnation: request.incarnation, ..message };
    let message = super::open(tx, request, message, to);
    tx.put("", &team);
    // Sessions without credit do not look at their inbox, but must look for this.
    tx.notify(Topic::Session(to.folded()));
    Ok(message)
}

/// Answers a shutdown request. An approval also makes the member stopping and ends its session.
pub fn answer(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    caller: &Actor,
    answer: &Answer,
    compose: impl FnOnce(&mut Tx<'_>) -> v1::Message,
) -> Result<Decided, RuleError> {
    let request = find_visible(tx, team, caller, answer.request_id.as_str())?;
    expect_kind(&request, RequestKind::Shutdown)?;
    let asked = Actor::Member(Name::parse(&request.member, "member")?);
    if *caller != asked {
        return Err(Refusal::new(
            Reason::NotRequestTarget,
            format!("This request was sent to {}; only {0} can answer it.", request.member),
        )
        .field("request_id")
        .into());
    }
    if let Some(before) = settled(tx, team, &request, answer)? {
        return Ok(before);
    }
    let Actor::Member(name) = asked else { return Err(RuleError::Corrupt("a request without a member".to_owned())) };
    let mut team = team.clone();
    member_mut(&mut team, &name)?.pending_shutdown = None;
    let message = decide(tx, &team, &request, caller, answer, compose);
    if answer.approve {
        begin_exit(
            tx,
            &mut team,
            &name,
            EndCause::Approved(answer.request_id.clone()),
            "It has approved its shutdown.",
        )?;
    }
    tx.put("", &team);
    Ok(Decided::Now(message.into()))
}

/// Makes a member stopping that has decided to exit: it approved a request, or it leaves. The caller puts the team.
pub fn begin_exit(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    name: &Name,
    cause: EndCause,
    detail: &str,
) -> Result<(), RuleError> {
    let now_ms = tx.ctx.now_ms;
    let member = member_mut(team, name)?;
    let approved = cause.approved().cloned();
    member.enter(Life::Stopping { cause, alarmed: false }, now_ms);
    history::append(tx, member_event(name, MemberState::Stopping, member.incarnation, detail));
    session::end(tx, name, approved.map_or(SessionEnd::Left, SessionEnd::ShutdownApproved))?;
    // The member is alive, since it decides. Without a lease, one that counted as lost would be declared exited at
    // once.
    tx.lease(name.folded(), tx.ctx.limits.lease_ttl);
    tx.ends_something();
    Ok(())
}
