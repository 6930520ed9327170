//! Stores that lose writes or whose file is damaged, which must be reported; and stores that grow.

use std::collections::HashMap;

use super::index::Index;
use crate::history::What;

/// By what part more than its quota a team may hold: the reserve of the lead and the operator.
const RESERVE: u64 = 10;

/// How many bytes more a team may hold by calls that are never refused.
const NEVER_REFUSED_BYTES: u64 = 256 << 10;

/// How many bytes a store may take for each byte that it counts.
const BYTES_PER_BYTE: u64 = 2;

/// How many bytes more a store may take, whatever its teams hold.
const STORE_BYTES: u64 = 16 << 20;

pub(super) fn store_bounded(index: &Index<'_>) -> Vec<String> {
    let exceeded = index.events.iter().filter_map(|event| match &event.what {
        What::Held { part, bytes, bytes_max } => {
            let is_too_much = *bytes > bytes_max + bytes_max / RESERVE + NEVER_REFUSED_BYTES;
            is_too_much.then(|| format!("the {part} had {} KiB, of {} KiB", bytes >> 10, bytes_max >> 10))
        }
        What::Grew { bytes, held } if *bytes > BYTES_PER_BYTE * held + STORE_BYTES => {
            Some(format!("the store grew by {} MiB, and what it counts by {} MiB", bytes >> 20, held >> 20))
        }
        _ => None,
    });
    exceeded.collect()
}

pub(super) fn loss_reported(index: &Index<'_>) -> Vec<String> {
    let told = index.events.iter().filter(|event| event.what == What::FinalWritesLost).count();
    let lost = index.lost;
    match (index.loss_windows.is_empty(), told) {
        (true, 1..) => vec!["a loss was reported, but the store was never made to lose writes".to_owned()],
        (false, 0) if lost > 0 => vec![format!("{lost} messages were lost without a report")],
        _ => Vec::new(),
    }
}

pub(super) fn damage_detected(index: &Index<'_>) -> Vec<String> {
    let mut silent = Vec::new();
    // Each member's latest send that was answered with OK.
    let mut sent: HashMap<&str, &str> = HashMap::new();
    for event in index.events {
        match &event.what {
            What::Sent { message_id, again: false, .. } => {
                sent.insert(&event.member, message_id);
            }
            What::Damaged { how, code: Some(code), said, .. } if *code == 0 || !said.contains("damaged") => {
                silent.push(format!("{how}: the coordinator exited with {code}, saying: {said}"));
            }
            What::Damaged { how, missing, .. } => {
                // One commit carries at most one send per member: its latest.
                let older = missing.iter().filter(|id| !sent.values().any(|last| last == id)).count();
                if older > 0 {
                    silent.push(format!("{how}: the store opened silently with {older} messages missing"));
                }
            }
            _ => {}
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::super::{
        APPLIED, Promise,
        testing::{broken, delivered, last, sending, sent},
    };
    use super::*;

    #[test]
    fn only_applied_writes_may_be_lost_and_only_while_the_store_loses_writes() {
        let applied = |op| match sent(op) {
            What::Sent { op, message_id, recipients, again, replayed, .. } => {
                What::Sent { op, message_id, recipients, again, replayed, durability: APPLIED.to_owned() }
            }
            other => other,
        };
        let forgets = |from_us, until_us| ("supervisor", 1, What::MayBeLost { from_us, until_us });
        let told = ("lead", 1, What::FinalWritesLost);
        let sends = |what| [("ann", 1, sending(1)), ("ann", 1, what)];
        let with = |what, more: &[(&'static str, u32, What)]| broken(&[&sends(what)[..], more].concat());
        // It was answered at 10 s.
        assert_eq!(with(applied(1), &[forgets(9_000_000, 11_000_000), told.clone()]), []);
        assert_eq!(with(sent(1), &[forgets(9_000_000, 11_000_000), told.clone()]), [Promise::NothingLost]);
        assert_eq!(with(applied(1), &[forgets(0, 9_000_000), told.clone()]), [Promise::NothingLost]);
        assert_eq!(with(applied(1), &[forgets(9_000_000, 11_000_000)]), [Promise::LossReported]);
        assert_eq!(with(sent(1), &[told]), [Promise::NothingLost, Promise::LossReported]);
    }

    #[test]
    fn a_team_may_hold_little_more_than_its_quota_and_the_store_takes_a_multiple_of_that() {
        let held = |bytes| {
            let what = What::Held { part: "tasks".to_owned(), bytes, bytes_max: 10 << 20 };
            broken(&[("others", 1, what)])
        };
        assert_eq!(held((11 << 20) + (256 << 10)), []);
        assert_eq!(held((11 << 20) + (256 << 10) + 1), [Promise::StoreBounded]);
        let grew = |bytes| broken(&[("others", 1, What::Grew { bytes, held: 1 << 20 })]);
        assert_eq!(grew(18 << 20), []);
        assert_eq!(grew((18 << 20) + 1), [Promise::StoreBounded]);
    }

    #[test]
    fn a_damaged_file_that_opens_silently_may_lack_only_each_members_last_send() {
        let sends = [("ann", 1, sending(1)), ("ann", 1, sent(1)), ("ann", 1, sending(2)), ("ann", 1, sent(2))];
        let kept = [("lead", 1, last(1, "processed")), ("lead", 1, last(2, "processed"))];
        let kept = [&kept[..], &[("bob", 1, delivered(1, 1, 1)), ("bob", 1, delivered(2, 2, 1))]].concat();
        let with = |code, said: &str, missing: &[&str]| {
            let missing = missing.iter().map(|id| (*id).to_owned()).collect();
            let damaged = What::Damaged { how: "it is cut".to_owned(), code, said: said.to_owned(), missing };
            broken(&[&sends[..], &[("supervisor", 1, damaged)], &kept].concat())
        };
        assert_eq!(with(None, "", &[]), []);
        assert_eq!(with(None, "", &["m2"]), []);
        assert_eq!(with(None, "", &["m1"]), [Promise::DamageDetected]);
        assert_eq!(with(Some(78), "the file is damaged: ...", &[]), []);
        assert_eq!(with(Some(0), "the file is damaged: ...", &[]), [Promise::DamageDetected]);
        assert_eq!(with(Some(101), "panicked", &[]), [Promise::DamageDetected]);
    }
}
