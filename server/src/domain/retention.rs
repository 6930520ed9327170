//! What is deleted, and when. A message that is still in an inbox outlives its entry in the history, and is deleted
//! once it is processed.

use std::{collections::HashSet, ops::Range, sync::Arc};

use teamwire_proto::{
    id::MessageId,
    name::Name,
    v1::{self, NoticeKind, RequestState, history_entry::Event},
};
use uuid::Uuid;

use super::{
    actor::Actor,
    history,
    inbox::{Leaving, remove_from_inbox},
    notices, permission_rules,
    quota::{ALARM_AGAIN_BELOW, ALARM_PERCENT, FULL_PERCENT, HeldBytes, REMEDY},
    records::{
        ActivityRecord, ActsFor, ConsoleRecord, CursorRecord, HostRecord, JoinTokenRecord, LastTurnRecord, Life,
        ObserverRecord, PresenceRecord, QuotaRecord, ReceiptRecord, SessionRecord, SignInCodeRecord, SignInsRecord,
        TeamRecord, UnprocessedRecord, WorkRecord, receipt_id,
    },
    runner_query, same_files,
    streams::{self, HISTORY, LEFTOVERS, REQUESTS},
    subscriptions,
    task::{
        board::{BoardRecord, TaskRecord},
        record_id,
    },
    time::{milliseconds, ms},
    tx::{RuleError, Tx},
};

/// How long an expired credential is kept, so that its bearer learns why it is refused. 24 h.
const EXPIRED_MS: u64 = 24 * 60 * 60 * 1_000;

/// A message whose entry in the history is about to be deleted.
#[derive(Clone, Debug)]
pub struct Forgotten {
    /// Its id.
    pub id: MessageId,
    /// Its recipients.
    pub recipients: Vec<Name>,
    /// It lies in an inbox.
    pub is_waiting: bool,
}

/// Returns the team, unless it is no longer the one that was examined: that one may have been deleted, and another
/// created under its name.
fn same_team(tx: &mut Tx<'_>, team_id: Uuid) -> Result<Option<Arc<TeamRecord>>, RuleError> {
    Ok(tx.read::<TeamRecord>("")?.filter(|team| team.id == team_id))
}

/// Removes the oldest entries of the history, with the messages that they name.
pub fn trim_history(
    tx: &mut Tx<'_>,
    team_id: Uuid,
    sequences: &[u64],
    messages: &[Forgotten],
) -> Result<(), RuleError> {
    if same_team(tx, team_id)?.is_none() {
        return Ok(());
    }
    tx.remove(HISTORY, sequences.to_vec());
    for message in messages {
        if message.is_waiting {
            tx.append(LEFTOVERS, message.id.to_string().into(), 0, None);
        } else {
            forget(tx, message);
        }
    }
    Ok(())
}

/// Removes messages that had to outlive their entries in the history.
pub fn trim_leftovers(tx: &mut Tx<'_>, team_id: Uuid, messages: &[(u64, Forgotten)]) -> Result<(), RuleError> {
    if same_team(tx, team_id)?.is_none() {
        return Ok(());
    }
    tx.remove(LEFTOVERS, messages.iter().map(|(sequence, _)| *sequence).collect());
    for (_, message) in messages {
        forget(tx, message);
    }
    Ok(())
}

fn forget(tx: &mut Tx<'_>, message: &Forgotten) {
    tx.delete::<v1::Message>(&message.id.to_string());
    for recipient in &message.recipients {
        tx.delete::<ReceiptRecord>(&receipt_id(message.id, recipient));
    }
}

/// Removes requests that were decided long ago. Keeps an order as long as the life that it began, because its host must
/// report the end of that life, and the member may be ordered again.
pub fn trim_requests(tx: &mut Tx<'_>, team_id: Uuid, requests: &[(u64, String)]) -> Result<(), RuleError> {
    let Some(team) = same_team(tx, team_id)? else { return Ok(()) };
    let lives = team.members.iter().filter(|member| !matches!(member.life, Life::Exited { .. }));
    let needed: HashSet<&str> =
        lives.filter_map(|member| member.ordered.as_ref()).map(|ordered| ordered.request_id.as_str()).collect();
    let requests: Vec<_> = requests.iter().filter(|(_, id)| !needed.contains(id.as_str())).collect();
    if requests.is_empty() {
        return Ok(());
    }
    tx.remove(REQUESTS, requests.iter().map(|(sequence, _)| *sequence).collect());
    for (_, id) in requests {
        tx.delete::<v1::Request>(id);
    }
    Ok(())
}

/// Returns whether a request was decided before an instant.
pub fn is_over_since(request: &v1::Request, before_ms: u64) -> bool {
    request.state() != RequestState::Pending
        && request.decided_at.as_ref().is_some_and(|at| milliseconds(at) < before_ms)
}

