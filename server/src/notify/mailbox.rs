//! The part of a session that other tasks touch: what has arrived for it, and what it has delivered.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use teamwire_proto::{id::MessageId, name::Name, v1};
use tokio::sync::Notify;

use crate::{
    domain::{inbox::Leaving, records::CursorRecord, secret::SessionId},
    store::Namespace,
};

/// How many arrivals wait at most; later ones are read from the store.
const ARRIVALS_MAX: usize = 128;

/// No version of a team.
const NEVER: u64 = u64::MAX;

/// What a session shares with the rest of the coordinator. The session's own loop sleeps on it.
#[derive(Debug)]
pub struct Mailbox {
    /// The team's namespace.
    pub namespace: Namespace,
    /// The member whose inbox this is.
    pub member: Name,
    /// The id that the client presents.
    pub session_id: SessionId,
    wake: Notify,
    /// The lowest sequence that the session has not handled yet.
    seen_next: AtomicU64,
    /// The version of the team at which the session had missed nothing. [`NEVER`]: unknown, or it has handled more
    /// since.
    up_to_date_at: AtomicU64,
    state: Mutex<Inbox>,
}

/// What a session must do besides delivering what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read its inbox in the store, which may hold entries that it has not seen.
    Reread,
    /// Find out whether it still holds its inbox.
    Verify,
    /// Find out which delivered messages were acknowledged through another coordinator.
    Recount,
    /// Ask the runner what calls want to read of its transcript.
    Questions,
    /// End, because the inbox has gone back to an earlier state: only a new session can tell which entries are new.
    Restart,
}

/// The work that a session has not begun yet.
#[derive(Debug, Default)]
struct Pending([bool; 5]);

impl Pending {
    fn request(&mut self, work: Work) {
        self.0[work as usize] = true;
    }

    fn has(&self, work: Work) -> bool {
        self.0[work as usize]
    }

    fn take(&mut self, work: Work) -> bool {
        std::mem::take(&mut self.0[work as usize])
    }
}

/// What a session knows of its inbox, and of what it has delivered.
#[derive(Debug, Default)]
struct Inbox {
    pending: Pending,
    /// Entries that were just committed here, by sequence.
    arrivals: BTreeMap<u64, Option<Arc<v1::Message>>>,
    /// The session's progress, as of the last delivery.
    cursor: CursorRecord,
    /// Delivered messages that are still in the inbox, by id.
    unacked: HashMap<MessageId, Unacked>,
    /// How much of `unacked` uses up credit: messages whose acknowledgement is not under way.
    outstanding: Outstanding,
    /// A message that this session had not delivered yet has left the inbox.
    has_holes: bool,
}

/// How much credit a session has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// A delivered message.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
    pub(crate) delivered_ms: u64,
    pub(crate) delivery_count: u32,
}

#[derive(Clone, Debug)]
struct Unacked {
    delivered: Delivered,
    /// An acknowledgement is on its way into the store, so the message uses up no credit.
    is_leaving: bool,
}

/// What has arrived for a session that waits for a certain sequence.
pub(crate) enum Arrival {
    /// The entry with that sequence.
    Next(Arc<v1::Message>),
    /// The store may have it.
    InStore,
    /// Only entries with higher sequences.
    Later,
    /// Nothing.
    None,
}

impl Inbox {
    /// Changes whether a message uses up credit.
    fn set_leaving(&mut self, id: MessageId, is_leaving: bool) {
        let Some(message) = self.unacked.get_mut(&id).filter(|message| message.is_leaving != is_leaving) else {
            return;
        };
        message.is_leaving = is_leaving;
        if is_leaving {
            self.outstanding.messages -= 1;
            self.outstanding.bytes -= message.delivered.bytes;
        } else {
            self.outstanding.messages += 1;
            self.outstanding.bytes += message.delivered.bytes;
        }
    }
}

