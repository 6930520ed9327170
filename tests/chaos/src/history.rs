//! A record of calls and their outcomes, as lines of JSON.
//!
//! Each process appends to its own file before a call and after its answer. The last call of a killed process may lack
//! an outcome: whether it was carried out is unknown.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time by the machine's clock, which all processes share, in microseconds since 1970.
    pub at_us: u64,
    /// The member's name.
    pub member: String,
    /// The number of its process, from 1.
    pub process: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. Within a process, `op` pairs an outcome with its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A send begins. An empty `to` means a broadcast. The content is unique.
    Sending { op: u64, to: String, content: String },
    /// The send was answered with OK. `again`: a retry with the same key. `replayed`, `durability`: from the answer.
    Sent { op: u64, message_id: String, recipients: Vec<String>, again: bool, replayed: bool, durability: String },
    /// The send was refused.
    SendRefused { op: u64, reason: String },
    /// A session was opened.
    Opened { epoch: u64 },
    /// A message or notice was delivered. `is_urgent`: a shutdown request, which may come before its turn.
    Delivered {
        message_id: String,
        sequence: u64,
        delivery_count: u32,
        from: String,
        content: String,
        #[serde(default)]
        is_urgent: bool,
    },
    /// A message is acknowledged to the client library.
    Acking { message_id: String },
    /// A flush of acknowledgements begins.
    Flushing { op: u64 },
    /// The flush succeeded: every earlier acknowledgement is confirmed.
    Flushed { op: u64 },
    /// The subscription ended.
    Ended { how: String },
    /// A claim begins.
    Claiming { op: u64 },
    /// A task was claimed.
    Claimed { op: u64, task_id: u64, token: String },
    /// A completion begins.
    Completing { op: u64, task_id: u64, token: String },
    /// The task was completed.
    Completed { op: u64 },
    /// It was not.
    CompleteRefused { op: u64, reason: String },
    /// A member begins to ask for permission.
    Asking { op: u64 },
    /// The request was made.
    Asked { op: u64, request_id: String },
    /// The member that asked saw that its request is no longer pending.
    Settled { request_id: String, state: String },
    /// The answer to a permission request was delivered.
    AnswerDelivered { request_id: String, approve: bool },
    /// An answer to a request begins.
    Deciding { op: u64, request_id: String, approve: bool },
    /// The request was decided as answered.
    Decided { op: u64, replayed: bool },
    /// It was not.
    DecideRefused { op: u64, reason: String },
    /// The call failed in any other way: its outcome is unknown.
    Unknown { op: u64, detail: String },
    /// The supervisor killed the process.
    Killed,
    /// The process exited, or died by a signal (no code).
    Exited { code: Option<i32> },
    /// The supervisor made the store lose writes. Whatever it answered with APPLIED between the two times may be lost;
    /// both in microseconds since 1970.
    MayBeLost { from_us: u64, until_us: u64 },
    /// The coordinators started. They declare a silent member lost after this time, and no sooner after their start.
    Started { lost_after_s: u64 },
    /// A flood, or an attack, is being prepared, which takes calls itself.
    FloodPrepared,
    /// A flood began.
    FloodBegan,
    /// The flood ended.
    FloodEnded,
    /// Someone who means well makes a call beside hostile members.
    Probing { op: u64, call: String },
    /// The call ended. `error`: why it failed, if it did.
    Probed { op: u64, error: Option<String> },
    /// Beside hostile members, this many messages were answered with OK. The history lacks those that are missing.
    Kept { said: usize, missing: Vec<String> },
    /// Beside hostile members, the lead used its powers in this many calls. The audit log lacks those about the missing
    /// members.
    Audited { calls: usize, missing: Vec<String> },
    /// The most bytes that a team with hostile members held, in all or of one kind, and how many it may hold.
    Held { part: String, bytes: u64, bytes_max: u64 },
    /// Beside hostile members, the store grew by this many bytes. `held`: by how many bytes that it counts.
    Grew { bytes: u64, held: u64 },
    /// The peak memory of a coordinator so far, in bytes.
    Memory { coordinator: usize, peak_bytes: u64 },
    /// Another coordinator opened a damaged copy of a killed coordinator's store. `code`: its exit code, if it exited;
    /// `said`: the end of its log; `missing`: messages that were answered with OK and are not in the copy.
    Damaged { how: String, code: Option<i32>, said: String, missing: Vec<String> },
    /// The lead begins to order a member.
    Ordering { op: u64, who: String },
    /// The order was made. `expires_us`: its deadline, in microseconds since 1970.
    Ordered { op: u64, request_id: String, expires_us: u64 },
    /// It was not.
    OrderRefused { op: u64, reason: String },
    /// The lead saw that a name is reserved for an order. It asked at `asked_us`.
    Reserved { who: String, request_id: String, asked_us: u64 },
    /// The program of an ordered member began. `request_id`: its order.
    Began { request_id: String },
    /// It begins to get something done.
    Acting { op: u64 },
    /// It was done.
    Acted { op: u64 },
    /// From now on the supervisor may keep these members from the coordinators for longer than a lease.
    CutOff { members: Vec<String> },
    /// Final state: an order. Times in microseconds since 1970.
    FinalOrder { request_id: String, who: String, state: String, expires_us: u64, decided_us: u64 },
    /// Final state: a name is still reserved.
    FinalReserved { who: String },
    /// Final state: something of members that have ended is left on a host.
    FinalLeft { detail: String },
    /// Final state: the team's history says that a member was declared lost.
    FinalLost { who: String },
    /// Final state: the team's history says that the store lost acknowledged writes.
    FinalWritesLost,
    /// Final state: a message with its receipt for each recipient.
    FinalMessage { message_id: String, from: String, content: String, receipts: BTreeMap<String, String> },
    /// Final state: a request.
    FinalRequest { request_id: String, state: String },
    /// Final state: a task.
    FinalTask { task_id: u64, is_completed: bool },
    /// Final state: something did not finish although every fault was healed.
    Stuck { detail: String },
}

