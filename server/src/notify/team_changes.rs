//! What may have changed in a team since it was last read for those who watch it.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use teamwire_proto::v1;
use tokio::sync::Notify;

use crate::{
    domain::{
        records::{ActivityRecord, HostRecord, PresenceRecord, RecordType, SessionRecord, TeamRecord},
        streams,
        task::board::{BoardRecord, TaskRecord},
        topics::Topic,
    },
    store::{Key, Txn, Write},
};

/// What to read. Members are given by their folded names. Bounded by what the team consists of, and emptied by each
/// read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Anything may have changed.
    pub(crate) everything: bool,
    /// The team's record.
    pub(crate) roster: bool,
    /// What is known of any member.
    pub(crate) all_members: bool,
    /// What is known of these members.
    pub(crate) members: BTreeSet<String>,
    /// The activity of these members.
    pub(crate) activity: BTreeSet<String>,
    /// Any request.
    pub(crate) all_requests: bool,
    /// These requests.
    pub(crate) requests: BTreeSet<String>,
    /// The task board.
    pub(crate) board: bool,
}

/// Gathers what may have changed in a team, for the task that reads it.
#[derive(Debug, Default)]
pub(crate) struct TeamChanges {
    unread: Mutex<Unread>,
    wake: Notify,
}

impl TeamChanges {
    /// Waits until something may have changed.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Takes what may have changed.
    pub(crate) fn take(&self) -> Unread {
        std::mem::take(&mut self.unread.lock())
    }

    /// Notes that anything may have changed.
    pub(crate) fn note_everything(&self) {
        self.unread.lock().everything = true;
        self.wake.notify_one();
    }

    /// Notes what a commit of this coordinator has changed, which its writes say exactly.
    pub(super) fn note_commit(&self, txn: &Txn) {
        let mut unread = self.unread.lock();
        let mut is_news = false;
        for write in &txn.writes {
            is_news |= match write {
                Write::Put { key, .. } | Write::Delete { key } => unread.add_record(key),
                Write::Append { stream, .. } | Write::Remove { stream, .. } => unread.add_stream(stream),
                Write::DropNamespace => {
                    unread.everything = true;
                    true
                }
                // Leases are read with everything else.
                Write::Lease { .. } | Write::EndLease { .. } | Write::RememberReply { .. } | Write::Notify { .. } => {
                    false
                }
                // Only a restored store has them, before any coordinator serves it.
                Write::SkipTo { .. } | Write::Raise { .. } => false,
            };
        }
        drop(unread);
        if is_news {
            self.wake.notify_one();
        }
    }

    /// Notes what a notification of another coordinator says.
    pub(super) fn note_topic(&self, topic: Topic<'_>) {
        self.unread.lock().add_topic(topic);
        self.wake.notify_one();
    }
}

impl Unread {
    /// Notes a record. Returns whether it shows in a view of the team.
    fn add_record(&mut self, key: &Key) -> bool {
        match key.kind {
            TeamRecord::KIND => self.roster = true,
            SessionRecord::KIND | PresenceRecord::KIND | ActivityRecord::KIND | HostRecord::KIND => {
                self.members.insert(key.id.clone());
            }
            <v1::Request as RecordType>::KIND => {
                self.requests.insert(key.id.clone());
            }
            TaskRecord::KIND | BoardRecord::KIND => self.board = true,
            _ => return false,
        }
        true
    }

    fn add_stream(&mut self, stream: &str) -> bool {
        if let Some(member) = streams::inbox_owner(stream) {
            self.members.insert(member.to_owned());
        } else if let Some(member) = streams::activity_owner(stream) {
            self.activity.insert(member.to_owned());
        } else {
            return false;
        }
        true
    }

    /// Notes a topic. Whatever has changed, the team's record may have changed with it, except with activity and tasks.
    fn add_topic(&mut self, topic: Topic<'_>) {
        match topic {
            Topic::Activity(member) => {
                self.activity.insert(member.to_owned());
                self.members.insert(member.to_owned());
                return;
            }
            Topic::RunnerQuery(_) => return,
            Topic::Tasks => self.board = true,
            Topic::Inbox(member) | Topic::Session(member) | Topic::Withdrawn(member) => {
                self.members.insert(member.to_owned());
            }
            Topic::Inboxes | Topic::Roster => self.all_members = true,
            Topic::Requests => self.all_requests = true,
            Topic::Team => self.everything = true,
        }
        self.roster = true;
    }
}
