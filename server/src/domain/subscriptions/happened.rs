//! An event ends the subscriptions to it, and so does time.

use std::{collections::BTreeMap, slice, time::Duration};

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind},
    word,
};

use crate::domain::{
    actor::Actor,
    notices,
    path_pattern::overlaps,
    records::{DueNoticesRecord, Event, SubscribersRecord, Subscription, SubscriptionsRecord, TeamRecord},
    text,
    tx::{RuleError, Tx},
};

/// How many members' subscriptions expire in one transaction.
const EXPIRED_MEMBERS_MAX: usize = 16;

/// How many characters of patterns are compared with how many of paths for one report. Files beyond cause no notice.
const COMPARED_MAX: usize = 50_000_000;

/// How many files a notice names, and how many characters of each.
const NAMED_MAX: usize = 10;
const NAMED_CHARS_MAX: usize = 200;

/// Notifies the subscribers of these events, and ends their subscriptions. `notice`: what it says of all of them.
/// Changes nothing while the store is full, because then no notice is sent.
pub fn happened(tx: &mut Tx<'_>, team: &TeamRecord, events: &[Event], notice: &v1::Notice) -> Result<(), RuleError> {
    if tx.ctx.store_is_full {
        return Ok(());
    }
    tx.want::<SubscribersRecord>(events.iter().map(Event::subscribers_id))?;
    for event in events {
        let Some(record) = tx.read::<SubscribersRecord>(&event.subscribers_id())? else { continue };
        let subscribers: Vec<Name> = record.subscribers.iter().map(|(name, _)| name.clone()).collect();
        tell(tx, team, event, &subscribers, notice)?;
    }
    Ok(())
}

/// Returns what a notice says of a member that is idle. `summary`: its own, which may be empty.
pub fn member_idle(name: &Name, summary: &str) -> v1::Notice {
    let text = if summary.is_empty() { format!("{name} is idle.") } else { format!("{name} is idle: {summary}") };
    v1::Notice { member: name.to_string(), text, ..v1::Notice::default() }
}

/// Notifies those who wait for a task, which is completed or deleted. `how`: which of these, with the actor.
pub fn task_done(tx: &mut Tx<'_>, team: &TeamRecord, task: v1::TaskSummary, how: &str) -> Result<(), RuleError> {
    let text = format!("Task {} {how}: {}", task.id, task.subject);
    let event = Event::Task(task.id);
    happened(tx, team, &[event], &v1::Notice { task: Some(task), text, ..v1::Notice::default() })
}

/// Notifies those who wait for one of these files, which a member has edited.
pub fn files_edited(tx: &mut Tx<'_>, team: &TeamRecord, editor: &Name, paths: &[&str]) -> Result<(), RuleError> {
    if paths.is_empty() || tx.ctx.store_is_full {
        return Ok(());
    }
    let Some(record) = tx.read::<SubscribersRecord>(&Event::File(String::new()).subscribers_id())? else {
        return Ok(());
    };
    let mut by_pattern: BTreeMap<&str, Vec<Name>> = BTreeMap::new();
    for (name, event) in record.subscribers.iter().filter(|(name, _)| name != editor) {
        if let Event::File(pattern) = event {
            by_pattern.entry(pattern).or_default().push(name.clone());
        }
    }
    let mut left = COMPARED_MAX;
    for (pattern, subscribers) in by_pattern {
        let mut is_edited = |path: &&&str| match left.checked_sub(pattern.len() * path.len()) {
            Some(rest) => {
                left = rest;
                overlaps(pattern, path)
            }
            None => false,
        };
        // In quotes, because a member chooses them.
        let edited: Vec<String> =
            paths.iter().filter(&mut is_edited).map(|path| format!("{:?}", text::cut(path, NAMED_CHARS_MAX))).collect();
        if edited.is_empty() {
            continue;
        }
        let text = format!("{editor} has edited {}.", text::enumerate(&edited, NAMED_MAX));
        let notice = v1::Notice { member: editor.to_string(), text, ..v1::Notice::default() };
        tell(tx, team, &Event::File(pattern.to_owned()), &subscribers, &notice)?;
    }
    Ok(())
}

