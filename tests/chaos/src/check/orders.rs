//! Orders: each is decided in time and starts one process or none, one process at a time works under a name, and
//! nothing stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::index::{Index, Process};
use crate::history::What;

/// How long after its deadline an order may be undecided, and its name reserved, while the coordinators are out of
/// order: 10 s.
const SLACK_US: u64 = 10_000_000;

/// How much later than its recorded time a decision takes effect: 1 s.
const SKEW_US: u64 = 1_000_000;

pub(super) fn orders(index: &Index<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut ends: BTreeMap<&str, Vec<(&str, u64, u64)>> = BTreeMap::new();
    let (mut made, mut reserved) = (BTreeMap::<&str, u64>::new(), BTreeMap::<(&str, &str), u64>::new());
    let mut began: BTreeMap<&str, BTreeSet<Process<'_>>> = BTreeMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Ordered { request_id, expires_us, .. } => _ = made.insert(request_id, *expires_us),
            What::FinalOrder { request_id, state, expires_us, decided_us, .. } => {
                ends.entry(request_id).or_default().push((state, *expires_us, *decided_us));
            }
            What::Reserved { who, request_id, asked_us } => _ = reserved.insert((who, request_id), *asked_us),
            What::Began { request_id } => _ = began.entry(request_id).or_default().insert(process),
            What::FinalReserved { who } => wrong.push(format!("{who} is still reserved in the end")),
            _ => {}
        }
    }
    wrong
        .extend(made.keys().filter(|id| !ends.contains_key(*id)).map(|id| format!("the order {id} was never decided")));
    for (id, ends) in &ends {
        if ends.len() > 1 {
            wrong.push(format!("the order {id} was decided several times: {ends:?}"));
        }
        let (state, expires_us, decided_us) = ends[0];
        if decided_us > expires_us + SLACK_US {
            wrong.push(format!(
                "the order {id} was {state} {} s after its deadline",
                (decided_us - expires_us) / 1_000_000
            ));
        }
        made.insert(id, expires_us);
    }
    for ((who, id), asked_us) in reserved {
        let expires_us = made.get(id).copied().unwrap_or(u64::MAX - SLACK_US);
        if asked_us > expires_us + SLACK_US {
            wrong.push(format!(
                "{who} was reserved {} s after the deadline of {id}",
                (asked_us - expires_us) / 1_000_000
            ));
        }
    }
    let spans = spans(index);
    for (id, processes) in began {
        if processes.len() > 1 {
            wrong.push(format!("the order {id} started several processes: {processes:?}"));
        }
        let (state, _, decided_us) = ends.get(id).map_or(("unknown", 0, 0), |ends| ends[0]);
        let is_late =
            |process: &&Process<'_>| spans.get(*process).is_some_and(|(_, last)| *last > decided_us + SKEW_US);
        let late: Vec<_> = processes.iter().filter(is_late).collect();
        if state != "approved" && !late.is_empty() {
            wrong.push(format!("{late:?} got something done after their order {id} was {state}"));
        }
    }
    wrong
}

/// Finds processes of one name of which the earlier got something done that it began after the later had got something
/// done.
pub(super) fn one_process(index: &Index<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let spans = spans(index);
    for (earlier, (first, last)) in &spans {
        for (later, (other, _)) in &spans {
            if earlier.0 == later.0 && first < other && last > other {
                wrong.push(format!("{earlier:?} got something done after {later:?} had"));
            }
        }
    }
    wrong
}

/// Returns when each process had first got something done, and when it began the last thing that it got done.
fn spans<'e>(index: &Index<'e>) -> BTreeMap<Process<'e>, (u64, u64)> {
    let mut begun: HashMap<(Process<'_>, u64), u64> = HashMap::new();
    let mut spans: BTreeMap<Process<'_>, (u64, u64)> = BTreeMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match event.what {
            What::Acting { op } => _ = begun.insert((process, op), event.at_us),
            // A session may act on lost writes for a moment.
            What::Acted { op } if !index.may_lose_between(event.at_us, event.at_us) => {
                if let Some(began) = begun.get(&(process, op)) {
                    spans.entry(process).or_insert((event.at_us, 0)).1 = *began;
                }
            }
            _ => {}
        }
    }
    spans
}

