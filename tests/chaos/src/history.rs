//! What was done and what came of it, as lines of JSON.
//!
//! Each process has a file of its own, to which it appends before it does something and after it was told what came of it. Of
//! a process that was killed the last thing may be without an end: whether it was done is not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the clock of the machine that all processes run on, in microseconds since 1970.
    pub at_us: u64,
    /// The member.
    pub member: String,
    /// Which of its processes, from 1.
    pub process: u32,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. `op` pairs an end with its beginning, within one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A send begins; `to` empty: to everybody. The content is like no other's.
    Sending { op: u64, to: String, content: String },
    /// It was answered with OK. `again`: the same send, repeated under its key. `replayed`, `durability`: as the answer says.
    Sent { op: u64, message_id: String, recipients: Vec<String>, again: bool, replayed: bool, durability: String },
    /// It was refused.
    SendRefused { op: u64, reason: String },
    /// A session was opened.
    Opened { epoch: u64 },
    /// A message was handed out. Notices, too.
    Delivered { message_id: String, sequence: u64, delivery_count: u32, from: String, content: String },
    /// An acknowledgement is taken.
    Acking { message_id: String },
    /// A flush begins.
    Flushing { op: u64 },
    /// Everything that was taken before it began is confirmed.
    Flushed { op: u64 },
    /// The subscription has ended.
    Ended { how: String },
    /// A task is asked for.
    Claiming { op: u64 },
    /// It was given.
    Claimed { op: u64, task_id: u64, token: String },
    /// A task is about to be completed.
    Completing { op: u64, task_id: u64, token: String },
    /// It was.
    Completed { op: u64 },
    /// It was not.
    CompleteRefused { op: u64, reason: String },
    /// A request is about to be answered.
    Deciding { op: u64, request_id: String, approve: bool },
    /// It was, so.
    Decided { op: u64, replayed: bool },
    /// It was not.
    DecideRefused { op: u64, reason: String },
    /// Anything else came of it: nothing is known.
    Unknown { op: u64, detail: String },
    /// The supervisor has killed the process.
    Killed,
    /// The process has ended by itself, or by a signal (no code).
    Exited { code: Option<i32> },
    /// The supervisor has made the store forget. What it did from one time to the other may be lost, if its answers came by
    /// the second and said no more than APPLIED; both in microseconds since 1970.
    MayBeLost { from_us: u64, until_us: u64 },
    /// The coordinators have started: whoever is not heard of for so long counts as lost, and nobody does sooner after their start.
    Started { lost_after_s: u64 },
    /// Strangers begin to do what they can against a coordinator.
    FloodBegan,
    /// They have stopped.
    FloodEnded,
    /// The most memory that a coordinator has taken so far, in bytes.
    Memory { coordinator: usize, peak_bytes: u64 },
    /// A copy of the store's file was damaged after its coordinator was killed, and another one was started on it. `code`: with
    /// which it ended, if it did; `said`: its last words; `missing`: what was answered with OK before the kill and is not there.
    Damaged { how: String, code: Option<i32>, said: String, missing: Vec<String> },
    /// In the end: the history of the team has it that somebody was taken for lost.
    FinalLost { who: String },
    /// In the end: the history of the team has it that the store has lost what it had answered.
    FinalWritesLost,
    /// In the end: a message, with what became of it at each recipient.
    FinalMessage { message_id: String, from: String, content: String, receipts: BTreeMap<String, String> },
    /// In the end: a request.
    FinalRequest { request_id: String, state: String },
    /// In the end: a task, and whether it is completed.
    FinalTask { task_id: u64, is_completed: bool },
    /// In the end: something of a member's is left in its inbox although nobody was in the way.
    Stuck { detail: String },
}

/// Writes a history.
#[derive(Debug)]
pub struct Recorder {
    member: String,
    process: u32,
    file: Mutex<File>,
}

impl Recorder {
    /// Opens the file of a process in a directory.
    pub fn open(directory: &Path, member: &str, process: u32) -> io::Result<Self> {
        let path = directory.join(format!("{member}-{process}.jsonl"));
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { member: member.to_owned(), process, file: Mutex::new(file) })
    }

    /// Notes what happens now. A history that cannot be written proves nothing: the process ends.
    pub fn note(&self, what: What) {
        let event = Event { at_us: now_us(), member: self.member.clone(), process: self.process, what };
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One write, so that what a kill cuts off is whole lines.
        if let Err(error) = file.write_all(&line) {
            eprintln!("the history cannot be written: {error}");
            std::process::abort();
        }
    }
}

/// Reads all histories of a directory, as one, in the order of time.
pub fn read(directory: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(&path)?;
            for line in text.lines() {
                events.push(
                    serde_json::from_str(line)
                        .map_err(|error| io::Error::other(format!("{}: {error}: {line}", path.display())))?,
                );
            }
        }
    }
    events.sort_by_key(|event: &Event| event.at_us);
    Ok(events)
}

/// Counts the sends, claims … that have begun in processes that still run, and have not ended.
pub fn under_way(events: &[Event]) -> usize {
    let mut begun = BTreeSet::new();
    for Event { member, process, what, .. } in events {
        match what {
            What::Sending { op, .. } | What::Completing { op, .. } => {
                begun.insert((member, process, op));
            }
            What::Sent { op, .. }
            | What::SendRefused { op, .. }
            | What::Completed { op }
            | What::CompleteRefused { op, .. }
            | What::Unknown { op, .. } => {
                begun.remove(&(member, process, op));
            }
            What::Killed | What::Exited { .. } => begun.retain(|(of, number, _)| (*of, *number) != (member, process)),
            _ => {}
        }
    }
    begun.len()
}

/// Returns the time as histories have it.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
