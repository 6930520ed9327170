//! One checker for each promise. They look at a history and at nothing else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use crate::history::{Event, What};

/// How long a process may live on after its shutdown was approved: 40 s.
const END_US_MAX: u64 = 40_000_000;

/// How long after a store has forgotten something sessions may not have heard of it: 15 s.
const HEARD_OF_US: u64 = 15_000_000;

/// What an answer says that does not promise to outlive a failure of the store.
const APPLIED: &str = "DURABILITY_APPLIED";

/// How long a send may take while strangers do their worst, on a machine that does their work as well: 5 s.
const ANSWER_US_MAX: u64 = 5_000_000;

/// How much memory a coordinator may take for a handful of members and any number of strangers: 512 MiB, of which the embedded
/// store may keep 256 MiB of its file.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A message that was answered with OK is handed out and ends processed at every recipient, or is given up after too many
    /// deliveries.
    NothingLost,
    /// Nothing is delivered that was not sent, by somebody else than it says or to somebody else than it was for.
    NothingInvented,
    /// A send makes one message, a process is handed it once, and a later process is told that it may have been seen.
    NothingDoubled,
    /// What one process has sent, one after the other, arrives in that order; an inbox has one message at each place.
    Order,
    /// What a newer session has replaced can do nothing more.
    Fenced,
    /// A task is completed once, by whoever holds it.
    Claims,
    /// A request has one answer, and keeps it.
    Decisions,
    /// A process ends after its approval, in time, and never well without one.
    Shutdown,
    /// Once everything is healed, everything is done.
    Progress,
    /// Nobody is taken for lost whose process is there, or is replaced in time.
    Alive,
    /// What the store has lost of what it had answered is said to the team; and nothing is said without cause.
    LossTold,
    /// Whatever strangers do: who sends is answered in time.
    Unharmed,
    /// A coordinator's memory is bounded.
    Bounded,
    /// A damaged store is refused with words, or lacks no more than its last commit.
    DamageFound,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::NothingLost,
        Self::NothingInvented,
        Self::NothingDoubled,
        Self::Order,
        Self::Fenced,
        Self::Claims,
        Self::Decisions,
        Self::Shutdown,
        Self::Progress,
        Self::Alive,
        Self::LossTold,
        Self::Unharmed,
        Self::Bounded,
        Self::DamageFound,
    ];

    /// Returns whether a history has anything in it by which this could have been broken. Most can be by whatever is done.
    pub fn was_tried(self, events: &[Event]) -> bool {
        let has = |is: fn(&What) -> bool| events.iter().any(|event| is(&event.what));
        match self {
            // A coordinator that has just started takes nobody for lost.
            Self::Alive => {
                let lost_after_us = events.iter().find_map(|event| match event.what {
                    What::Started { lost_after_s } => Some(event.at_us + lost_after_s * 1_000_000),
                    _ => None,
                });
                lost_after_us.is_some_and(|at_us| events.last().is_some_and(|last| last.at_us > at_us))
            }
            Self::LossTold => has(|what| matches!(what, What::MayBeLost { .. })),
            Self::Unharmed => has(|what| matches!(what, What::FloodBegan)),
            Self::Bounded => has(|what| matches!(what, What::Memory { .. })),
            Self::DamageFound => has(|what| matches!(what, What::Damaged { .. })),
            _ => true,
        }
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What happened, for a reader.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.detail)
    }
}

/// How much a history has in it, so that one in which nothing happened does not pass for a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: usize,
    pub unknown: usize,
    pub delivered: usize,
    pub redelivered: usize,
    pub claimed: usize,
    pub decided: usize,
    pub sessions: usize,
    pub processes: usize,
    /// Messages that were answered with APPLIED and are gone, where the store was made to forget.
    pub lost: usize,
    /// Copies of the store that were damaged, and how many of them were refused.
    pub damaged: usize,
    pub refused: usize,
    /// The most memory that a coordinator has taken, in bytes.
    pub peak_bytes: u64,
}

/// One process of a member.
type Process<'e> = (&'e str, u32);

/// A history, sorted out.
struct History<'e> {
    events: &'e [Event],
    /// How each send, claim … ended, and when.
    ends: HashMap<(Process<'e>, u64), (u64, &'e What)>,
    /// Who sent a content, in which op, and to whom.
    sends: HashMap<&'e str, (Process<'e>, u64, &'e str)>,
    finals: HashMap<&'e str, &'e BTreeMap<String, String>>,
    /// When the store was made to forget what it had answered, in microseconds since 1970.
    forgotten: Vec<(u64, u64)>,
    /// How many messages it has forgotten.
    lost: usize,
    /// The messages of each content, as anybody has seen them.
    ids: HashMap<&'e str, BTreeSet<&'e str>>,
}

