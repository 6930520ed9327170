//! How long sends took.

use super::index::{Index, floods};
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

/// Returns how long sends took. `None` if there was no flood, or no send before or during one.
pub fn latencies(events: &[Event]) -> Option<Latencies> {
    let index = Index::of(events, 0);
    let first = events.iter().find(|event| matches!(event.what, What::FloodPrepared | What::FloodBegan))?.at_us;
    let floods = floods(events);
    let (mut before, mut during) = (Vec::new(), Vec::new());
    for event in events {
        let What::Sending { op, .. } = event.what else { continue };
        let Some((at_us, What::Sent { .. })) = index.end((&event.member, event.process), op) else { continue };
        if event.at_us < first {
            before.push(at_us - event.at_us);
        } else if floods.iter().any(|(from, until)| (*from..*until).contains(&event.at_us)) {
            during.push(at_us - event.at_us);
        }
    }
    Some(Latencies { before: Latency::of(before)?, during: Latency::of(during)? })
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
        assert_eq!(latencies(&events), Some(Latencies { before, during }));
        assert_eq!(latencies(&events[..1]), None, "there was no flood");
    }
}
