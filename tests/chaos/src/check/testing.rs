//! Builders for histories.

use std::collections::BTreeMap;

use super::{Promise, check};
use crate::history::{Event, What};

/// Builds a history of consecutive events, ten seconds apart.
fn history(events: &[(&str, u32, What)]) -> Vec<Event> {
    let events = events.iter().enumerate().map(|(at, (member, process, what))| Event {
        at_us: at as u64 * 10_000_000,
        member: (*member).to_owned(),
        process: *process,
        what: what.clone(),
    });
    events.collect()
}

pub(super) fn sending(op: u64) -> What {
    What::Sending { op, to: "bob".to_owned(), content: format!("c{op}") }
}

pub(super) fn sent(op: u64) -> What {
    What::Sent {
        op,
        message_id: format!("m{op}"),
        recipients: vec!["bob".to_owned()],
        again: false,
        replayed: false,
        durability: "DURABILITY_FSYNCED".to_owned(),
    }
}

pub(super) fn delivered(op: u64, sequence: u64, delivery_count: u32) -> What {
    let (message_id, content) = (format!("m{op}"), format!("c{op}"));
    What::Delivered { message_id, sequence, delivery_count, from: "ann".to_owned(), content, is_urgent: false }
}

/// The delivery of a shutdown request with this place in the inbox.
pub(super) fn delivered_request(sequence: u64) -> What {
    let (message_id, from) = (format!("r{sequence}"), "coordinator".to_owned());
    What::Delivered { message_id, sequence, delivery_count: 1, from, content: String::new(), is_urgent: true }
}

pub(super) fn last(op: u64, state: &str) -> What {
    let receipts = BTreeMap::from([("bob".to_owned(), state.to_owned())]);
    What::FinalMessage { message_id: format!("m{op}"), from: "ann".to_owned(), content: format!("c{op}"), receipts }
}

/// Returns the promises that a history breaks.
pub(super) fn broken(events: &[(&str, u32, What)]) -> Vec<Promise> {
    let mut promises: Vec<_> = check(&history(events)).into_iter().map(|violation| violation.promise).collect();
    promises.dedup();
    promises
}
