//! Subscribing to an event, listing and cancelling subscriptions.

use std::{sync::Arc, time::Duration};

use teamwire_proto::{
    Reason, Refusal,
    name::Name,
    v1::{self, event_subscription},
};

use super::{
    already::notice_if_true,
    happened::{end, own, save, tell},
};
use crate::domain::{
    fields::ttl,
    identity::{self, Admit, CallerCredentials, Principal},
    path_pattern,
    records::{Event, SubscribersRecord, Subscription, TeamRecord},
    time::timestamp,
    tx::{RuleError, Tx},
};

/// How many subscriptions a member has.
const SUBSCRIPTIONS_MAX: usize = 32;

/// How many members subscribe to one event, and how many subscriptions of a team are to files.
const SUBSCRIBERS_MAX: usize = 100;
const FILE_SUBSCRIBERS_MAX: usize = 256;

/// How long a subscription lasts unless the call says how long.
const TTL: Duration = Duration::from_hours(24);
const TTL_DAYS_MAX: u64 = 1;

/// Subscribes the caller to an event, or sends its notice if it has happened.
pub fn subscribe(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::SubscribeToEventRequest,
) -> Result<v1::SubscribeToEventResponse, RuleError> {
    let (team, name) = subscriber(tx, who, &request.team, Admit::Live)?;
    tx.check_may_write()?;
    let event = event(&team, &name, request.subscription.as_ref().and_then(|asked| asked.event.as_ref()))?;
    let ttl_ms = ttl(request.ttl.as_ref(), TTL, TTL_DAYS_MAX)?;
    let now_ms = tx.ctx.now_ms;
    let subscription = Subscription { event, created_ms: now_ms, expires_ms: now_ms + ttl_ms };
    add(tx, &name, &subscription)?;
    let already = notice_if_true(tx, &team, &subscription.event)?;
    if let Some(notice) = &already {
        tell(tx, &team, &subscription.event, std::slice::from_ref(&name), notice)?;
    }
    let happened = already.is_some();
    Ok(v1::SubscribeToEventResponse { subscription: Some(show(&subscription)), happened })
}

/// Lists the caller's subscriptions.
pub fn list(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::ListEventSubscriptionsRequest,
) -> Result<v1::ListEventSubscriptionsResponse, RuleError> {
    let (_, name) = subscriber(tx, who, &request.team, Admit::Stopping)?;
    let now_ms = tx.ctx.now_ms;
    let open = own(tx, &name)?.into_iter().filter(|subscription| subscription.expires_ms > now_ms);
    Ok(v1::ListEventSubscriptionsResponse { subscriptions: open.map(|subscription| show(&subscription)).collect() })
}

/// Cancels a subscription of the caller.
pub fn cancel(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    request: &v1::CancelEventSubscriptionRequest,
) -> Result<(), RuleError> {
    let (_, name) = subscriber(tx, who, &request.team, Admit::Stopping)?;
    tx.needs_no_room();
    tx.check_may_write()?;
    if request.subscription_id.is_empty() {
        let text = "Say which subscription to cancel: `teamwire subscribe list` shows their ids.";
        return Err(Refusal::new(Reason::InvalidField, text).field("subscription_id").into());
    }
    let of_id = |subscription: &Subscription| subscription.event.id() == request.subscription_id;
    match own(tx, &name)?.into_iter().find(of_id) {
        Some(subscription) => end(tx, std::slice::from_ref(&name), &subscription.event),
        None => Ok(()),
    }
}

fn subscriber(
    tx: &mut Tx<'_>,
    who: &CallerCredentials,
    named: &str,
    admit: Admit,
) -> Result<(Arc<TeamRecord>, Name), RuleError> {
    let (team, caller) = identity::call(tx, who, named, admit)?;
    match caller {
        Principal::Member { name, .. } => Ok((team, name)),
        Principal::Operator | Principal::Observer => {
            let text = "Only a member gets notices. Use a member's credential; `teamwire watch` shows what happens.";
            Err(Refusal::new(Reason::NotPermitted, text).into())
        }
    }
}

fn event(team: &TeamRecord, caller: &Name, asked: Option<&event_subscription::Event>) -> Result<Event, Refusal> {
    use event_subscription::Event as Ask;
    let other = |named: &str| {
        let member = team.resolve(named, "subscription")?;
        if member.name == *caller {
            let text = format!("You are {caller}. Subscribe to what another member does.");
            return Err(Refusal::new(Reason::SelfRecipient, text).field("subscription"));
        }
        Ok(member.name.clone())
    };
    match asked {
        None => {
            let text = "Say what to wait for: a member that is idle or exits, a task, or the pattern of a file.";
            Err(Refusal::new(Reason::InvalidField, text).field("subscription"))
        }
        Some(Ask::MemberIdle(named)) => Ok(Event::Idle(other(named)?)),
        Some(Ask::MemberExit(named)) => Ok(Event::Exit(other(named)?)),
        Some(Ask::TaskDone(id)) => Ok(Event::Task(*id)),
        Some(Ask::FileEdited(pattern)) => Ok(Event::File(path_pattern::check(pattern, "subscription")?)),
    }
}

/// Adds a subscription, or renews it.
fn add(tx: &mut Tx<'_>, name: &Name, subscription: &Subscription) -> Result<(), RuleError> {
    let now_ms = tx.ctx.now_ms;
    let quota = |text: String| RuleError::from(Refusal::new(Reason::QuotaExceeded, text).field("subscription"));
    let id = subscription.event.id();
    let mut mine = own(tx, name)?;
    mine.retain(|other| other.event.id() != id);
    if mine.iter().filter(|other| other.expires_ms > now_ms).count() >= SUBSCRIPTIONS_MAX {
        return Err(quota(format!(
            "You have {SUBSCRIPTIONS_MAX} subscriptions, which is the limit. Cancel one: `teamwire subscribe list` shows them."
        )));
    }
    mine.push(subscription.clone());
    let record_id = subscription.event.subscribers_id();
    let mut record = tx.read::<SubscribersRecord>(&record_id)?.as_deref().cloned().unwrap_or_default();
    if !record.subscribers.iter().any(|(other, event)| other == name && event.id() == id) {
        let (max, what) = match subscription.event {
            Event::File(_) => (FILE_SUBSCRIBERS_MAX, "The team has as many subscriptions to files"),
            _ => (SUBSCRIBERS_MAX, "As many members have subscribed to this"),
        };
        if record.subscribers.len() >= max {
            return Err(quota(format!("{what} as are possible, {max}. Try again later.")));
        }
        record.subscribers.push((name.clone(), subscription.event.clone()));
        tx.put(&record_id, &record);
    }
    save(tx, vec![(name, mine)])
}

fn show(subscription: &Subscription) -> v1::EventSubscription {
    v1::EventSubscription {
        id: subscription.event.id(),
        event: Some(subscription.event.show()),
        created_at: Some(timestamp(subscription.created_ms)),
        expires_at: Some(timestamp(subscription.expires_ms)),
        expired: false,
    }
}
