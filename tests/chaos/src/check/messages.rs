//! Messages: none lost, invented or duplicated, and each sender's in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::index::{Index, Process};
use crate::history::What;

pub(super) fn nothing_lost(index: &Index<'_>) -> Vec<String> {
    let mut lost = Vec::new();
    let (mut handed, mut readers, mut ordered) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in index.events {
        match &event.what {
            What::Delivered { message_id, .. } => {
                handed.insert((event.member.as_str(), message_id.as_str()));
                readers.insert(event.member.as_str());
            }
            What::Ordering { who, .. } => _ = ordered.insert(who),
            _ => {}
        }
    }
    for event in index.events {
        let What::Sent { message_id, recipients, again: false, .. } = &event.what else { continue };
        let Some(receipts) = index.finals.get(message_id.as_str()) else {
            lost.push(format!("{message_id}, which {} sent, is missing from the team's history", event.member));
            continue;
        };
        for recipient in recipients {
            match receipts.get(recipient).map(String::as_str) {
                // A recipient that records no deliveries can only be judged by its receipts.
                Some("processed") if handed.contains(&(recipient, message_id)) || !readers.contains(&**recipient) => {}
                Some("processed") => {
                    lost.push(format!("{message_id} is reported processed at {recipient}, which never received it"));
                }
                Some("dead_lettered: delivery_limit") => {}
                // The last member of the name has ended.
                Some("queued" | "delivered") if ordered.contains(recipient) => {}
                other => lost.push(format!("{message_id} is {} at {recipient}", other.unwrap_or("unknown"))),
            }
        }
    }
    // A confirmed acknowledgement must show as processed at the end.
    for ((process, acked), _) in confirmed(index) {
        let state = index.finals.get(acked).and_then(|receipts| receipts.get(process.0)).map(String::as_str);
        if state.is_some_and(|state| state != "processed") {
            lost.push(format!(
                "{}'s acknowledgement of {acked} was confirmed, but the receipt says {state:?}",
                process.0
            ));
        }
    }
    lost
}

/// How long after its acknowledgement was confirmed a message may still be received, in microseconds: it was in flight
/// to an earlier process, which `member-paused` stops for up to 8 s before it reads on.
const IN_FLIGHT_US: u64 = 13_000_000;

/// Returns the acknowledgements that each process saw confirmed, and when.
fn confirmed<'e>(index: &Index<'e>) -> Vec<((Process<'e>, &'e str), u64)> {
    let mut taken: HashMap<Process<'e>, Vec<&'e str>> = HashMap::new();
    let mut flushing: HashMap<(Process<'e>, u64), usize> = HashMap::new();
    let mut confirmed = Vec::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        let acked = taken.entry(process).or_default();
        match &event.what {
            What::Acking { message_id } => acked.push(message_id),
            What::Flushing { op } => {
                flushing.insert((process, *op), acked.len());
            }
            What::Flushed { op } => {
                let until = flushing.get(&(process, *op)).copied().unwrap_or_default();
                confirmed.extend(acked[..until].iter().map(|id| ((process, *id), event.at_us)));
            }
            _ => {}
        }
    }
    confirmed
}

pub(super) fn nothing_invented(index: &Index<'_>) -> Vec<String> {
    let mut invented = Vec::new();
    for event in index.events {
        let What::Delivered { message_id, from, content, .. } = &event.what else { continue };
        if from == "coordinator" {
            continue;
        }
        match index.sends.get(content.as_str()) {
            None => invented.push(format!("{} received {message_id}, which nobody sent", event.member)),
            Some((sender, ..)) if sender.0 != from => {
                invented.push(format!("{message_id} was sent by {} but claims to be from {from}", sender.0));
            }
            Some((sender, _, to)) if sender.0 == event.member || !to.is_empty() && *to != event.member => {
                invented.push(format!("{} received {message_id}, which is addressed to \"{to}\"", event.member));
            }
            Some(_) => {}
        }
    }
    invented
}