/// For the tasks that wake the session.
impl Mailbox {
    /// Makes the mailbox of a session that has read nothing yet.
    pub(crate) fn new(namespace: Namespace, member: Name, session_id: SessionId) -> Arc<Self> {
        let mut state = Inbox::default();
        state.pending.request(Work::Reread);
        state.pending.request(Work::Questions);
        Arc::new(Self {
            namespace,
            member,
            session_id,
            wake: Notify::new(),
            seen_next: AtomicU64::new(1),
            up_to_date_at: AtomicU64::new(NEVER),
            state: Mutex::new(state),
        })
    }

    /// Takes an entry that was just committed to the inbox. `message`: the message it names, if at hand.
    pub(super) fn arrived(&self, sequence: u64, message: Option<&Arc<v1::Message>>) {
        let mut state = self.state.lock();
        if state.arrivals.len() < ARRIVALS_MAX {
            state.arrivals.insert(sequence, message.cloned());
        } else {
            state.pending.request(Work::Reread);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets entries that have left the inbox before the session has delivered them.
    pub(super) fn replaced(&self, sequences: &[u64]) {
        let mut state = self.state.lock();
        for sequence in sequences {
            let had_arrived = state.arrivals.remove(sequence).is_some();
            state.has_holes |= !had_arrived;
        }
    }

    /// Has the session read its inbox again, because messages have left it: some that it was about to deliver, and some
    /// that it has delivered.
    pub(super) fn withdrawn(&self) {
        let mut state = self.state.lock();
        state.arrivals.clear();
        state.has_holes = true;
        state.pending.request(Work::Reread);
        state.pending.request(Work::Recount);
        drop(state);
        self.wake.notify_one();
    }

    /// Wakes the session to do this.
    pub(crate) fn request(&self, work: Work) {
        self.note(work);
        self.wake.notify_one();
    }

    /// Returns the lowest sequence that the session has not handled yet. May lag.
    pub(crate) fn seen_next(&self) -> u64 {
        self.seen_next.load(Ordering::Relaxed)
    }

    /// Returns whether the session has missed nothing, if its team has this version.
    pub(crate) fn is_up_to_date_at(&self, version: u64) -> bool {
        self.up_to_date_at.load(Ordering::Relaxed) == version
    }

    /// Records that the session has missed nothing that the team had at this version.
    pub(crate) fn set_up_to_date_at(&self, version: u64) {
        self.up_to_date_at.store(version, Ordering::Relaxed);
    }

    /// Returns the session's exact progress, which may not be in the store yet.
    pub(crate) fn cursor(&self) -> CursorRecord {
        let unacked = self.unacked_places();
        CursorRecord { unacked, ..self.state.lock().cursor.clone() }
    }

    /// Returns a message that this session has delivered and that is not acknowledged.
    pub fn unacked(&self, id: MessageId) -> Option<Leaving> {
        self.state.lock().unacked.get(&id).map(|Unacked { delivered, .. }| Leaving {
            sequence: delivered.sequence,
            message_id: id,
            delivered_ms: Some(delivered.delivered_ms),
            delivery_count: delivered.delivery_count,
        })
    }

    /// Frees the credit of messages that are about to be acknowledged. The guard removes them when it is
    /// [done](LeavingGuard::done), and takes the credit back when it is dropped before.
    pub(crate) fn leaving<'m>(self: &Arc<Self>, messages: &'m [Leaving]) -> LeavingGuard<'m> {
        let mut state = self.state.lock();
        for message in messages {
            state.set_leaving(message.message_id, true);
        }
        drop(state);
        self.wake.notify_one();
        LeavingGuard { mailbox: Arc::clone(self), messages }
    }
}

/// For the session's own loop. Nothing here wakes it.
impl Mailbox {
    /// Waits until another task wakes the session.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Publishes the session's progress.
    pub(crate) fn set_seen_next(&self, next: u64) {
        if self.seen_next.swap(next, Ordering::Relaxed) != next {
            self.up_to_date_at.store(NEVER, Ordering::Relaxed);
        }
    }

    /// Publishes the session's cursor.
    pub(crate) fn set_cursor(&self, cursor: &CursorRecord) {
        self.state.lock().cursor.clone_from(cursor);
    }