/// Looks for everything that was promised and not kept.
pub fn check(events: &[Event]) -> Vec<Violation> {
    let doubted = doubt(events);
    let history = History { lost: count(events).lost, ..History::of(&doubted) };
    let mut found = Vec::new();
    for (promise, checker) in [
        (Promise::NothingLost, nothing_lost as fn(&History<'_>) -> Vec<String>),
        (Promise::NothingInvented, nothing_invented),
        (Promise::NothingDoubled, nothing_doubled),
        (Promise::Order, order),
        (Promise::Fenced, fenced),
        (Promise::Claims, claims),
        (Promise::Decisions, decisions),
        (Promise::Shutdown, shutdown),
        (Promise::Progress, progress),
        (Promise::Alive, alive),
        (Promise::LossTold, loss_told),
        (Promise::Unharmed, unharmed),
        (Promise::Bounded, bounded),
        (Promise::DamageFound, damage_found),
    ] {
        found.extend(checker(&history).into_iter().map(|detail| Violation { promise, detail }));
    }
    found
}

/// Counts what happened.
pub fn count(events: &[Event]) -> Counts {
    let mut counts = Counts::default();
    let mut processes = BTreeSet::new();
    let forgotten = forgotten(events);
    let kept: BTreeSet<_> = events.iter().filter_map(|event| final_id(&event.what)).collect();
    for event in events {
        processes.insert((&event.member, event.process));
        if let What::Sent { again: false, message_id, .. } = &event.what {
            let may_be_lost = forgotten.iter().any(|(from, until)| (*from..=*until).contains(&event.at_us));
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
            What::Opened { .. } => counts.sessions += 1,
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

/// Returns when the store was made to forget.
fn forgotten(events: &[Event]) -> Vec<(u64, u64)> {
    let windows = events.iter().filter_map(|event| match event.what {
        What::MayBeLost { from_us, until_us } => Some((from_us, until_us)),
        _ => None,
    });
    windows.collect()
}

/// Takes back what is not promised where the store was made to forget: of what was answered then nothing is known, but for
/// sends whose answer promised more than APPLIED.
fn doubt(events: &[Event]) -> Vec<Event> {
    let forgotten = forgotten(events);
    let doubted = events.iter().filter_map(|event| {
        let in_doubt = forgotten.iter().any(|(from, until)| (*from..=*until).contains(&event.at_us));
        let detail = || "the store was made to forget".to_owned();
        let what = match &event.what {
            what if !in_doubt => what.clone(),
            What::Sent { durability, .. } if durability != APPLIED => event.what.clone(),
            // Whether a session is there that was opened then is told by what comes of it.
            What::Opened { .. } => return None,
            What::Sent { op, .. } | What::Flushed { op } | What::Completed { op } | What::Decided { op, .. } => {
                What::Unknown { op: *op, detail: detail() }
            }
            what => what.clone(),
        };
        Some(Event { what, ..event.clone() })
    });
    doubted.collect()
}

impl<'e> History<'e> {
    fn of(events: &'e [Event]) -> Self {
        let mut history = Self {
            events,
            ends: HashMap::new(),
            sends: HashMap::new(),
            finals: HashMap::new(),
            forgotten: forgotten(events),
            lost: 0,
            ids: HashMap::new(),
        };
        for event in events {
            let process = (event.member.as_str(), event.process);
            match &event.what {
                What::Sending { op, to, content } => {
                    history.sends.insert(content, (process, *op, to));
                }
                // A repeated send has told already what came of it.
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
                    history.ends.insert((process, *op), (event.at_us, &event.what));
                }
                What::FinalMessage { message_id, content, receipts, .. } => {
                    history.finals.insert(message_id, receipts);
                    history.ids.entry(content).or_default().insert(message_id);
                }
                What::Delivered { message_id, content, .. } => {
                    history.ids.entry(content).or_default().insert(message_id);
                }
                _ => {}
            }
        }
        history
    }

    /// Returns whether a delivery may have left no trace in the store: it was made of what the store was made to forget, or
    /// by a session that had not heard of that.
    fn may_be_forgotten(&self, at_us: u64, message_id: &str) -> bool {
        let is_gone = !self.forgotten.is_empty() && !self.finals.contains_key(message_id);
        is_gone || self.forgotten.iter().any(|(from, until)| (*from..=*until + HEARD_OF_US).contains(&at_us))
    }

    fn end(&self, process: Process<'e>, op: u64) -> Option<(u64, &'e What)> {
        self.ends.get(&(process, op)).copied()
    }
}

fn nothing_lost(history: &History<'_>) -> Vec<String> {
    let mut lost = Vec::new();
    let (mut handed, mut readers) = (BTreeSet::new(), BTreeSet::new());
    for event in history.events {
        if let What::Delivered { message_id, .. } = &event.what {
            handed.insert((event.member.as_str(), message_id.as_str()));
            readers.insert(event.member.as_str());
        }
    }
    for event in history.events {
        let What::Sent { message_id, recipients, again: false, .. } = &event.what else { continue };
        let Some(receipts) = history.finals.get(message_id.as_str()) else {
            lost.push(format!("{message_id}, which {} has sent, is not in the history of the team", event.member));
            continue;
        };
        for recipient in recipients {
            match receipts.get(recipient).map(String::as_str) {
                // Of whose reading nothing is written down, only what is said of it is known.
                Some("processed") if handed.contains(&(recipient, message_id)) || !readers.contains(&**recipient) => {}
                Some("processed") => {
                    lost.push(format!(
                        "{message_id} is said to be processed at {recipient}, and was never handed out there"
                    ));
                }
                Some("dead_lettered: delivery_limit") => {}
                other => lost.push(format!("{message_id} is {} at {recipient}", other.unwrap_or("not known"))),
            }
        }
    }
    // What a process has proven to have processed must be so in the end.
    for ((process, acked), _) in confirmed(history) {
        let state = history.finals.get(acked).and_then(|receipts| receipts.get(process.0)).map(String::as_str);
        if state.is_some_and(|state| state != "processed") {
            lost.push(format!("the acknowledgement of {acked} by {} was confirmed, and it is {state:?}", process.0));
        }
    }
    lost
}

/// Returns what each process has acknowledged with a confirmation, and when that was.
fn confirmed<'e>(history: &History<'e>) -> Vec<((Process<'e>, &'e str), u64)> {
    let mut taken: HashMap<Process<'e>, Vec<&'e str>> = HashMap::new();
    let mut flushing: HashMap<(Process<'e>, u64), usize> = HashMap::new();
    let mut confirmed = Vec::new();
    for event in history.events {
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

fn nothing_invented(history: &History<'_>) -> Vec<String> {
    let mut invented = Vec::new();
    for event in history.events {
        let What::Delivered { message_id, from, content, .. } = &event.what else { continue };
        if from == "coordinator" {
            continue;
        }
        match history.sends.get(content.as_str()) {
            None => invented.push(format!("{} was handed {message_id}, which nobody has sent", event.member)),
            Some((sender, ..)) if sender.0 != from => {
                invented.push(format!("{message_id} of {} says that it is from {from}", sender.0));
            }
            Some((sender, _, to)) if sender.0 == event.member || !to.is_empty() && *to != event.member => {
                invented.push(format!("{} was handed {message_id}, which is for \"{to}\"", event.member));
            }
            Some(_) => {}
        }
    }
    invented
}

fn nothing_doubled(history: &History<'_>) -> Vec<String> {
    let mut doubled = Vec::new();
    for (content, ids) in &history.ids {
        if history.sends.contains_key(content) && ids.len() > 1 {
            doubled.push(format!("one send became {} messages: {ids:?}", ids.len()));
        }
    }
    let mut first: HashMap<(Process<'_>, u64), &str> = HashMap::new();
    let mut handed: HashMap<(&str, &str), Vec<(u32, bool)>> = HashMap::new();
    for event in history.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Sent { op, message_id, again, replayed, .. } => {
                if let Some(earlier) = first.insert((process, *op), message_id)
                    && earlier != message_id
                {
                    doubled.push(format!("a repeated send became {message_id} as well as {earlier}"));
                } else if *again && !replayed && matches!(history.end(process, *op), Some((_, What::Sent { .. }))) {
                    doubled.push(format!("the send of {message_id} was repeated, and carried out once more"));
                }
            }
            What::Delivered { message_id, .. } if history.may_be_forgotten(event.at_us, message_id) => {}
            What::Delivered { message_id, delivery_count, .. } => {
                let processes = handed.entry((&event.member, message_id)).or_default();
                let is_first = *delivery_count < 2;
                if processes.iter().any(|(process, _)| *process == event.process) {
                    doubled.push(format!("{} was handed {message_id} twice in one process", event.member));
                } else if is_first && processes.iter().any(|(_, is_first)| *is_first) {
                    // Whichever of two that run at the same time notes it first.
                    doubled.push(format!("{} was handed {message_id} again, and was not told so", event.member));
                }
                processes.push((event.process, is_first));
            }
            _ => {}
        }
    }
    // What is proven to be processed does not come again.
    let mut done: HashMap<(&str, &str), u64> = HashMap::new();
    for ((process, id), at_us) in confirmed(history) {
        done.entry((process.0, id)).or_insert(at_us);
    }
    for event in history.events {
        let What::Delivered { message_id, .. } = &event.what else { continue };
        // What was handed out at about that time may have been on its way.
        if done.get(&(event.member.as_str(), message_id.as_str())).is_some_and(|at_us| at_us + 5_000_000 < event.at_us)
        {
            doubled.push(format!("{} was handed {message_id} after it was proven to be processed", event.member));
        }
    }
    doubled
}

fn order(history: &History<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut places: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    // Of each inbox and sending process: ops and where their messages stand.
    let mut lines: BTreeMap<(&str, Process<'_>), BTreeMap<u64, u64>> = BTreeMap::new();
    for event in history.events {
        let What::Delivered { message_id, sequence, content, .. } = &event.what else { continue };
        if history.may_be_forgotten(event.at_us, message_id) {
            continue;
        }
        if let Some(other) = places.insert((&event.member, *sequence), message_id)
            && other != message_id
        {
            wrong.push(format!("{other} and {message_id} both stand at {sequence} for {}", event.member));
        }
        if let Some((sender, op, _)) = history.sends.get(content.as_str())
            && matches!(history.end(*sender, *op), Some((_, What::Sent { .. })))
        {
            lines.entry((&event.member, *sender)).or_default().insert(*op, *sequence);
        }
    }
    for ((member, sender), line) in lines {
        for (earlier, later) in line.iter().zip(line.iter().skip(1)) {
            if earlier.1 >= later.1 {
                wrong.push(format!(
                    "what {sender:?} has sent to {member} in op {} stands at {}, and what it sent later, in op {}, at {}",
                    earlier.0, earlier.1, later.0, later.1
                ));
            }
        }
    }
    wrong
}

fn fenced(history: &History<'_>) -> Vec<String> {
    let mut opened: HashMap<&str, Vec<(u64, u64, u32)>> = HashMap::new();
    for event in history.events {
        if let What::Opened { epoch } = event.what {
            opened.entry(&event.member).or_default().push((event.at_us, epoch, event.process));
        }
    }
    let mut begun: HashMap<(Process<'_>, u64), u64> = HashMap::new();
    let mut own: HashMap<Process<'_>, u64> = HashMap::new();
    let mut wrong = Vec::new();
    for event in history.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Opened { epoch } => {
                own.insert(process, *epoch);
            }
            What::Sending { op, .. } | What::Flushing { op } | What::Claiming { op } | What::Completing { op, .. } => {
                begun.insert((process, *op), event.at_us);
            }
            What::Sent { op, .. } | What::Claimed { op, .. } | What::Completed { op } => {
                let Some(began) = begun.get(&(process, *op)) else { continue };
                // Without a session of its own it is not bound to one.
                let Some(epoch) = own.get(&process) else { continue };
                let newer = opened.get(process.0).into_iter().flatten();
                let newer = newer.filter(|(at_us, newer, of)| of != &process.1 && newer > epoch && at_us < began);
                // It may have become the newest again before it was answered.
                if let Some((_, newer, of)) = newer.max() {
                    wrong.push(format!(
                        "{process:?}, of epoch {epoch}, was answered with OK after process {of} had opened epoch {newer}: \
                         {:?}",
                        event.what
                    ));
                }
            }
            _ => {}
        }
    }
    wrong
}

fn claims(history: &History<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut completed: HashMap<u64, (Process<'_>, &str)> = HashMap::new();
    let mut tokens: HashMap<u64, Vec<(u64, &str)>> = HashMap::new();
    let mut trying: HashMap<(Process<'_>, u64), (u64, u64, &str)> = HashMap::new();
    for event in history.events {
        let process = (event.member.as_str(), event.process);
        match &event.what {
            What::Claimed { task_id, token, .. } => {
                if let Some((by, _)) = completed.get(task_id) {
                    wrong.push(format!("{process:?} was given task {task_id}, which {by:?} has completed"));
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
                // Once another token was given out, this one was worth nothing.
                let mut later = given.skip_while(|(_, given)| *given != token).skip(1);
                if let Some((_, other)) = later.find(|(at_us, other)| at_us < &began && *other != token) {
                    wrong.push(format!("{process:?} completed task {task_id} by {token}, after {other} was given out"));
                }
            }
            What::FinalTask { task_id, is_completed: false } if completed.contains_key(task_id) => {
                wrong.push(format!("task {task_id} was completed, and is not"));
            }
            _ => {}
        }
    }
    wrong
}

fn decisions(history: &History<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut asked: HashMap<(Process<'_>, u64), (&str, bool)> = HashMap::new();
    let mut decided: HashMap<&str, bool> = HashMap::new();
    for event in history.events {
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
                    wrong.push(format!("{request_id} was decided ({said:?}), and is {state} in the end"));
                }
            }
            _ => {}
        }
    }
    wrong
}

fn shutdown(history: &History<'_>) -> Vec<String> {
    let mut approved: HashMap<Process<'_>, u64> = HashMap::new();
    let mut ended: BTreeMap<Process<'_>, u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    let last = history.events.last().map_or(0, |event| event.at_us);
    for event in history.events {
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
                    wrong.push(format!("{process:?} has ended well without an approval"));
                }
            }
            _ => {}
        }
    }
    for (process, at_us) in approved {
        let until = ended.get(&process).copied().unwrap_or(last);
        if until > at_us + END_US_MAX {
            wrong.push(format!("{process:?} lived for {} s after its approval", (until - at_us) / 1_000_000));
        }
    }
    wrong
}

fn progress(history: &History<'_>) -> Vec<String> {
    let stuck = history.events.iter().filter_map(|event| match &event.what {
        What::Stuck { detail } => Some(format!("{}: {detail}", event.member)),
        _ => None,
    });
    stuck.collect()
}

fn alive(history: &History<'_>) -> Vec<String> {
    let lost = history.events.iter().filter_map(|event| match &event.what {
        What::FinalLost { who } => Some(format!("{who} was taken for lost")),
        _ => None,
    });
    lost.collect()
}

fn loss_told(history: &History<'_>) -> Vec<String> {
    let told = history.events.iter().filter(|event| event.what == What::FinalWritesLost).count();
    let lost = history.lost;
    match (history.forgotten.is_empty(), told) {
        (true, 1..) => vec!["the team was told of a loss, and the store was never made to forget".to_owned()],
        (false, 0) if lost > 0 => vec![format!("{lost} messages are lost, and nobody was told")],
        _ => Vec::new(),
    }
}

fn unharmed(history: &History<'_>) -> Vec<String> {
    let mut floods: Vec<(u64, u64)> = Vec::new();
    for event in history.events {
        match &event.what {
            What::FloodBegan => floods.push((event.at_us, u64::MAX)),
            What::FloodEnded => floods.last_mut().into_iter().for_each(|flood| flood.1 = event.at_us),
            _ => {}
        }
    }
    let mut harmed = Vec::new();
    for event in history.events {
        let What::Sending { op, .. } = &event.what else { continue };
        let process = (event.member.as_str(), event.process);
        let is_during = floods.iter().any(|(from, until)| (*from..*until).contains(&event.at_us));
        // Of whoever was killed meanwhile nothing more is heard.
        let Some((at_us, end)) = history.end(process, *op).filter(|_| is_during) else { continue };
        if !matches!(end, What::Sent { .. }) {
            harmed.push(format!("{process:?} had no OK for op {op} while strangers were there: {end:?}"));
        } else if at_us > event.at_us + ANSWER_US_MAX {
            let seconds = (at_us - event.at_us) / 1_000_000;
            harmed.push(format!("{process:?} waited for {seconds} s for op {op} while strangers were there"));
        }
    }
    harmed
}

fn bounded(history: &History<'_>) -> Vec<String> {
    let mut most: BTreeMap<usize, u64> = BTreeMap::new();
    for event in history.events {
        if let What::Memory { coordinator, peak_bytes } = event.what {
            let peak = most.entry(coordinator).or_default();
            *peak = (*peak).max(peak_bytes);
        }
    }
    most.retain(|_, peak| *peak > MEMORY_BYTES_MAX);
    most.into_iter().map(|(number, peak)| format!("coordinator {number} has taken {} MiB", peak >> 20)).collect()
}

fn damage_found(history: &History<'_>) -> Vec<String> {
    let mut silent = Vec::new();
    // Of each member: the last send that was answered with OK, so far.
    let mut sent: HashMap<&str, &str> = HashMap::new();
    for event in history.events {
        match &event.what {
            What::Sent { message_id, again: false, .. } => {
                sent.insert(&event.member, message_id);
            }
            What::Damaged { how, code: Some(code), said, .. } if *code == 0 || !said.contains("damaged") => {
                silent.push(format!("{how}: it ended with {code}, saying: {said}"));
            }
            What::Damaged { how, missing, .. } => {
                // One commit carries at most one send of each: the last that it was answered.
                let older = missing.iter().filter(|id| !sent.values().any(|last| last == id)).count();
                if older > 0 {
                    silent.push(format!("{how}: it opened without a word, and {older} messages are not there"));
                }
            }
            _ => {}
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a history of what happens one after the other, a second apart.
    fn history(events: &[(&str, u32, What)]) -> Vec<Event> {
        let events = events.iter().enumerate().map(|(at, (member, process, what))| Event {
            at_us: at as u64 * 10_000_000,
            member: (*member).to_owned(),
            process: *process,
            what: what.clone(),
        });
        events.collect()
    }

    fn sending(op: u64) -> What {
        What::Sending { op, to: "bob".to_owned(), content: format!("c{op}") }
    }

    fn sent(op: u64) -> What {
        What::Sent {
            op,
            message_id: format!("m{op}"),
            recipients: vec!["bob".to_owned()],
            again: false,
            replayed: false,
            durability: "DURABILITY_FSYNCED".to_owned(),
        }
    }

    fn delivered(op: u64, sequence: u64, delivery_count: u32) -> What {
        let (message_id, content) = (format!("m{op}"), format!("c{op}"));
        What::Delivered { message_id, sequence, delivery_count, from: "ann".to_owned(), content }
    }

    fn last(op: u64, state: &str) -> What {
        let receipts = BTreeMap::from([("bob".to_owned(), state.to_owned())]);
        What::FinalMessage { message_id: format!("m{op}"), from: "ann".to_owned(), content: format!("c{op}"), receipts }
    }

    fn broken(events: &[(&str, u32, What)]) -> Vec<Promise> {
        let mut promises: Vec<_> = check(&history(events)).into_iter().map(|violation| violation.promise).collect();
        promises.dedup();
        promises
    }

    #[test]
    fn a_history_in_which_all_is_well_is_found_so() {
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
    fn what_is_lost_invented_doubled_or_out_of_order_is_found() {
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
        assert_eq!(twice(1, 2), [Promise::NothingDoubled]);
        assert_eq!(twice(2, 1), [Promise::NothingDoubled]);
        assert_eq!(twice(2, 2), []);
        let swapped = [("bob", 1, delivered(1, 2, 1)), ("bob", 1, delivered(2, 1, 1))];
        assert_eq!(with(&[&ends[..], &swapped[..]].concat()), [Promise::Order]);
    }

    #[test]
    fn only_what_a_forgetful_store_had_applied_may_be_lost_and_only_then() {
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
        assert_eq!(with(applied(1), &[forgets(9_000_000, 11_000_000)]), [Promise::LossTold]);
        assert_eq!(with(sent(1), &[told]), [Promise::NothingLost, Promise::LossTold]);
    }

    #[test]
    fn a_damaged_file_that_opens_without_a_word_may_lack_the_last_of_each_only() {
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
        assert_eq!(with(None, "", &["m1"]), [Promise::DamageFound]);
        assert_eq!(with(Some(78), "the file is damaged: ...", &[]), []);
        assert_eq!(with(Some(0), "the file is damaged: ...", &[]), [Promise::DamageFound]);
        assert_eq!(with(Some(101), "panicked", &[]), [Promise::DamageFound]);
    }

    #[test]
    fn what_an_old_session_or_claim_still_does_is_found() {
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
    fn two_answers_and_ends_without_approval_are_found() {
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
