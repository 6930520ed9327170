//! Notices: who gets one, and how often.
//!
//! A notice goes to members as their [levels](NoticeLevel) ask. While it is unprocessed, a newer one of the same kind
//! about the same thing takes its place in the inbox and counts the events of both, at most once per `notice_interval`;
//! in between it waits outside the inbox. So an inbox holds few notices, however often their events happen, and the
//! history records few of them. A digest is another kind of notice; it waits for `digest_interval`.
//!
//! Each member has a list of its notices, which names those in its inbox and those that wait ([`list`]).

mod list;

use teamwire_proto::{
    id::MessageId,
    name::Name,
    v1::{self, DeadLetterCause, NoticeKind, message::Body},
};

use super::{
    actor::Actor,
    inbox::{Leaving, id_of, remove_from_inbox},
    post::{self, Urgency},
    records::{DueNoticesRecord, MemberRecord, NoticeLevel, NoticeSlot, SentNotice, TeamRecord, WaitingNotice},
    time::{ms, timestamp},
    tx::{FULL_RETRY_MS, RuleError, Tx},
};
use list::NoticeList;

/// How many notices a digest gathers. It only counts further ones.
const GATHERED_MAX: usize = 32;

/// How many waiting notices of a member are sent in one transaction.
const SENT_AT_ONCE_MAX: usize = 16;

/// Sends a notice of the coordinator to the members among `to`, once each, as their levels ask. Sends nothing while the
/// store is full.
pub fn notify(tx: &mut Tx<'_>, team: &TeamRecord, to: &[&Actor], notice: v1::Notice) -> Result<(), RuleError> {
    if tx.ctx.store_is_full {
        return Ok(());
    }
    let important = notice.important || notice.kind().is_important();
    let notice = v1::Notice { count: 1, first_at: Some(timestamp(tx.ctx.now_ms)), important, ..notice };
    let message = post::compose(tx, team, &Actor::Coordinator, Body::Notice(notice.clone()));
    let id = id_of(&message)?;
    let members = recipients(team, to);
    list::prefetch(tx, &members)?;
    let mut first = Vec::new();
    for member in &members {
        if is_first(tx, team, member, id, &notice)? {
            first.push(&member.name);
        }
    }
    // A notice to the operator, who has no inbox, is only in the history.
    if members.is_empty() || !first.is_empty() {
        post::post(tx, message, &first, Urgency::Notice);
    }
    Ok(())
}

fn recipients<'t>(team: &'t TeamRecord, to: &[&Actor]) -> Vec<&'t MemberRecord> {
    let mut members: Vec<&MemberRecord> = Vec::new();
    for party in to {
        if let Actor::Member(name) = party
            && let Some(member) = team.member(name)
            && !members.iter().any(|known| known.name == member.name)
        {
            members.push(member);
        }
    }
    members
}

/// Returns whether the caller must send a notice to a member, under `message_id`: it is the first one. Otherwise the
/// level excludes it, or it waits, or it has replaced an unprocessed one.
fn is_first(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    member: &MemberRecord,
    message_id: MessageId,
    notice: &v1::Notice,
) -> Result<bool, RuleError> {
    let is_gathered = match member.notice_level {
        NoticeLevel::Important if !notice.important => return Ok(false),
        NoticeLevel::Digest => !notice.important,
        NoticeLevel::All | NoticeLevel::Important => false,
    };
    let notice = if is_gathered { digest_of(notice) } else { notice.clone() };
    let now_ms = tx.ctx.now_ms;
    let mut list = NoticeList::load(tx, &member.name)?;
    let mut slot = list.take(tx, notice.kind, &notice.about())?;
    slot.important = notice.important || (slot.sent.is_some() && slot.important);
    let waiting = match &slot.waiting {
        Some(waiting) => tx.read::<v1::Message>(&waiting.message_id.to_string())?,
        None => None,
    };
    let due_ms = match &slot.sent {
        _ if is_gathered => now_ms + ms(tx.ctx.limits.digest_interval),
        Some(sent) => sent.sent_ms + ms(tx.ctx.limits.notice_interval),
        None => now_ms,
    };
    let mut is_first = false;
    if let Some(waiting) = waiting {
        tx.put(&waiting.id, &after(&waiting, v1::Message::clone(&waiting), &notice));
    } else if due_ms > now_ms {
        let message = own_message(tx, team, member, notice);
        tx.put(&message.id, &message);
        slot.waiting = Some(WaitingNotice { message_id: id_of(&message)?, due_ms });
    } else if slot.sent.is_some() {
        let message = own_message(tx, team, member, notice);
        send(tx, &member.name, &mut slot, message)?;
    } else {
        slot.sent = Some(SentNotice { message_id, sent_ms: now_ms });
        is_first = true;
    }
    list.put_back(slot);
    list.save(tx)?;
    Ok(is_first)
}

fn own_message(tx: &mut Tx<'_>, team: &TeamRecord, member: &MemberRecord, notice: v1::Notice) -> v1::Message {
    let message = post::compose(tx, team, &Actor::Coordinator, Body::Notice(notice));
    v1::Message { recipients: vec![member.name.to_string()], ..message }
}

