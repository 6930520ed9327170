//! An event ends the subscriptions to it.

use std::{
    collections::{BTreeMap, HashSet},
    slice,
};

use teamwire_proto::{
    name::Name,
    v1::{self, NoticeKind},
};

use crate::domain::{
    actor::Actor,
    notices,
    path_pattern::covers,
    records::{DueNoticesRecord, Event, SubscribersRecord, Subscription, SubscriptionsRecord, TeamRecord},
    text,
    tx::{RuleError, Tx},
};

/// How many characters of patterns are compared with how many of paths for one report. Files beyond cause no notice.
const COMPARED_MAX: usize = 20_000_000;

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

/// Ends a member's subscriptions, and notifies those who wait for the end of its life. `text`: how it ended.
pub fn life_ended(tx: &mut Tx<'_>, team: &TeamRecord, name: &Name, text: String) -> Result<(), RuleError> {
    let events = [Event::Exit(name.clone()), Event::Idle(name.clone())];
    let subscribers = events.iter().map(Event::subscribers_id);
    tx.want_both::<SubscriptionsRecord, SubscribersRecord>([name.folded().to_owned()], subscribers)?;
    forget(tx, name)?;
    happened(tx, team, &events, &v1::Notice { member: name.to_string(), text, ..v1::Notice::default() })
}

/// Returns what a notice says of a member that is idle. `summary`: its own, which may be empty.
pub fn member_idle(name: &Name, summary: &str) -> v1::Notice {
    let text = if summary.is_empty() { format!("{name} is idle.") } else { format!("{name} is idle: {summary}") };
    v1::Notice { member: name.to_string(), text, ..v1::Notice::default() }
}

/// Notifies those who wait for a task, which is completed or deleted. `how`: which of these, with the actor.
pub fn task_done(tx: &mut Tx<'_>, team: &TeamRecord, task: v1::TaskSummary, how: &str) -> Result<(), RuleError> {
    let event = Event::Task(task.id);
    happened(tx, team, &[event], &done_notice(task, how))
}

/// Returns what a notice says of a task that is completed or deleted.
pub(super) fn done_notice(task: v1::TaskSummary, how: &str) -> v1::Notice {
    let text = format!("Task {} {how}: {}", task.id, task.subject);
    v1::Notice { task: Some(task), text, ..v1::Notice::default() }
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
    let mut found = Vec::new();
    for (pattern, subscribers) in by_pattern {
        let mut is_edited = |path: &&&str| match left.checked_sub(pattern.len() * path.len()) {
            Some(rest) => {
                left = rest;
                covers(pattern, path)
            }
            None => false,
        };
        // In quotes, because a member chooses them.
        let edited: Vec<String> =
            paths.iter().filter(&mut is_edited).map(|path| format!("{:?}", text::cut(path, NAMED_CHARS_MAX))).collect();
        if !edited.is_empty() {
            found.push((Event::File(pattern.to_owned()), subscribers, text::enumerate(&edited, NAMED_MAX)));
        }
    }
    // All at once: each record that is missing makes the rule run again.
    let subscribers = found.iter().flat_map(|(_, subscribers, _)| subscribers);
    tx.want::<SubscriptionsRecord>(subscribers.map(|name| name.folded().to_owned()))?;
    for (event, subscribers, edited) in found {
        let text = format!("{editor} has edited {edited}.");
        let notice = v1::Notice { member: editor.to_string(), text, ..v1::Notice::default() };
        tell(tx, team, &event, &subscribers, &notice)?;
    }
    Ok(())
}

/// Ends all subscriptions of a member without a notice.
pub fn forget(tx: &mut Tx<'_>, name: &Name) -> Result<(), RuleError> {
    let mine = own(tx, name)?;
    tx.want::<SubscribersRecord>(mine.iter().map(|subscription| subscription.event.subscribers_id()))?;
    for subscription in mine {
        end(tx, slice::from_ref(name), &subscription.event)?;
    }
    Ok(())
}

/// Ends the subscriptions of these members to an event, with a notice.
pub(super) fn tell(
    tx: &mut Tx<'_>,
    team: &TeamRecord,
    event: &Event,
    subscribers: &[Name],
    notice: &v1::Notice,
) -> Result<(), RuleError> {
    end(tx, subscribers, event)?;
    let to: Vec<Actor> = subscribers.iter().cloned().map(Actor::Member).collect();
    let subscription = notice.subscription.clone().unwrap_or_default();
    let subscription = v1::EventSubscription { id: event.id(), event: Some(event.show()), ..subscription };
    let notice =
        v1::Notice { kind: NoticeKind::Subscription.into(), subscription: Some(subscription), ..notice.clone() };
    notices::notify(tx, team, &to.iter().collect::<Vec<_>>(), notice)
}

/// Returns a member's subscriptions.
pub(super) fn own(tx: &mut Tx<'_>, name: &Name) -> Result<Vec<Subscription>, RuleError> {
    Ok(tx.read::<SubscriptionsRecord>(name.folded())?.map_or_else(Vec::new, |record| record.subscriptions.clone()))
}

/// Ends the subscriptions of these members to an event, of those that have one.
pub(super) fn end(tx: &mut Tx<'_>, names: &[Name], event: &Event) -> Result<(), RuleError> {
    tx.want::<SubscriptionsRecord>(names.iter().map(|name| name.folded().to_owned()))?;
    let (record_id, id) = (event.subscribers_id(), event.id());
    if let Some(record) = tx.read::<SubscribersRecord>(&record_id)? {
        let ending: HashSet<&Name> = names.iter().collect();
        let mut record = SubscribersRecord::clone(&record);
        record.subscribers.retain(|(subscriber, of)| !ending.contains(subscriber) || of.id() != id);
        match record.subscribers.is_empty() {
            true => tx.delete::<SubscribersRecord>(&record_id),
            false => tx.put(&record_id, &record),
        }
    }
    let mut left = Vec::with_capacity(names.len());
    for name in names {
        let mut mine = own(tx, name)?;
        mine.retain(|subscription| subscription.event.id() != id);
        left.push((name, mine));
    }
    save(tx, left)
}

/// Stores the subscriptions of members, and when the first of each expires.
pub(super) fn save(tx: &mut Tx<'_>, members: Vec<(&Name, Vec<Subscription>)>) -> Result<(), RuleError> {
    let before = tx.read::<DueNoticesRecord>("")?.as_deref().cloned().unwrap_or_default();
    let mut due = before.clone();
    for (name, subscriptions) in members {
        match subscriptions.iter().map(|subscription| subscription.expires_ms).min() {
            Some(first_ms) => due.expiry_ms.insert(name.folded().to_owned(), first_ms),
            None => due.expiry_ms.remove(name.folded()),
        };
        match subscriptions.is_empty() {
            true => tx.delete::<SubscriptionsRecord>(name.folded()),
            false => tx.put(name.folded(), &SubscriptionsRecord { subscriptions }),
        }
    }
    if due != before {
        tx.put("", &due);
    }
    Ok(())
}