pub(super) fn nothing_duplicated(index: &Index<'_>) -> Vec<String> {
    let mut doubled = Vec::new();
    for (content, ids) in &index.ids {
        if index.sends.contains_key(content) && ids.len() > 1 {
            doubled.push(format!("one send became {} messages: {ids:?}", ids.len()));
        }
    }
    let mut first: HashMap<(Process<'_>, u64), &str> = HashMap::new();
    let mut handed: HashMap<(&str, &str), Vec<(u32, bool)>> = HashMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Sent { op, message_id, again, replayed, .. } => {
                if let Some(earlier) = first.insert((process, *op), message_id)
                    && earlier != message_id
                {
                    doubled.push(format!("a repeated send became {message_id} as well as {earlier}"));
                } else if *again && !replayed && matches!(index.end(process, *op), Some((_, What::Sent { .. }))) {
                    doubled.push(format!("repeating the send of {message_id} carried it out again"));
                }
            }
            What::Delivered { message_id, .. } if index.may_be_lost(event.at_us, message_id) => {}
            What::Delivered { message_id, delivery_count, .. } => {
                let processes = handed.entry((&event.member, message_id)).or_default();
                let is_first = *delivery_count < 2;
                if processes.iter().any(|(process, _)| *process == event.process) {
                    doubled.push(format!("one process of {} received {message_id} twice", event.member));
                } else if is_first && processes.iter().any(|(_, is_first)| *is_first) {
                    // Two concurrent processes may record it in either order.
                    doubled.push(format!("{} received {message_id} again without a redelivery mark", event.member));
                }
                processes.push((event.process, is_first));
            }
            _ => {}
        }
    }
    // A confirmed message must not be delivered again.
    let mut done: HashMap<(&str, &str), u64> = HashMap::new();
    for ((process, id), at_us) in confirmed(index) {
        done.entry((process.0, id)).or_insert(at_us);
    }
    for event in index.events {
        let What::Delivered { message_id, .. } = &event.what else { continue };
        let confirmed_us = done.get(&(event.member.as_str(), message_id.as_str()));
        if confirmed_us.is_some_and(|at_us| at_us + IN_FLIGHT_US < event.at_us) {
            doubled.push(format!("{} received {message_id} after its acknowledgement was confirmed", event.member));
        }
    }
    doubled
}