/// Sends a notice to a member in place of the unprocessed one in its inbox, if there is one.
fn send(tx: &mut Tx<'_>, member: &Name, slot: &mut NoticeSlot, message: v1::Message) -> Result<(), RuleError> {
    let mut message = v1::Message { sent_at: Some(timestamp(tx.ctx.now_ms)), ..message };
    if let Some(sent) = slot.sent.take()
        && let Some(earlier) = tx.read::<v1::Message>(&sent.message_id.to_string())?
        && let Some(sequence) = tx.place_in_inbox(member, sent.message_id)?
    {
        remove_from_inbox(
            tx,
            member,
            &[Leaving::withdrawn(sequence, sent.message_id)],
            Some(DeadLetterCause::Replaced),
        );
        if let Some(Body::Notice(notice)) = message.body.take() {
            message = after(&earlier, message, &notice);
        }
    }
    slot.sent = Some(SentNotice { message_id: id_of(&message)?, sent_ms: tx.ctx.now_ms });
    post::post(tx, message, &[member], Urgency::Notice);
    Ok(())
}

/// Returns a message with this notice, which also covers the events of an earlier one.
fn after(earlier: &v1::Message, message: v1::Message, notice: &v1::Notice) -> v1::Message {
    let both = match &earlier.body {
        Some(Body::Notice(earlier)) => fold(earlier, notice),
        _ => notice.clone(),
    };
    v1::Message { body: Some(Body::Notice(both)), ..message }
}

/// Returns the later notice, which covers the events of both.
fn fold(earlier: &v1::Notice, later: &v1::Notice) -> v1::Notice {
    let mut gathered = earlier.gathered.clone();
    for notice in &later.gathered {
        let place = gathered.iter().position(|known| known.kind == notice.kind && known.about() == notice.about());
        match place {
            Some(place) => gathered[place] = fold(&gathered[place], notice),
            None if gathered.len() < GATHERED_MAX => gathered.push(notice.clone()),
            None => {}
        }
    }
    let both = v1::Notice {
        count: earlier.count.saturating_add(later.count),
        first_at: earlier.first_at,
        important: earlier.important || later.important,
        gathered,
        ..later.clone()
    };
    if both.kind() == NoticeKind::Digest { with_digest_text(both) } else { both }
}

/// Returns a digest of one notice.
fn digest_of(notice: &v1::Notice) -> v1::Notice {
    with_digest_text(v1::Notice {
        kind: NoticeKind::Digest.into(),
        count: notice.count,
        first_at: notice.first_at,
        gathered: vec![notice.clone()],
        ..v1::Notice::default()
    })
}

/// Gives a digest its text: a line for each notice. A member writes part of some lines, but no line break, so it cannot
/// forge one.
fn with_digest_text(digest: v1::Notice) -> v1::Notice {
    let line = |notice: &v1::Notice| match notice.count {
        0 | 1 => notice.text.clone(),
        count => format!("{} ({count} times)", notice.text),
    };
    let lines: Vec<String> = digest.gathered.iter().map(line).collect();
    let gathered: u32 = digest.gathered.iter().map(|notice| notice.count).sum();
    let more = match digest.count.saturating_sub(gathered) {
        0 => String::new(),
        more => format!("\nand {more} more"),
    };
    v1::Notice { text: format!("{}{more}", lines.join("\n")), ..digest }
}

/// Sends the notices that have waited long enough. Returns when the next one is due, or when to try again if the store
/// is full. `None` if none waits.
pub fn send_due(tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Option<u64>, RuleError> {
    if tx.ctx.store_is_full {
        return Ok(Some(tx.ctx.now_ms + FULL_RETRY_MS));
    }
    let Some(due) = tx.read::<DueNoticesRecord>("")? else { return Ok(None) };
    let now_ms = tx.ctx.now_ms;
    let is_due = |member: &&MemberRecord| due.due_ms.get(member.name.folded()).is_some_and(|due_ms| *due_ms <= now_ms);
    for member in team.members.iter().filter(is_due) {
        let mut list = NoticeList::load(tx, &member.name)?;
        for (kind, about) in list.due(now_ms, SENT_AT_ONCE_MAX) {
            let mut slot = list.take(tx, kind, &about)?;
            if let Some(waiting) = slot.waiting.take()
                && let Some(message) = tx.read::<v1::Message>(&waiting.message_id.to_string())?
            {
                send(tx, &member.name, &mut slot, v1::Message::clone(&message))?;
            }
            list.put_back(slot);
        }
        list.save(tx)?;
    }
    Ok(tx.read::<DueNoticesRecord>("")?.and_then(|due| due.due_ms.values().min().copied()))
}

/// Drops unsent "member is idle" notices about a member whose life is over: they would arrive after the notice that
/// says so.
pub(super) fn drop_waiting_idle(tx: &mut Tx<'_>, team: &TeamRecord, idle: &Name) -> Result<(), RuleError> {
    let Some(due) = tx.read::<DueNoticesRecord>("")? else { return Ok(()) };
    let about = v1::Notice { kind: NoticeKind::Idle.into(), member: idle.to_string(), ..v1::Notice::default() }.about();
    for member in team.members.iter().filter(|member| due.due_ms.contains_key(member.name.folded())) {
        let mut list = NoticeList::load(tx, &member.name)?;
        list.drop_waiting(tx, NoticeKind::Idle, &about);
        list.save(tx)?;
    }
    Ok(())
}

/// Deletes the notices of a member that leaves the roster, except those in its inbox.
pub(super) fn forget(tx: &mut Tx<'_>, member: &Name) -> Result<(), RuleError> {
    let mut list = NoticeList::load(tx, member)?;
    list.clear(tx);
    list.save(tx)
}
