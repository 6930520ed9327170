//! How much happened in a history.

use std::collections::BTreeSet;

use super::index::loss_windows;
use crate::history::{Event, What};

/// How much a history contains, so that a run in which nothing happened does not pass for a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: usize,
    pub unknown: usize,
    pub delivered: usize,
    pub redelivered: usize,
    pub claimed: usize,
    pub decided: usize,
    /// Answers to permission requests that reached the member that had asked.
    pub answered: usize,
    pub sessions: usize,
    pub processes: usize,
    /// Orders that hosts were given.
    pub ordered: usize,
    /// Programs of ordered members that began.
    pub began: usize,
    /// Messages that were answered with APPLIED and then lost with the store's writes.
    pub lost: usize,
    /// Damaged copies of the store.
    pub damaged: usize,
    /// Damaged copies that a coordinator refused to open.
    pub refused: usize,
    /// The peak memory of any coordinator, in bytes.
    pub peak_bytes: u64,
}

impl Counts {
    /// Returns what never happened. If that is anything, the run proves nothing. `hosts`: whether members were ordered.
    pub fn missing(&self, hosts: bool) -> Vec<&'static str> {
        let Self { sent, delivered, claimed, decided, ordered, began, .. } = *self;
        let always = [("send", sent), ("delivery", delivered), ("claim", claimed), ("decision", decided)];
        let with_hosts = [("order", ordered), ("start of an ordered program", began)];
        let expected = always.into_iter().chain(with_hosts.into_iter().filter(|_| hosts));
        expected.filter(|(_, times)| *times == 0).map(|(what, _)| what).collect()
    }
}

/// Counts what happened.
pub fn count(events: &[Event]) -> Counts {
    let mut counts = Counts::default();
    let mut processes = BTreeSet::new();
    let loss_windows = loss_windows(events);
    let kept: BTreeSet<_> = events.iter().filter_map(|event| final_id(&event.what)).collect();
    for event in events {
        processes.insert((&event.member, event.process));
        if let What::Sent { again: false, message_id, .. } = &event.what {
            let may_be_lost = loss_windows.iter().any(|(from, until)| (*from..=*until).contains(&event.at_us));
            counts.lost += usize::from(may_be_lost && !kept.contains(message_id.as_str()));
        }
        match &event.what {
            What::Sent { again: false, .. } => counts.sent += 1,
            What::Unknown { .. } => counts.unknown += 1,
            What::Delivered { delivery_count, .. } => {
                counts.delivered += 1;
                counts.redelivered += usize::from(*delivery_count > 1);
            }
            What::Claimed { .. } => counts.claimed += 1,
            What::Decided { .. } => counts.decided += 1,
            What::AnswerDelivered { .. } => counts.answered += 1,
            What::Opened { .. } => counts.sessions += 1,
            What::FinalOrder { .. } => counts.ordered += 1,
            What::Began { .. } => counts.began += 1,
            What::Memory { peak_bytes, .. } => counts.peak_bytes = counts.peak_bytes.max(*peak_bytes),
            What::Damaged { code, .. } => {
                counts.damaged += 1;
                counts.refused += usize::from(code.is_some());
            }
            _ => {}
        }
    }
    Counts { processes: processes.len(), ..counts }
}

fn final_id(what: &What) -> Option<&str> {
    match what {
        What::FinalMessage { message_id, .. } => Some(message_id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_without_claims_or_orders_is_no_proof() {
        let counts = Counts { sent: 1, delivered: 1, decided: 1, ..count(&[]) };
        assert_eq!(counts.missing(false), ["claim"]);
        assert_eq!(counts.missing(true), ["claim", "order", "start of an ordered program"]);
        assert!(Counts { claimed: 1, ..counts }.missing(false).is_empty());
    }
}
