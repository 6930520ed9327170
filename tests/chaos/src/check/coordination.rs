//! Sessions, claims, decisions and shutdowns: what must happen once, and only by the rightful member.

use std::collections::{BTreeMap, HashMap};

use super::index::{Index, Process};
use crate::history::What;

/// The longest a process may run after its shutdown was approved: 40 s.
const EXIT_US_MAX: u64 = 40_000_000;

/// How long before a member's last approval an answer may have been decided without reaching it: a shutdown request
/// overtakes answers. 5 s.
const ANSWER_US_MAX: u64 = 5_000_000;

pub(super) fn fenced(index: &Index<'_>) -> Vec<String> {
    let mut opened: HashMap<&str, Vec<(u64, u64, u32)>> = HashMap::new();
    for event in index.events {
        if let What::Opened { epoch } = event.what {
            opened.entry(&event.member).or_default().push((event.at_us, epoch, event.process));
        }
    }
    let mut begun: HashMap<(Process<'_>, u64), u64> = HashMap::new();
    let mut own: HashMap<Process<'_>, u64> = HashMap::new();
    let mut wrong = Vec::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Opened { epoch } => {
                own.insert(process, *epoch);
            }
            What::Sending { op, .. }
            | What::Flushing { op }
            | What::Claiming { op }
            | What::Completing { op, .. }
            | What::Asking { op } => {
                begun.insert((process, *op), event.at_us);
            }
            What::Sent { op, .. } | What::Claimed { op, .. } | What::Completed { op } | What::Asked { op, .. } => {
                let Some(began) = begun.get(&(process, *op)) else { continue };
                // A process without a session is not bound to one.
                let Some(epoch) = own.get(&process) else { continue };
                let newer = opened.get(process.0).into_iter().flatten();
                let newer = newer.filter(|(at_us, newer, of)| of != &process.1 && newer > epoch && at_us < began);
                // Only sessions opened before the call began count: the caller may have become the newest since.
                if let Some((_, newer, of)) = newer.max() {
                    wrong.push(format!(
                        "{process:?} (epoch {epoch}) got OK after process {of} had opened epoch {newer}: {:?}",
                        event.what
                    ));
                }
            }
            _ => {}
        }
    }
    wrong
}

pub(super) fn claims(index: &Index<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut completed: HashMap<u64, (Process<'_>, &str)> = HashMap::new();
    let mut tokens: HashMap<u64, Vec<(u64, &str)>> = HashMap::new();
    let mut trying: HashMap<(Process<'_>, u64), (u64, u64, &str)> = HashMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Claimed { task_id, token, .. } => {
                if let Some((by, _)) = completed.get(task_id) {
                    wrong.push(format!("{process:?} was given task {task_id}, which {by:?} had completed"));
                }
                tokens.entry(*task_id).or_default().push((event.at_us, token));
            }
            What::Completing { op, task_id, token } => {
                trying.insert((process, *op), (event.at_us, *task_id, token));
            }
            What::Completed { op } => {
                let Some((began, task_id, token)) = trying.get(&(process, *op)).copied() else { continue };
                if let Some((by, other)) = completed.insert(task_id, (process, token))
                    && other != token
                {
                    wrong.push(format!("{process:?} and {by:?} both completed task {task_id}"));
                }
                let given = tokens.get(&task_id).into_iter().flatten();
                // A newer token invalidates this one.
                let mut later = given.skip_while(|(_, given)| *given != token).skip(1);
                if let Some((_, other)) = later.find(|(at_us, other)| at_us < &began && *other != token) {
                    wrong.push(format!("{process:?} completed task {task_id} with {token} after {other} was issued"));
                }
            }
            What::FinalTask { task_id, is_completed: false } if completed.contains_key(task_id) => {
                wrong.push(format!("task {task_id} was completed but is not in the end"));
            }
            _ => {}
        }
    }
    wrong
}

