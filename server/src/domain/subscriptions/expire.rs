//! Time ends subscriptions.

use std::{slice, time::Duration};

use teamwire_proto::{name::Name, v1, word};

use super::{
    already::notice_if_true,
    happened::{own, tell},
};
use crate::domain::{
    records::{DueNoticesRecord, Event, Subscription, SubscriptionsRecord, TeamRecord},
    task,
    tx::{RuleError, Tx},
};

/// How many members' subscriptions expire in one transaction.
const EXPIRED_MEMBERS_MAX: usize = 16;

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
            // While the store was full, its event caused no notice.
            let notice = match notice_if_true(tx, team, &subscription.event) {
                Ok(Some(notice)) => notice,
                // A task that is no longer known.
                Ok(None) | Err(RuleError::Refused(_)) => expired(tx, &subscription)?,
                Err(error) => return Err(error),
            };
            tell(tx, team, &subscription.event, slice::from_ref(&name), &notice)?;
        }
    }
    Ok(tx.read::<DueNoticesRecord>("")?.and_then(|due| due.expiry_ms.values().min().copied()))
}

fn expired(tx: &mut Tx<'_>, subscription: &Subscription) -> Result<v1::Notice, RuleError> {
    let event = &subscription.event;
    let shown = v1::EventSubscription { expired: true, event: Some(event.show()), ..v1::EventSubscription::default() };
    let waited = word::age(Duration::from_millis(tx.ctx.now_ms.saturating_sub(subscription.created_ms)));
    let text = format!(
        "It has not happened within {waited}: {}. The subscription has expired; subscribe again to wait longer.",
        word::event(&shown)
    );
    let member = match event {
        Event::Idle(name) | Event::Exit(name) => name.to_string(),
        Event::Task(_) | Event::File(_) => String::new(),
    };
    let task = match event {
        Event::Task(id) => task::summary_of(tx, *id)?,
        _ => None,
    };
    Ok(v1::Notice { member, task, text, subscription: Some(shown), ..v1::Notice::default() })
}