/// Removes a member that exited long ago from the roster. Messages that it never processed become dead letters.
/// `activity`: the sequences of its activity.
pub fn remove_member(
    tx: &mut Tx<'_>,
    team_id: Uuid,
    name: &Name,
    inbox: &[Leaving],
    activity: Range<u64>,
) -> Result<(), RuleError> {
    let Some(team) = same_team(tx, team_id)? else { return Ok(()) };
    let Some(member) = team.member(name) else { return Ok(()) };
    if !is_long_gone(&team, name, tx.ctx.now_ms, ms(tx.ctx.limits.exited_member_ttl)) {
        return Ok(());
    }
    let shown = member.name.to_string();
    remove_from_inbox(tx, name, inbox, Some(v1::DeadLetterCause::MemberRemoved));
    for leaving in inbox {
        let event = v1::DeadLetterEvent {
            message_id: leaving.message_id.to_string(),
            recipient: shown.clone(),
            cause: v1::DeadLetterCause::MemberRemoved.into(),
        };
        history::append(tx, Event::DeadLetter(event));
    }
    let id = name.folded();
    tx.delete::<SessionRecord>(id);
    tx.delete::<CursorRecord>(id);
    tx.delete::<PresenceRecord>(id);
    tx.delete::<UnprocessedRecord>(id);
    tx.delete::<ActivityRecord>(id);
    tx.delete::<LastTurnRecord>(id);
    tx.delete::<WorkRecord>(id);
    runner_query::forget(tx, name)?;
    same_files::forget(tx, &team, name);
    subscriptions::forget(tx, name)?;
    tx.delete::<HostRecord>(id);
    tx.delete::<SignInsRecord>(&ActsFor::Member(name.clone()).key());
    tx.remove(streams::activity(name), activity.collect());
    notices::forget(tx, name)?;
    permission_rules::forget_member(tx, name)?;
    let mut team = TeamRecord::clone(&team);
    team.members.retain(|member| member.name != *name);
    tx.put("", &team);
    Ok(())
}

/// Returns whether a member exited so long ago that it may be removed. The lead is never removed, nor a member with a task in
/// review.
pub fn is_long_gone(team: &TeamRecord, name: &Name, now_ms: u64, ttl_ms: u64) -> bool {
    let member = team.member(name).filter(|_| !team.is_lead(name));
    member.is_some_and(|member| {
        let is_exited = matches!(member.life, Life::Exited { .. });
        is_exited && member.pending_reviews.is_empty() && member.since_ms + ttl_ms < now_ms
    })
}

/// Removes tasks that were completed or deleted long ago.
pub fn trim_tasks(tx: &mut Tx<'_>, team_id: Uuid, ids: &[u64]) -> Result<(), RuleError> {
    if same_team(tx, team_id)?.is_none() {
        return Ok(());
    }
    let Some(board) = tx.read::<BoardRecord>("")? else { return Ok(()) };
    let mut board = BoardRecord::clone(&board);
    tx.want::<TaskRecord>(ids.iter().map(|id| record_id(*id)))?;
    for id in ids {
        let id_text = record_id(*id);
        tx.read::<TaskRecord>(&id_text)?;
        board.forget(*id, tx.stored_bytes::<TaskRecord>(&id_text));
        tx.delete::<TaskRecord>(&id_text);
    }
    tx.put("", &board);
    Ok(())
}

/// Removes join tokens and observers' credentials that expired long ago.
pub fn trim_credentials(
    tx: &mut Tx<'_>,
    team_id: Uuid,
    tokens: &[String],
    observers: &[String],
) -> Result<(), RuleError> {
    if same_team(tx, team_id)?.is_none() {
        return Ok(());
    }
    for id in tokens {
        tx.delete::<JoinTokenRecord>(id);
    }
    for id in observers {
        tx.delete::<ObserverRecord>(id);
        tx.delete::<SignInsRecord>(&ActsFor::Observer(id.clone()).key());
    }
    Ok(())
}

/// Removes codes and console credentials that expired long ago, from a team or the directory.
pub fn trim_sign_ins(tx: &mut Tx<'_>, codes: &[String], consoles: &[String]) -> Result<(), RuleError> {
    tx.want::<SignInCodeRecord>(codes.iter().cloned())?;
    for id in codes {
        // Ids are not used twice, but a team may have been deleted and created again.
        if tx.read::<SignInCodeRecord>(id)?.is_some_and(|code| is_long_expired(code.expires_ms, tx.ctx.now_ms)) {
            tx.delete::<SignInCodeRecord>(id);
        }
    }
    tx.want::<ConsoleRecord>(consoles.iter().cloned())?;
    for id in consoles {
        if tx.read::<ConsoleRecord>(id)?.is_some_and(|console| console_is_long_gone(&console, tx.ctx.now_ms)) {
            tx.delete::<ConsoleRecord>(id);
        }
    }
    Ok(())
}

