//! What must be true of a run.

use std::collections::BTreeMap;

use teamwire_client::v1::RequestState;

use super::{FleetState, Process};

/// Adds the promises that a run has broken.
pub(super) fn check(shared: &mut FleetState) {
    let mut broken = Vec::new();
    check_decisions(shared, &mut broken);
    check_processes(shared, &mut broken);
    check_prompts(shared, &mut broken);
    shared.broken.extend(broken);
}

/// Every order was decided.
fn check_decisions(shared: &FleetState, broken: &mut Vec<String>) {
    for (id, (prompt, ended)) in &shared.orders {
        if matches!(ended, None | Some(RequestState::Pending)) {
            broken.push(format!("{prompt} ({id}) was not decided"));
        }
    }
}

/// An order starts one process, and a process whose name another life has taken over gets nothing done.
fn check_processes(shared: &FleetState, broken: &mut Vec<String>) {
    let mut by_order: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
    for process in &shared.processes {
        *by_order.entry(&process.order).or_default() += 1;
        by_name.entry(&process.name).or_default().push(process);
    }
    for (order, count) in by_order.into_iter().filter(|(_, count)| *count > 1) {
        broken.push(format!("{count} processes joined for the order {order}"));
    }
    for (name, mut lives) in by_name {
        lives.sort_by_key(|process| process.incarnation);
        for (at, earlier) in lives.iter().enumerate() {
            for later in &lives[at + 1..] {
                if later.first_done_us > 0 && earlier.last_begun_us > later.first_done_us {
                    let (before, after) = (earlier.incarnation, later.incarnation);
                    broken.push(format!("life {before} of {name} got a call done after life {after} had"));
                }
            }
        }
    }
}

/// The prompt of an order that failed reaches nobody, and no prompt reaches a life before the one that its order began.
fn check_prompts(shared: &FleetState, broken: &mut Vec<String>) {
    for process in &shared.processes {
        for prompt in &process.prompts {
            let order = shared.orders.iter().find(|(_, (of, _))| of == prompt);
            let Some((id, (_, ended))) = order else {
                broken.push(format!("{} was given \"{prompt}\", which nobody wrote", process.name));
                continue;
            };
            if *ended != Some(RequestState::Approved) {
                broken.push(format!("{} was given \"{prompt}\", whose order is {ended:?}", process.name));
            }
            let begun = shared.processes.iter().find(|other| other.order == *id);
            if begun.is_none_or(|begun| begun.name != process.name || begun.incarnation > process.incarnation) {
                broken.push(format!("life {} of {} was given \"{prompt}\"", process.incarnation, process.name));
            }
        }
    }
}

/// Says what happened.
pub(super) fn summary(shared: &FleetState) -> String {
    let count = |state| shared.orders.values().filter(|(_, ended)| *ended == Some(state)).count();
    format!(
        "{} orders: {} started, {} refused, {} expired, {} cancelled; {} processes joined",
        shared.orders.len(),
        count(RequestState::Approved),
        count(RequestState::Rejected),
        count(RequestState::Expired),
        count(RequestState::Cancelled),
        shared.processes.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(order: &str, incarnation: u64, first_done_us: u64, last_begun_us: u64) -> Process {
        let (order, name) = (order.to_owned(), "w1".to_owned());
        Process { order, name, incarnation, first_done_us, last_begun_us, prompts: Vec::new() }
    }

    /// Checks a run with two orders, `r1` and `r2`, of which the second failed.
    fn broken(processes: Vec<Process>) -> Vec<String> {
        let mut shared = FleetState { processes, ..FleetState::default() };
        shared.orders.insert("r1".to_owned(), ("p1".to_owned(), Some(RequestState::Approved)));
        shared.orders.insert("r2".to_owned(), ("p2".to_owned(), Some(RequestState::Expired)));
        check(&mut shared);
        shared.broken
    }

    #[test]
    fn one_life_after_another_is_kept() {
        let first = Process { prompts: vec!["p1".to_owned()], ..process("r1", 1, 10, 20) };
        let second = Process { prompts: vec!["p1".to_owned()], ..process("r3", 2, 30, 40) };
        assert_eq!(broken(vec![first, second]), Vec::<String>::new());
    }

    #[test]
    fn an_undecided_order_is_found() {
        let mut shared = FleetState::default();
        shared.orders.insert("r1".to_owned(), ("p1".to_owned(), Some(RequestState::Pending)));
        check(&mut shared);
        assert_eq!(shared.broken, ["p1 (r1) was not decided"]);
    }

    #[test]
    fn two_processes_of_one_order_are_found() {
        let found = broken(vec![process("r1", 1, 10, 20), process("r1", 2, 30, 40)]);
        assert_eq!(found, ["2 processes joined for the order r1"]);
    }

    #[test]
    fn a_life_that_acts_after_a_later_one_is_found() {
        let found = broken(vec![process("r1", 1, 10, 35), process("r3", 2, 30, 40)]);
        assert_eq!(found, ["life 1 of w1 got a call done after life 2 had"]);
    }

    #[test]
    fn the_prompt_of_a_failed_order_is_found() {
        let found = broken(vec![Process { prompts: vec!["p2".to_owned()], ..process("r2", 1, 10, 20) }]);
        assert_eq!(found, ["w1 was given \"p2\", whose order is Some(Expired)"]);
    }
}
