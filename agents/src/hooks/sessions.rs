//! Remembers which session of a member was handed which messages, in a private file for each member.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use teamwire_client::v1;

use super::call::{Event, HookCall};

/// How long after its last hook a session keeps its messages from other sessions of the member, in seconds.
pub(super) const CLAIM: u64 = 600;

/// How long after its last hook a session counts as idle in the middle of a turn, in seconds.
const IDLE_AFTER: u64 = 60;

/// How long after its last hook a session is remembered, in seconds.
const FORGOTTEN_AFTER: u64 = 7 * 86_400;

/// How many times hooks may continue a turn because messages wait. The ninth time, Claude Code ends the turn and shows
/// the model nothing.
pub(super) const CONTINUED_MAX: u32 = 8;

/// The file of a member.
#[derive(Debug)]
pub(super) struct Sessions {
    path: PathBuf,
}

/// What the file contains.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct File {
    sessions: BTreeMap<String, Session>,
}

/// A session of a program.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Session {
    /// When it last called a hook, in seconds since 1970.
    seen_at: u64,
    /// Its current or last turn.
    turn: String,
    /// How many turns it has begun. Counts them for programs that do not name them.
    turns: u64,
    /// Whether a turn is in progress, as far as the hooks show.
    pub(super) is_in_turn: bool,
    /// How many times this turn was continued because messages waited.
    pub(super) continued: u32,
    /// Whether a hook caused its next prompt.
    pub(super) prompts_itself: bool,
    /// The process that waits to wake it.
    waiter: u32,
    /// Whether a hook has said that no messages arrive.
    pub(super) has_told_away: bool,
    in_hand: Vec<InHand>,
    /// The messages that the model has read in turns that have ended, and that are not acknowledged yet.
    pub(super) proven: Vec<String>,
}

/// A message that a session was given.
#[derive(Debug, Serialize, Deserialize)]
struct InHand {
    id: String,
    /// The turn that it was given in.
    turn: String,
    /// Whether it was given at the end of the turn, which must then continue to show it.
    is_at_end: bool,
    /// Whether the text was only announced, because it is too long.
    is_mention: bool,
    /// Whether the program has read the hook's answer.
    is_printed: bool,
}

impl Sessions {
    pub(super) fn new(directory: &Path, member: &str, team: &str) -> Self {
        let name = format!("{member}@{team}.json").to_ascii_lowercase();
        Self { path: directory.join(name) }
    }

    /// Removes the file, and what belongs to it.
    pub(super) fn remove(&self) {
        for extension in ["json", "lock", "new"] {
            let path = self.path.with_extension(extension);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "a file of the hooks was not removed");
                }
                _ => {}
            }
        }
    }

    /// Changes the file under a lock that excludes the hooks of other sessions.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut File) -> T) -> io::Result<T> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let open = |extension: &str, truncate: bool| {
            let mut options = fs::OpenOptions::new();
            options.create(true).write(true).truncate(truncate).mode(0o600).open(self.path.with_extension(extension))
        };
        let lock = open("lock", false)?;
        lock.lock()?;
        let mut file = self.read();
        let result = change(&mut file);
        let oldest = now().saturating_sub(FORGOTTEN_AFTER);
        file.sessions.retain(|_, session| session.seen_at >= oldest);
        open("new", true)?.write_all(serde_json::to_string(&file)?.as_bytes())?;
        fs::rename(self.path.with_extension("new"), &self.path)?;
        Ok(result)
    }

    /// Reads the file. One that is missing or damaged counts as empty: its messages are handed over again.
    pub(super) fn read(&self) -> File {
        fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }
}

impl File {
    pub(super) fn session(&mut self, id: &str) -> &mut Session {
        self.sessions.entry(id.to_owned()).or_default()
    }

    /// Forgets a session. Other sessions may get the messages that it had in hand; otherwise they wait until it is
    /// resumed.
    pub(super) fn end(&mut self, id: &str) {
        self.sessions.remove(id);
    }

    /// Records an event. Returns the messages to acknowledge.
    pub(super) fn begin(&mut self, call: &HookCall) -> Vec<String> {
        let session = self.session(&call.session_id);
        session.seen_at = now();
        session.enter_turn(call);
        session.is_in_turn = matches!(call.event, Event::Prompt | Event::AfterTool);
        match call.event {
            Event::TurnEnd => session.prove(call),
            // A compacted session may have lost what it was given.
            Event::SessionStart => session.in_hand.iter_mut().for_each(|in_hand| in_hand.turn.clear()),
            _ => {}
        }
        session.proven.clone()
    }