    /// Notes that the session must do this.
    pub(crate) fn note(&self, work: Work) {
        self.state.lock().pending.request(work);
    }

    /// Returns whether the session must do this.
    pub(crate) fn must(&self, work: Work) -> bool {
        self.state.lock().pending.has(work)
    }

    /// Returns whether the session must do this, which it begins now.
    pub(crate) fn take(&self, work: Work) -> bool {
        self.state.lock().pending.take(work)
    }

    /// Forgets delivered messages with these sequences, which have left the inbox, and frees their credit.
    pub(crate) fn forget(&self, sequences: &HashSet<u64>) {
        let mut state = self.state.lock();
        let gone = state.unacked.iter().filter(|(_, unacked)| sequences.contains(&unacked.delivered.sequence));
        let gone: Vec<MessageId> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            state.set_leaving(id, true);
            state.unacked.remove(&id);
        }
    }

    /// Returns whether a message that this session had not delivered has left the inbox, and clears the note.
    pub(crate) fn take_holes(&self) -> bool {
        std::mem::take(&mut self.state.lock().has_holes)
    }

    /// Takes the arrival with the sequence `next`, and drops those below it.
    pub(crate) fn take_arrival(&self, next: u64) -> Arrival {
        let mut state = self.state.lock();
        while let Some(first) = state.arrivals.first_entry()
            && *first.key() < next
        {
            first.remove();
        }
        match state.arrivals.remove(&next) {
            Some(Some(message)) => Arrival::Next(message),
            Some(None) => Arrival::InStore,
            None if state.pending.has(Work::Reread) => Arrival::InStore,
            None if state.arrivals.is_empty() => Arrival::None,
            None => Arrival::Later,
        }
    }

    /// Returns how much credit is used up.
    pub(crate) fn outstanding(&self) -> Outstanding {
        self.state.lock().outstanding
    }

    /// Records that a message is about to be delivered; it uses up credit from now on.
    pub(crate) fn deliver(&self, id: MessageId, delivered: Delivered) {
        let mut state = self.state.lock();
        // If the store has lost the commit that sent a message, and the message was sent again, the inbox has it at
        // another place. The later entry counts.
        state.set_leaving(id, true);
        state.outstanding.messages += 1;
        state.outstanding.bytes += delivered.bytes;
        state.unacked.insert(id, Unacked { delivered, is_leaving: false });
    }

    /// Returns the sequence and the delivery time of every delivered message that is still in the inbox, in order.
    pub(crate) fn unacked_places(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let places = state.unacked.values().map(|unacked| (unacked.delivered.sequence, unacked.delivered.delivered_ms));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        places
    }
}

/// Messages that are about to leave an inbox.
pub(crate) struct LeavingGuard<'m> {
    mailbox: Arc<Mailbox>,
    messages: &'m [Leaving],
}

impl LeavingGuard<'_> {
    /// Removes the messages: they have left the inbox.
    pub(crate) fn done(self) {
        let mut state = self.mailbox.state.lock();
        for message in self.messages {
            state.set_leaving(message.message_id, true);
            let was_delivered = state.unacked.remove(&message.message_id).is_some();
            state.has_holes |= !was_delivered;
            // It may wait for credit. The session must not deliver it anymore.
            state.arrivals.remove(&message.sequence);
        }
    }
}

impl Drop for LeavingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.mailbox.state.lock();
        for message in self.messages {
            state.set_leaving(message.message_id, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_checked_again_after_its_session_makes_progress() {
        let mailbox = Mailbox::new(Namespace::directory(), Name::parse("bob", "name").unwrap(), SessionId::default());
        assert!(!mailbox.is_up_to_date_at(7));
        mailbox.set_up_to_date_at(7);
        mailbox.set_seen_next(1);
        assert!(mailbox.is_up_to_date_at(7) && !mailbox.is_up_to_date_at(8));
        // The store may lose what it has handled, and have version 7 again.
        mailbox.set_seen_next(2);
        assert!(!mailbox.is_up_to_date_at(7));
    }
}