/// Ends the subscriptions whose time is over, with a notice. Returns when the next one expires.
pub fn expire(tx: &mut Tx<'_>, team: &TeamRecord) -> Result<Option<u64>, RuleError> {
    if tx.ctx.store_is_full {
        return Ok(None);
    }
    let Some(due) = tx.read::<DueNoticesRecord>("")? else { return Ok(None) };
    let now_ms = tx.ctx.now_ms;
    let names = due.expiry_ms.iter().filter(|(_, at_ms)| **at_ms <= now_ms).map(|(name, _)| name.clone());
    let names: Vec<String> = names.take(EXPIRED_MEMBERS_MAX).collect();
    tx.want::<SubscriptionsRecord>(names.iter().cloned())?;
    for name in names {
        let name = Name::parse(&name, "name")?;
        for subscription in own(tx, &name)?.into_iter().filter(|it| it.expires_ms <= now_ms) {
            let waited = word::age(Duration::from_millis(now_ms.saturating_sub(subscription.created_ms)));
            let text = format!(
                "It has not happened within {waited}: {}. The subscription has expired; subscribe again to wait longer.",
                word::event(&shown(&subscription.event))
            );
            let notice = v1::Notice { text, ..v1::Notice::default() };
            tell(tx, team, &subscription.event, slice::from_ref(&name), &notice)?;
        }
        let left = own(tx, &name)?;
        save(tx, &name, left)?;
    }
    Ok(tx.read::<DueNoticesRecord>("")?.and_then(|due| due.expiry_ms.values().min().copied()))
}

/// Ends all subscriptions of a member without a notice.
pub fn forget(tx: &mut Tx<'_>, name: &Name) -> Result<(), RuleError> {
    for subscription in own(tx, name)? {
        end(tx, name, &subscription.event)?;
    }
    Ok(())
}

fn tell(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    event: &Event,
    subscribers: &[Name],
    notice: &v1::Notice,
) -> Result<(), RuleError> {
    tx.want::<SubscriptionsRecord>(subscribers.iter().map(|name| name.folded().to_owned()))?;
    for name in subscribers {
        end(tx, name, event)?;
    }
    let to: Vec<Actor> = subscribers.iter().cloned().map(Actor::Member).collect();
    let notice =
        v1::Notice { kind: NoticeKind::Subscription.into(), subscription: Some(shown(event)), ..notice.clone() };
    notices::notify(tx, team, &to.iter().collect::<Vec<_>>(), notice)
}

/// Returns a subscription to an event as a notice shows it.
fn shown(event: &Event) -> v1::EventSubscription {
    v1::EventSubscription { id: event.id(), event: Some(event.show()), ..v1::EventSubscription::default() }
}

/// Returns a member's subscriptions.
pub(super) fn own(tx: &mut Tx<'_>, name: &Name) -> Result<Vec<Subscription>, RuleError> {
    Ok(tx.read::<SubscriptionsRecord>(name.folded())?.map_or_else(Vec::new, |record| record.subscriptions.clone()))
}

/// Ends a member's subscription to an event, if it has one.
pub(super) fn end(tx: &mut Tx<'_>, name: &Name, event: &Event) -> Result<(), RuleError> {
    let id = event.subscribers_id();
    if let Some(record) = tx.read::<SubscribersRecord>(&id)? {
        let mut record = SubscribersRecord::clone(&record);
        record.subscribers.retain(|(subscriber, of)| subscriber != name || of.id() != event.id());
        match record.subscribers.is_empty() {
            true => tx.delete::<SubscribersRecord>(&id),
            false => tx.put(&id, &record),
        }
    }
    let mut left = own(tx, name)?;
    left.retain(|subscription| subscription.event.id() != event.id());
    save(tx, name, left)
}

/// Stores a member's subscriptions, and when the first of them expires.
pub(super) fn save(tx: &mut Tx<'_>, name: &Name, subscriptions: Vec<Subscription>) -> Result<(), RuleError> {
    let first_ms = subscriptions.iter().map(|subscription| subscription.expires_ms).min();
    let mut due = tx.read::<DueNoticesRecord>("")?.as_deref().cloned().unwrap_or_default();
    let before_ms = match first_ms {
        Some(first_ms) => due.expiry_ms.insert(name.folded().to_owned(), first_ms),
        None => due.expiry_ms.remove(name.folded()),
    };
    if before_ms != first_ms {
        tx.put("", &due);
    }
    match subscriptions.is_empty() {
        true => tx.delete::<SubscriptionsRecord>(name.folded()),
        false => tx.put(name.folded(), &SubscriptionsRecord { subscriptions }),
    }
    Ok(())
}
