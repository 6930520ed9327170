//! How an order ends if the member has not started: its host rejects it, or it expires.

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind, RequestState},
};

use crate::domain::{
    actor::Actor,
    identity::invalid,
    membership::conclude_life,
    records::{EndCause, Exit, Life, TeamRecord},
    request::{
        conclude, find, leave_pending, remove_pending,
        spawn::{self, tell},
    },
    tx::{RuleError, Tx},
};

/// How many characters of a program's last output a notice repeats.
const OUTPUT_CHARS_MAX: usize = 1_000;

/// How many characters of a reason an exit report and a notice repeat.
const REASON_CHARS_MAX: usize = 160;

/// Rejects an order for good: neither its host nor another host can start the member. The caller puts the team.
pub(super) fn reject(
    tx: &mut Tx<'_>,
    team: &mut TeamRecord,
    request: &v1::Request,
    host: &Name,
    reason: &str,
) -> Result<v1::Request, RuleError> {
    let rejected = v1::Request {
        decided_by: Some((&Actor::Member(host.clone())).into()),
        reason: reason.to_owned(),
        ..leave_pending(tx, request, RequestState::Rejected)
    };
    remove_pending(team, request)?;
    conclude(tx, &rejected);
    let brief = brief(reason);
    free_name(tx, team, request, &format!("{host} did not start it: {brief}"))?;
    let text = format!(
        "{} was not started: {host} says: {brief}{} The name is free again.",
        request.member,
        last_output(reason)
    );
    tell(tx, team, request, NoticeKind::SpawnFailed, text)?;
    Ok(rejected)
}

/// Expires the order that began the member's life, if it is overdue. Returns whether it was. The caller puts the team.
pub fn expire_overdue(tx: &mut Tx<'_>, team: &mut TeamRecord, name: &Name) -> Result<bool, RuleError> {
    let now_ms = tx.ctx.now_ms;
    let order = team.member(name).and_then(|member| member.pending_order.as_ref());
    let Some(id) = order.filter(|order| order.expires_ms <= now_ms).map(|order| order.id.clone()) else {
        return Ok(false);
    };
    let request = find(tx, id.as_str())?;
    expire(tx, team, &request)?;
    Ok(true)
}

/// Expires an order. The caller puts the team.
fn expire(tx: &mut Tx<'_>, team: &mut TeamRecord, request: &v1::Request) -> Result<(), RuleError> {
    remove_pending(team, request)?;
    conclude(tx, &leave_pending(tx, request, RequestState::Expired));
    free_name(tx, team, request, &format!("{} did not start it in time", request.approver))?;
    let text = format!(
        "{} was ordered from {}, which has not started it in time. The name is free again, so it can be ordered again.",
        request.member, request.approver
    );
    tell(tx, team, request, NoticeKind::SpawnFailed, text)
}

/// Frees the name of a member that was not started, or that joined and never opened a session.
fn free_name(tx: &mut Tx<'_>, team: &mut TeamRecord, request: &v1::Request, why: &str) -> Result<(), RuleError> {
    spawn::clear_up(tx, team, request, why)?;
    let name = Name::parse(&request.member, "member")?;
    match team.member(&name).map(|member| member.life.clone()) {
        Some(Life::Live | Life::Lost | Life::Stopping { .. }) => {
            conclude_life(tx, team, &name, Exit::unseen(why))?;
            // The notice has said that the member was not started, so it may not come back.
            if let Life::Exited { cause, .. } = &mut team.member_mut(&name).ok_or_else(invalid)?.life
                && !cause.is_dismissal()
            {
                *cause = EndCause::NotStarted;
            }
            Ok(())
        }
        Some(Life::Exited { .. } | Life::Spawning) | None => Ok(()),
    }
}

/// Returns the first line of a reason as the end of a sentence, truncated to fit a notice.
fn brief(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default().trim();
    let mut brief: String = line.chars().filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect();
    if brief.len() < line.len() {
        brief.push('…');
    } else if !brief.ends_with(['.', '!', '?']) {
        brief.push('.');
    }
    brief
}

/// Returns the last output of the program, which follows the first line of a reason, as a sentence. It begins with a
/// space.
fn last_output(reason: &str) -> String {
    let lines: Vec<&str> = reason.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let plain: Vec<char> = lines.join(" / ").chars().filter(|c| !c.is_control()).collect();
    let left_out = plain.len().saturating_sub(OUTPUT_CHARS_MAX);
    let ellipsis = if left_out > 0 { "…" } else { "" };
    format!(" Its last output: {ellipsis}{}.", String::from_iter(&plain[left_out..]).trim_end_matches('.'))
}
