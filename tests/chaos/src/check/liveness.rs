//! Progress, liveness, and bounded latency and memory under attack.

use std::collections::{BTreeMap, BTreeSet};

use super::index::{Index, floods};
use crate::history::What;

/// The longest a send may take during a flood, on a machine that also runs the flood: 5 s.
const ANSWER_US_MAX: u64 = 5_000_000;

/// The memory bound of a coordinator with a handful of members and any number of strangers: 512 MiB, of which the
/// embedded store may cache 256 MiB of its file.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

pub(super) fn progress(index: &Index<'_>) -> Vec<String> {
    let stuck = index.events.iter().filter_map(|event| match &event.what {
        What::Stuck { detail } => Some(format!("{}: {detail}", event.member)),
        _ => None,
    });
    stuck.collect()
}

pub(super) fn alive(index: &Index<'_>) -> Vec<String> {
    let cut_off = index.events.iter().filter_map(|event| match &event.what {
        What::CutOff { members } => Some(members),
        _ => None,
    });
    let cut_off: BTreeSet<&String> = cut_off.flatten().collect();
    let lost = index.events.iter().filter_map(|event| match &event.what {
        What::FinalLost { who } if !cut_off.contains(who) => Some(format!("{who} was declared lost")),
        _ => None,
    });
    lost.collect()
}

pub(super) fn responsive(index: &Index<'_>) -> Vec<String> {
    let floods = floods(index.events);
    let mut harmed = Vec::new();
    for event in index.events {
        let What::Sending { op, .. } = &event.what else { continue };
        let process = (event.member.as_str(), event.process);
        let is_during = floods.iter().any(|(from, until)| (*from..*until).contains(&event.at_us));
        // A sender killed meanwhile never records an outcome.
        let Some((at_us, end)) = index.end(process, *op).filter(|_| is_during) else { continue };
        if !matches!(end, What::Sent { .. }) {
            harmed.push(format!("{process:?} got no OK for op {op} during the flood: {end:?}"));
        } else if at_us > event.at_us + ANSWER_US_MAX {
            let seconds = (at_us - event.at_us) / 1_000_000;
            harmed.push(format!("{process:?} waited {seconds} s for op {op} during the flood"));
        }
    }
    harmed
}

pub(super) fn unharmed(index: &Index<'_>) -> Vec<String> {
    let mut open: BTreeMap<(u32, u64), (u64, &str)> = BTreeMap::new();
    let mut harmed = Vec::new();
    for event in index.events {
        match &event.what {
            What::Probing { op, call } => _ = open.insert((event.process, *op), (event.at_us, call)),
            What::Probed { op, error } => {
                let Some((began_us, call)) = open.remove(&(event.process, *op)) else { continue };
                let seconds = (event.at_us - began_us) / 1_000_000;
                match error {
                    Some(error) => harmed.push(format!("{call} failed after {seconds} s: {error}")),
                    None if event.at_us > began_us + ANSWER_US_MAX => harmed.push(format!("{call} took {seconds} s")),
                    None => {}
                }
            }
            _ => {}
        }
    }
    harmed.extend(open.into_values().map(|(_, call)| format!("{call} was never answered")));
    harmed
}

pub(super) fn kept(index: &Index<'_>) -> Vec<String> {
    let lacking = index.events.iter().filter_map(|event| match &event.what {
        What::Kept { said, missing } if !missing.is_empty() => {
            Some(format!("the history lacks {} of {said} messages", missing.len()))
        }
        What::Audited { calls, missing } if !missing.is_empty() => {
            Some(format!("the audit log lacks {} of {calls} forced stops: {}", missing.len(), missing.join(", ")))
        }
        _ => None,
    });
    lacking.collect()
}

pub(super) fn memory_bounded(index: &Index<'_>) -> Vec<String> {
    let mut most: BTreeMap<usize, u64> = BTreeMap::new();
    for event in index.events {
        if let What::Memory { coordinator, peak_bytes } = event.what {
            let peak = most.entry(coordinator).or_default();
            *peak = (*peak).max(peak_bytes);
        }
    }
    most.retain(|_, peak| *peak > MEMORY_BYTES_MAX);
    most.into_iter().map(|(number, peak)| format!("coordinator {number} used {} MiB", peak >> 20)).collect()
}