pub(super) fn nothing_left(index: &Index<'_>) -> Vec<String> {
    let left = index.events.iter().filter_map(|event| match &event.what {
        What::FinalLeft { detail } => Some(format!("{detail} is left")),
        _ => None,
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Promise, testing::broken};
    use super::*;

    type Event = (&'static str, u32, What);

    /// The histories of tests advance by 10 s with each event.
    const LATER_US: u64 = 10_000_000_000;

    fn ordered(op: u64) -> Event {
        ("lead", 4, What::Ordered { op, request_id: format!("r{op}"), expires_us: LATER_US })
    }

    fn ended(op: u64, state: &str, decided_us: u64) -> Event {
        let (request_id, who, state) = (format!("r{op}"), "o1".to_owned(), state.to_owned());
        ("lead", 3, What::FinalOrder { request_id, who, state, expires_us: LATER_US, decided_us })
    }

    fn began(process: u32, op: u64) -> Event {
        ("o1", process, What::Began { request_id: format!("r{op}") })
    }

    fn act(process: u32, op: u64) -> [Event; 2] {
        [("o1", process, What::Acting { op }), ("o1", process, What::Acted { op })]
    }

    fn reserved(asked_us: u64) -> Event {
        ("lead", 5, What::Reserved { who: "o1".to_owned(), request_id: "r1".to_owned(), asked_us })
    }

    #[test]
    fn orders_that_start_one_process_each_are_kept() {
        let first = [&[ordered(1), reserved(LATER_US), began(7, 1)][..], &act(7, 1)].concat();
        let second = [&[ordered(2), began(8, 2)][..], &act(8, 1)].concat();
        assert_eq!(broken(&[first, second, vec![ended(1, "approved", 9), ended(2, "approved", 9)]].concat()), []);
    }

    #[test]
    fn an_order_without_a_decision_is_found() {
        assert_eq!(broken(&[ordered(1)]), [Promise::Orders]);
    }

    #[test]
    fn an_order_with_two_decisions_is_found() {
        assert_eq!(broken(&[ordered(1), ended(1, "approved", 9), ended(1, "expired", 9)]), [Promise::Orders]);
    }

    #[test]
    fn a_decision_long_after_the_deadline_is_found() {
        assert_eq!(broken(&[ordered(1), ended(1, "expired", LATER_US + SLACK_US)]), []);
        assert_eq!(broken(&[ordered(1), ended(1, "expired", LATER_US + SLACK_US + 1)]), [Promise::Orders]);
    }

    #[test]
    fn a_name_that_stays_reserved_is_found() {
        let late = [ordered(1), reserved(LATER_US + SLACK_US + 1), ended(1, "expired", 9)];
        assert_eq!(broken(&late), [Promise::Orders]);
        assert_eq!(broken(&[("lead", 3, What::FinalReserved { who: "o1".to_owned() })]), [Promise::Orders]);
    }

    #[test]
    fn two_processes_of_one_order_are_found() {
        assert_eq!(broken(&[ordered(1), began(7, 1), began(8, 1), ended(1, "approved", 9)]), [Promise::Orders]);
    }

    #[test]
    fn a_process_that_works_after_its_order_failed_is_found() {
        let events =
            |decided_us| [&[ordered(1), began(7, 1)][..], &act(7, 1), &[ended(1, "expired", decided_us)]].concat();
        // It works at 20 s.
        assert_eq!(broken(&events(20_000_000)), []);
        assert_eq!(broken(&events(10_000_000)), [Promise::Orders]);
    }

    #[test]
    fn two_processes_that_work_under_one_name_are_found() {
        assert_eq!(broken(&[act(7, 1), act(8, 1)].concat()), []);
        assert_eq!(broken(&[act(7, 1), act(8, 1), act(7, 2)].concat()), [Promise::OneProcess]);
    }

    #[test]
    fn leftovers_of_a_member_are_found() {
        assert_eq!(broken(&[("lead", 3, What::FinalLeft { detail: "process 7".to_owned() })]), [Promise::NothingLeft]);
    }
}