pub(super) fn decisions(index: &Index<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut asked: HashMap<(Process<'_>, u64), (&str, bool)> = HashMap::new();
    let mut decided: HashMap<&str, bool> = HashMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Deciding { op, request_id, approve } => {
                asked.insert((process, *op), (request_id, *approve));
            }
            What::Decided { op, .. } => {
                let Some((request_id, approve)) = asked.get(&(process, *op)).copied() else { continue };
                if decided.insert(request_id, approve).is_some_and(|other| other != approve) {
                    wrong.push(format!("{request_id} was approved and rejected"));
                }
            }
            What::FinalRequest { request_id, state } => {
                let said = decided.get(request_id.as_str());
                if said.is_some_and(|approve| state != if *approve { "approved" } else { "rejected" }) {
                    wrong.push(format!("{request_id} was decided ({said:?}) but is {state} in the end"));
                }
            }
            _ => {}
        }
    }
    wrong
}

pub(super) fn answers(index: &Index<'_>) -> Vec<String> {
    if !index.loss_windows.is_empty() {
        // The store may have lost a request, its decision, or its answer.
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let mut asked: BTreeMap<&str, &str> = BTreeMap::new();
    let mut deciding: HashMap<(Process<'_>, u64), &str> = HashMap::new();
    // When the first answer was accepted, and when a member's last process approved its shutdown.
    let (mut decided, mut left) = (HashMap::<&str, u64>::new(), HashMap::<&str, u64>::new());
    let (mut settled, mut finals) = (HashMap::<&str, &str>::new(), HashMap::<&str, &str>::new());
    let mut delivered: HashMap<&str, bool> = HashMap::new();
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Asked { request_id, .. } => _ = asked.insert(request_id, &event.member),
            What::Settled { request_id, state } => _ = settled.insert(request_id, state),
            What::Deciding { op, request_id, .. } => _ = deciding.insert((process, *op), request_id),
            What::Decided { op, .. } => {
                if let Some(request_id) = deciding.get(&(process, *op)) {
                    decided.entry(request_id).or_insert(event.at_us);
                }
            }
            What::AnswerDelivered { request_id, approve } => {
                let earlier = delivered.insert(request_id, *approve);
                if earlier == Some(!*approve) {
                    wrong.push(format!("{request_id} was answered with yes and no"));
                }
            }
            What::Ended { how } if how == "shutdown_approved" => _ = left.insert(&event.member, event.at_us),
            What::FinalRequest { request_id, state } => _ = finals.insert(request_id, state),
            _ => {}
        }
    }
    for (request_id, member) in asked {
        let Some(state) = finals.get(request_id).copied() else { continue };
        if let Some(seen) = settled.get(request_id).filter(|seen| **seen != state) {
            wrong.push(format!("{member} saw {request_id} {seen}, but it is {state} in the end"));
        }
        let said = delivered.get(request_id).map(|approve| if *approve { "approved" } else { "rejected" });
        if said.is_some_and(|said| said != state) {
            wrong.push(format!("{member} was answered {said:?} to {request_id}, which is {state} in the end"));
        }
        let (decided, left) = (decided.get(request_id), left.get(member));
        let had_time = decided.zip(left).is_some_and(|(decided, left)| decided + ANSWER_US_MAX < *left);
        if said.is_none() && matches!(state, "approved" | "rejected") && had_time {
            wrong.push(format!("{request_id} was {state}, but {member} never received the answer"));
        }
    }
    wrong
}