/// Returns whether a credential expired so long ago that it may be deleted.
pub fn is_long_expired(expires_ms: u64, now_ms: u64) -> bool {
    expires_ms + EXPIRED_MS < now_ms
}

/// Returns whether a console credential expired so long ago that it may be deleted.
pub fn console_is_long_gone(console: &ConsoleRecord, now_ms: u64) -> bool {
    console.expires_ms.is_some_and(|expires_ms| is_long_expired(expires_ms, now_ms))
}

/// The oldest message of an inbox, and how many there are.
#[derive(Clone, Debug)]
pub struct Oldest {
    /// The inbox's owner.
    pub member: Name,
    /// Its sequence.
    pub sequence: u64,
    /// Its id.
    pub message_id: MessageId,
    /// When it was sent.
    pub sent_ms: u64,
    /// How many messages lie there.
    pub waiting: u64,
}

/// Notifies the lead of messages that have been unprocessed for too long, except in its own inbox: once per oldest
/// message, and not again before the same time has passed. Returns in how many milliseconds the next one will be late
/// enough. `None` means never, if nothing changes.
pub fn alarm_unprocessed(tx: &mut Tx<'_>, team_id: Uuid, oldest: &[Oldest]) -> Result<Option<u64>, RuleError> {
    let Some(team) = same_team(tx, team_id)? else { return Ok(None) };
    let mut next = None::<u64>;
    let (now_ms, after_ms) = (tx.ctx.now_ms, ms(tx.ctx.limits.unprocessed_alarm_after));
    for found in oldest {
        let Some(member) = team.member(&found.member).filter(|member| !team.is_lead(&member.name)) else { continue };
        let is_gone = matches!(member.life, Life::Exited { .. });
        if is_gone || found.sent_ms + after_ms > now_ms {
            continue;
        }
        let id = found.member.folded();
        let before = tx.read::<UnprocessedRecord>(id)?;
        let before = before.map(|before| (before.sequence, before.told_ms + after_ms));
        match before {
            Some((sequence, _)) if sequence == found.sequence => continue,
            Some((_, again_ms)) if again_ms > now_ms => {
                let after = again_ms - now_ms;
                next = Some(next.map_or(after, |next| next.min(after)));
                continue;
            }
            _ => {}
        }
        tx.put(id, &UnprocessedRecord { sequence: found.sequence, told_ms: now_ms });
        let minutes = (now_ms - found.sent_ms) / 60_000;
        let how_many = if found.waiting == 1 { "a message".to_owned() } else { format!("{} messages", found.waiting) };
        let notice = v1::Notice {
            kind: NoticeKind::Unprocessed.into(),
            member: member.name.to_string(),
            message_id: found.message_id.to_string(),
            text: format!("{} has {how_many} unprocessed, the oldest for {minutes} min.", member.name),
            ..v1::Notice::default()
        };
        notices::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice)?;
    }
    Ok(next)
}

/// Notifies the lead when the team, its tasks or their history become nearly full, and when they become full. Returns
/// the text, if it has.
pub fn alarm_quota(tx: &mut Tx<'_>, team_id: Uuid, held: HeldBytes) -> Result<Option<String>, RuleError> {
    let Some(team) = same_team(tx, team_id)? else { return Ok(None) };
    let limits = tx.ctx.limits.clone();
    let used = held.percent(&limits);
    let reached = [FULL_PERCENT, ALARM_PERCENT].into_iter().find(|percent| used >= *percent);
    let before = tx.read::<QuotaRecord>("")?.and_then(|record| record.percent);
    if reached == before || (reached < before && before.is_some_and(|before| used + ALARM_AGAIN_BELOW > before)) {
        return Ok(None);
    }
    tx.put("", &QuotaRecord { percent: reached });
    if reached < before {
        return Ok(None);
    }
    let lines: Vec<String> = held.nearly_full(&limits).into_iter().map(|part| part.text).collect();
    let then = match reached {
        Some(FULL_PERCENT) => "Teammates can add nothing more there; you and the operator have a reserve.",
        _ => "At 100%, teammates can add nothing more there.",
    };
    let text = format!("{} {then} {REMEDY}", lines.join(" "));
    let notice = v1::Notice { kind: NoticeKind::Quota.into(), text: text.clone(), ..v1::Notice::default() };
    notices::notify(tx, &team, &[&Actor::Member(team.lead.clone())], notice)?;
    Ok(Some(text))
}
