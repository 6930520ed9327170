//! How long sends took.

use std::collections::HashMap;

use super::index::floods;
use crate::history::{Event, What};

/// How long sends took that were answered with OK, as their senders saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub p50_us: u64,
    pub p99_us: u64,
}

/// How long sends took before the first flood or attack was prepared, and during the floods and attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    pub before: Latency,
    pub during: Latency,
}

impl Latencies {
    /// Returns `None` if there was no flood, or no send before or during one.
    pub(super) fn of(events: &[Event]) -> Option<Self> {
        let floods = floods(events);
        let is_prepared = |event: &&Event| event.what == What::FloodPrepared;
        let prepared = events.iter().find(is_prepared).map_or(u64::MAX, |event| event.at_us);
        let first = floods.first()?.0.min(prepared);
        let (mut open, mut before, mut during) = (HashMap::new(), Vec::new(), Vec::new());
        for event in events {
            let process = (event.member.as_str(), event.process);
            match event.what {
                What::Sending { op, .. } => _ = open.insert((process, op), event.at_us),
                What::Sent { op, again: false, .. } => {
                    let Some(began_us) = open.remove(&(process, op)) else { continue };
                    if began_us < first {
                        before.push(event.at_us - began_us);
                    } else if floods.iter().any(|(from, until)| (*from..*until).contains(&began_us)) {
                        during.push(event.at_us - began_us);
                    }
                }
                _ => {}
            }
        }
        Some(Self { before: Latency::of(before)?, during: Latency::of(during)? })
    }
}

impl Latency {
    fn of(mut latencies: Vec<u64>) -> Option<Self> {
        latencies.sort_unstable();
        let at = |percent| latencies.get(latencies.len() * percent / 100).copied();
        Some(Self { p50_us: at(50)?, p99_us: at(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{sending, sent};

    #[test]
    fn sends_count_by_when_they_began() {
        let timed = |at_us, what| Event { at_us, member: "ann".to_owned(), process: 1, what };
        let send = |op, at_us, took_us| [timed(at_us, sending(op)), timed(at_us + took_us, sent(op))];
        let flood = |at_us, until_us| [timed(at_us, What::FloodBegan), timed(until_us, What::FloodEnded)];
        let sends = [send(1, 10, 5), send(2, 40, 20), send(3, 60, 30), send(4, 110, 90), send(5, 160, 40)];
        let mut events = [sends.as_flattened(), &flood(50, 100), &flood(150, 300)].concat();
        events.sort_by_key(|event| event.at_us);
        let (before, during) = (Latency { p50_us: 20, p99_us: 20 }, Latency { p50_us: 40, p99_us: 40 });
        assert_eq!(Latencies::of(&events), Some(Latencies { before, during }));
        assert_eq!(Latencies::of(&events[..1]), None, "there was no flood");
    }
}
