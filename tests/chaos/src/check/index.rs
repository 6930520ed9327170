//! A history, indexed for the checkers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::APPLIED;
use crate::history::{Event, What};

/// How long after a loss sessions may still act on lost writes: 15 s.
const NOTICED_US: u64 = 15_000_000;

/// One process of a member.
pub(super) type Process<'e> = (&'e str, u32);

/// A history, indexed.
pub(super) struct Index<'e> {
    pub(super) events: &'e [Event],
    /// How and when each send, claim, ... ended.
    ends: HashMap<(Process<'e>, u64), (u64, &'e What)>,
    /// The sender, op and recipient of each content.
    pub(super) sends: HashMap<&'e str, (Process<'e>, u64, &'e str)>,
    pub(super) finals: HashMap<&'e str, &'e BTreeMap<String, String>>,
    /// When the store was made to lose what it had acknowledged, in microseconds since 1970.
    pub(super) loss_windows: Vec<(u64, u64)>,
    /// How many messages it lost.
    pub(super) lost: usize,
    /// The message ids seen with each content.
    pub(super) ids: HashMap<&'e str, BTreeSet<&'e str>>,
}

impl<'e> Index<'e> {
    pub(super) fn of(events: &'e [Event], lost: usize) -> Self {
        let mut index = Self {
            events,
            ends: HashMap::new(),
            sends: HashMap::new(),
            finals: HashMap::new(),
            loss_windows: loss_windows(events),
            lost,
            ids: HashMap::new(),
        };
        for event in events {
            let process = (event.member.as_str(), event.process);
            match &event.what {
                What::Sending { op, to, content } => {
                    index.sends.insert(content, (process, *op, to));
                }
                // The first attempt already recorded the outcome.
                What::Sent { again: true, .. } => {}
                What::Sent { op, .. }
                | What::SendRefused { op, .. }
                | What::Flushed { op }
                | What::Claimed { op, .. }
                | What::Completed { op }
                | What::CompleteRefused { op, .. }
                | What::Decided { op, .. }
                | What::DecideRefused { op, .. }
                | What::Unknown { op, .. } => {
                    index.ends.insert((process, *op), (event.at_us, &event.what));
                }
                What::FinalMessage { message_id, content, receipts, .. } => {
                    index.finals.insert(message_id, receipts);
                    index.ids.entry(content).or_default().insert(message_id);
                }
                What::Delivered { message_id, content, .. } => {
                    index.ids.entry(content).or_default().insert(message_id);
                }
                _ => {}
            }
        }
        index
    }

    /// Returns whether a delivery may have left no trace in the store: the store lost its message, or the session that
    /// made it had not noticed the loss yet.
    pub(super) fn may_be_lost(&self, at_us: u64, message_id: &str) -> bool {
        let is_gone = !self.loss_windows.is_empty() && !self.finals.contains_key(message_id);
        is_gone || self.loss_windows.iter().any(|(from, until)| (*from..=*until + NOTICED_US).contains(&at_us))
    }

    /// Returns whether the store may have lost something between two times, so that sequences were used again.
    pub(super) fn may_lose_between(&self, since_us: u64, at_us: u64) -> bool {
        self.loss_windows.iter().any(|(from, until)| *from <= at_us && since_us <= *until + NOTICED_US)
    }

    /// Returns how and when an op ended.
    pub(super) fn end(&self, process: Process<'e>, op: u64) -> Option<(u64, &'e What)> {
        self.ends.get(&(process, op)).copied()
    }
}

/// Returns when floods and attacks began and ended.
pub(super) fn floods(events: &[Event]) -> Vec<(u64, u64)> {
    let mut floods: Vec<(u64, u64)> = Vec::new();
    for event in events {
        match &event.what {
            What::FloodBegan => floods.push((event.at_us, u64::MAX)),
            What::FloodEnded => floods.last_mut().into_iter().for_each(|flood| flood.1 = event.at_us),
            _ => {}
        }
    }
    floods
}

/// Returns the windows in which the store may have lost what it had acknowledged.
pub(super) fn loss_windows(events: &[Event]) -> Vec<(u64, u64)> {
    let windows = events.iter().filter_map(|event| match event.what {
        What::MayBeLost { from_us, until_us } => Some((from_us, until_us)),
        _ => None,
    });
    windows.collect()
}

/// Rewrites the outcomes that a lossy window leaves unknown: everything answered in it, except sends whose answer
/// promised more than APPLIED.
pub(super) fn doubt(events: &[Event]) -> Vec<Event> {
    let loss_windows = loss_windows(events);
    let doubted = events.iter().filter_map(|event| {
        let in_doubt = loss_windows.iter().any(|(from, until)| (*from..=*until).contains(&event.at_us));
        let detail = || "the store lost writes".to_owned();
        let what = match &event.what {
            what if !in_doubt => what.clone(),
            What::Sent { durability, .. } if durability != APPLIED => event.what.clone(),
            // Later events show whether a session opened then survived.
            What::Opened { .. } => return None,
            What::Sent { op, .. }
            | What::Flushed { op }
            | What::Completed { op }
            | What::Decided { op, .. }
            | What::Ordered { op, .. } => What::Unknown { op: *op, detail: detail() },
            what => what.clone(),
        };
        Some(Event { what, ..event.clone() })
    });
    doubted.collect()
}