pub(super) fn shutdown(index: &Index<'_>) -> Vec<String> {
    let mut approved: HashMap<Process<'_>, u64> = HashMap::new();
    let mut ended: BTreeMap<Process<'_>, u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    let last = index.events.last().map_or(0, |event| event.at_us);
    for event in index.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Ended { how } if how == "shutdown_approved" => {
                approved.insert(process, event.at_us);
            }
            What::Killed => {
                ended.insert(process, event.at_us);
            }
            What::Exited { code } => {
                ended.insert(process, event.at_us);
                if *code == Some(0) && !approved.contains_key(&process) {
                    wrong.push(format!("{process:?} exited with 0 without an approval"));
                }
            }
            _ => {}
        }
    }
    for (process, at_us) in approved {
        let until = ended.get(&process).copied().unwrap_or(last);
        if until > at_us + EXIT_US_MAX {
            wrong.push(format!("{process:?} ran for {} s after its approval", (until - at_us) / 1_000_000));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::{
        Promise,
        testing::{broken, last, sending, sent},
    };
    use super::*;

    #[test]
    fn effects_of_superseded_sessions_and_claims_are_found() {
        let opened = |epoch| What::Opened { epoch };
        let complete = |op| What::Completing { op, task_id: 1, token: format!("t{op}") };
        let claimed = |op| What::Claimed { op, task_id: 1, token: format!("t{op}") };
        assert_eq!(
            broken(&[
                ("ann", 1, opened(1)),
                ("ann", 2, opened(2)),
                ("ann", 1, sending(1)),
                ("ann", 1, sent(1)),
                ("lead", 1, last(1, "processed")),
            ]),
            [Promise::Fenced]
        );
        let stale = [
            ("ann", 1, claimed(1)),
            ("bob", 1, claimed(2)),
            ("ann", 1, complete(1)),
            ("ann", 1, What::Completed { op: 1 }),
        ];
        assert_eq!(broken(&stale), [Promise::Claims]);
        assert_eq!(
            broken(&[&stale[1..2], &[("bob", 1, complete(2)), ("bob", 1, What::Completed { op: 2 })]].concat()),
            []
        );
    }

    #[test]
    fn answers_that_contradict_the_decision_or_do_not_arrive_are_found() {
        let asked = ("ann", 1, What::Asked { op: 1, request_id: "r".to_owned() });
        let deciding = ("lead", 1, What::Deciding { op: 1, request_id: "r".to_owned(), approve: true });
        let decided = ("lead", 1, What::Decided { op: 1, replayed: false });
        let delivered = |approve| ("ann", 1, What::AnswerDelivered { request_id: "r".to_owned(), approve });
        let settled = |state: &str| ("ann", 1, What::Settled { request_id: "r".to_owned(), state: state.to_owned() });
        let left = ("ann", 1, What::Ended { how: "shutdown_approved".to_owned() });
        let last = ("lead", 1, What::FinalRequest { request_id: "r".to_owned(), state: "approved".to_owned() });
        let with = |seen: &[(&'static str, u32, What)]| {
            broken(&[&[asked.clone(), deciding.clone(), decided.clone()], seen, &[left.clone(), last.clone()]].concat())
        };
        assert_eq!(with(&[delivered(true), settled("approved")]), []);
        assert_eq!(with(&[]), [Promise::Answers], "it never arrives");
        assert_eq!(with(&[delivered(false)]), [Promise::Answers]);
        assert_eq!(with(&[delivered(true), delivered(false)]), [Promise::Answers]);
        assert_eq!(with(&[delivered(true), settled("cancelled")]), [Promise::Answers]);
        assert_eq!(with(&[("supervisor", 1, What::MayBeLost { from_us: 0, until_us: 1 })]), []);
    }

    #[test]
    fn contradictory_answers_and_unapproved_exits_are_found() {
        let deciding = |op, approve| What::Deciding { op, request_id: "r".to_owned(), approve };
        let decided = |op| What::Decided { op, replayed: false };
        assert_eq!(
            broken(&[
                ("lead", 1, deciding(1, true)),
                ("lead", 1, decided(1)),
                ("lead", 1, deciding(2, false)),
                ("lead", 1, decided(2)),
            ]),
            [Promise::Decisions]
        );
        let last = What::FinalRequest { request_id: "r".to_owned(), state: "rejected".to_owned() };
        assert_eq!(
            broken(&[("lead", 1, deciding(1, true)), ("lead", 1, decided(1)), ("lead", 1, last)]),
            [Promise::Decisions]
        );
        assert_eq!(broken(&[("ann", 1, What::Exited { code: Some(0) })]), [Promise::Shutdown]);
        let approved = ("ann", 1, What::Ended { how: "shutdown_approved".to_owned() });
        assert_eq!(broken(&[approved.clone(), ("ann", 1, What::Exited { code: Some(0) })]), []);
        let silence = ("bob", 1, What::Opened { epoch: 1 });
        let long = [approved, silence.clone(), silence.clone(), silence.clone(), silence.clone(), silence];
        assert_eq!(broken(&long), [Promise::Shutdown]);
    }
}