/// Writes the history of one process.
#[derive(Debug)]
pub struct Recorder {
    member: String,
    process: u32,
    file: Mutex<File>,
}

impl Recorder {
    /// Opens the file of a process.
    pub fn open(directory: &Path, member: &str, process: u32) -> io::Result<Self> {
        let path = directory.join(format!("{member}-{process}.jsonl"));
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { member: member.to_owned(), process, file: Mutex::new(file) })
    }

    /// Records an event now. Aborts the process if the file cannot be written: an incomplete history proves nothing.
    pub fn note(&self, what: What) {
        let event = Event { at_us: now_us(), member: self.member.clone(), process: self.process, what };
        let mut line = serde_json::to_vec(&event).unwrap_or_default();
        line.push(b'\n');
        let mut file = self.file.lock();
        // A single write, so that a kill cuts off whole lines only.
        if let Err(error) = file.write_all(&line) {
            eprintln!("the history cannot be written: {error}");
            std::process::abort();
        }
    }
}

/// Reads all histories of a directory as one, ordered by time.
pub fn read(directory: &Path) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let text = fs::read_to_string(&path)?;
            // A line without its end is being written, or a kill has cut it off: what it says had no effect yet.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
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

/// Counts the calls without an outcome in processes that are still running.
pub fn in_flight(events: &[Event]) -> usize {
    let mut begun = BTreeSet::new();
    for Event { member, process, what, .. } in events {
        match what {
            What::Sending { op, .. } | What::Completing { op, .. } | What::Asking { op } => {
                begun.insert((member, process, op));
            }
            What::Sent { op, .. }
            | What::SendRefused { op, .. }
            | What::Completed { op }
            | What::CompleteRefused { op, .. }
            | What::Asked { op, .. }
            | What::Unknown { op, .. } => {
                begun.remove(&(member, process, op));
            }
            What::Killed | What::Exited { .. } => begun.retain(|(of, number, _)| (*of, *number) != (member, process)),
            _ => {}
        }
    }
    begun.len()
}

/// Returns the time as histories record it.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