/// Returns the deliveries that reached a process after one with a higher sequence. A shutdown request may come before
/// its turn, so what it has overtaken may follow it; it may not come after its turn, and nothing else may leave its
/// place.
fn out_of_turn(index: &Index<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut handed: BTreeSet<(Process<'_>, &str)> = BTreeSet::new();
    let mut last: HashMap<Process<'_>, (u64, u64)> = HashMap::new();
    for event in index.events {
        let What::Delivered { message_id, sequence, is_urgent, .. } = &event.what else { continue };
        let process = (event.member.as_str(), event.process);
        if !handed.insert((process, message_id)) {
            continue;
        }
        if let Some((before, since_us)) = last.get(&process)
            && sequence <= before
            && !index.may_lose_between(*since_us, event.at_us)
        {
            wrong.push(format!("{process:?} received {message_id} with sequence {sequence} after sequence {before}"));
        }
        if !is_urgent {
            last.insert(process, (*sequence, event.at_us));
        }
    }
    wrong
}

pub(super) fn order(index: &Index<'_>) -> Vec<String> {
    let mut wrong = out_of_turn(index);
    let mut places: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    // For each inbox and sending process: the sequence of each op's message.
    let mut lines: BTreeMap<(&str, Process<'_>), BTreeMap<u64, u64>> = BTreeMap::new();
    for event in index.events {
        let What::Delivered { message_id, sequence, content, .. } = &event.what else { continue };
        if index.may_be_lost(event.at_us, message_id) {
            continue;
        }
        if let Some(other) = places.insert((&event.member, *sequence), message_id)
            && other != message_id
        {
            wrong.push(format!("{other} and {message_id} both have sequence {sequence} for {}", event.member));
        }
        if let Some((sender, op, _)) = index.sends.get(content.as_str())
            && matches!(index.end(*sender, *op), Some((_, What::Sent { .. })))
        {
            lines.entry((&event.member, *sender)).or_default().insert(*op, *sequence);
        }
    }
    for ((member, sender), line) in lines {
        for (earlier, later) in line.iter().zip(line.iter().skip(1)) {
            if earlier.1 >= later.1 {
                wrong.push(format!(
                    "{sender:?} sent op {} to {member} with sequence {}, and the later op {} with sequence {}",
                    earlier.0, earlier.1, later.0, later.1
                ));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::{
        Promise,
        testing::{broken, delivered, delivered_request, last, sending, sent},
    };
    use super::*;

    #[test]
    fn a_sound_history_has_no_violations() {
        assert_eq!(
            broken(&[
                ("ann", 1, sending(1)),
                ("ann", 1, sent(1)),
                ("bob", 1, delivered(1, 1, 1)),
                ("bob", 1, What::Killed),
                ("bob", 2, delivered(1, 1, 2)),
                ("bob", 2, What::Acking { message_id: "m1".to_owned() }),
                ("bob", 2, What::Flushing { op: 1 }),
                ("bob", 2, What::Flushed { op: 1 }),
                ("lead", 1, last(1, "processed")),
            ]),
            []
        );
    }

    #[test]
    fn only_a_shutdown_request_may_come_before_its_turn() {
        let sends = [("ann", 1, sending(1)), ("ann", 1, sent(1)), ("ann", 1, sending(2)), ("ann", 1, sent(2))];
        let ends = [("lead", 1, last(1, "processed")), ("lead", 1, last(2, "processed"))];
        let with = |more: &[What]| {
            let received: Vec<_> = more.iter().map(|what| ("bob", 1, what.clone())).collect();
            broken(&[&sends[..], &received, &ends].concat())
        };
        let (one, two) = (delivered(1, 1, 1), delivered(2, 2, 1));
        assert_eq!(with(&[one.clone(), delivered_request(3), two.clone()]), []);
        assert_eq!(with(&[delivered_request(4), delivered_request(3), one.clone(), two.clone()]), []);
        assert_eq!(with(&[two.clone(), one.clone()]), [Promise::Order]);
        assert_eq!(with(&[delivered_request(3), two.clone(), one.clone()]), [Promise::Order]);
        assert_eq!(with(&[one, delivered(2, 5, 1), delivered_request(3)]), [Promise::Order], "it came too late");
    }

    #[test]
    fn lost_invented_duplicated_and_reordered_messages_are_found() {
        let sends = [("ann", 1, sending(1)), ("ann", 1, sent(1)), ("ann", 1, sending(2)), ("ann", 1, sent(2))];
        let with = |more: &[(&'static str, u32, What)]| broken(&[&sends[..], more].concat());
        let ends = [("lead", 1, last(1, "processed")), ("lead", 1, last(2, "processed"))];
        assert_eq!(with(&[("lead", 1, last(1, "processed"))]), [Promise::NothingLost]);
        assert_eq!(with(&[ends[0].clone(), ("lead", 1, last(2, "queued"))]), [Promise::NothingLost]);
        let unread = [ends[0].clone(), ends[1].clone(), ("bob", 1, delivered(1, 1, 1))];
        assert_eq!(with(&unread), [Promise::NothingLost], "the second was never handed out");
        let both = [("bob", 1, delivered(1, 1, 1)), ("bob", 1, delivered(2, 2, 1))];
        let and = |event| with(&[&ends[..], &both[..], &[event]].concat());
        assert_eq!(and(("bob", 1, delivered(3, 3, 1))), [Promise::NothingInvented]);
        assert_eq!(and(("eve", 1, delivered(1, 1, 1))), [Promise::NothingInvented]);
        let twice =
            |process, count| with(&[&ends[..], &both[..], &[("bob", process, delivered(1, 1, count))]].concat());
        assert_eq!(twice(1, 2), [Promise::NothingDuplicated]);
        assert_eq!(twice(2, 1), [Promise::NothingDuplicated]);
        assert_eq!(twice(2, 2), []);
        let swapped = [("bob", 1, delivered(1, 2, 1)), ("bob", 1, delivered(2, 1, 1))];
        assert_eq!(with(&[&ends[..], &swapped[..]].concat()), [Promise::Order]);
    }
}