    /// Makes a process the one that waits to wake a session, in place of an earlier one, which exits.
    pub(super) fn set_waiter(&mut self, id: &str, waiter: u32) {
        let session = self.session(id);
        session.seen_at = session.seen_at.max(now());
        session.waiter = waiter;
    }

    /// Returns whether a session may be woken. `None` if the waiter is no longer wanted.
    ///
    /// A program does not report the end of an interrupted turn, so a session that has long been silent counts as idle.
    /// If it is in fact busy, the notification joins its turn.
    pub(super) fn may_wake(&self, id: &str, waiter: u32) -> Option<bool> {
        let session = self.sessions.get(id).filter(|session| session.waiter == waiter)?;
        Some(!session.is_in_turn || session.seen_at + IDLE_AFTER < now())
    }

    /// Returns the messages of an inbox that this session was not given in this turn, and that no other session has in
    /// hand.
    pub(super) fn waiting<'a>(&self, id: &str, inbox: &'a v1::ListInboxResponse) -> Vec<&'a v1::Message> {
        let messages = inbox.deliveries.iter().filter_map(|delivery| delivery.message.as_ref());
        let alive_since = now().saturating_sub(CLAIM);
        let is_free = |message: &&v1::Message| {
            self.sessions.iter().all(|(session_id, session)| {
                let is_this = session_id == id;
                let is_alive = session.seen_at >= alive_since;
                let has = |in_hand: &InHand| in_hand.id == message.id && (!is_this || in_hand.turn == session.turn);
                !(is_this || is_alive) || !(session.in_hand.iter().any(has) || session.proven.contains(&message.id))
            })
        };
        messages.filter(is_free).collect()
    }
}

impl Session {
    /// Records the turn of an event.
    fn enter_turn(&mut self, call: &HookCall) {
        let is_new = match call.turn_id.as_str() {
            // The program does not name its turns: each prompt begins one.
            "" => call.event == Event::Prompt,
            named => named != self.turn,
        };
        if !is_new {
            return;
        }
        self.turns += 1;
        self.turn = if call.turn_id.is_empty() { self.turns.to_string() } else { call.turn_id.clone() };
        // A prompt that a hook has caused does not come from the person.
        if !std::mem::take(&mut self.prompts_itself) {
            self.continued = 0;
        }
    }

    /// Records that the turn has ended, which proves that the model has read what was printed for it.
    fn prove(&mut self, call: &HookCall) {
        let turn = self.turn.clone();
        let is_proven = |in_hand: &InHand| {
            in_hand.is_printed
                && !in_hand.is_mention
                && in_hand.turn == turn
                && (!in_hand.is_at_end || call.is_continued)
        };
        self.proven.extend(self.in_hand.iter().filter(|in_hand| is_proven(in_hand)).map(|in_hand| in_hand.id.clone()));
        self.in_hand.retain(|in_hand| !is_proven(in_hand));
    }

    /// Returns whether it was given a message before.
    pub(super) fn has_seen(&self, id: &str) -> bool {
        self.in_hand.iter().any(|in_hand| in_hand.id == id && !in_hand.is_mention)
    }

    /// Records that the session is being given messages. They count once [`Session::printed`] is called for them.
    pub(super) fn hand_over(&mut self, call: &HookCall, shown: &[String], mentioned: &[String]) {
        self.in_hand.retain(|in_hand| !shown.contains(&in_hand.id) && !mentioned.contains(&in_hand.id));
        let each = shown.iter().map(|id| (id, false)).chain(mentioned.iter().map(|id| (id, true)));
        self.in_hand.extend(each.map(|(id, is_mention)| InHand {
            id: id.clone(),
            turn: self.turn.clone(),
            is_at_end: call.event == Event::TurnEnd,
            is_mention,
            is_printed: false,
        }));
    }

    /// Records that the program has read the answer with these messages.
    pub(super) fn printed(&mut self, ids: &[String]) {
        let in_hand = self.in_hand.iter_mut().filter(|in_hand| ids.contains(&in_hand.id));
        in_hand.for_each(|in_hand| in_hand.is_printed = true);
    }
}

/// Returns the messages that sessions of a member were given and have not processed yet.
pub(crate) fn in_hand(directory: &Path, member: &str, team: &str) -> Vec<String> {
    let file = Sessions::new(directory, member, team).read();
    let sessions = file.sessions.into_values().flat_map(|session| session.in_hand);
    sessions.filter(|in_hand| !in_hand.is_mention).map(|in_hand| in_hand.id).collect()
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
