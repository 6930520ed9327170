//! Who waits in one namespace.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use super::mailbox::Mailbox;
use crate::domain::topics::Topic;

/// Who waits in one namespace.
pub(crate) struct NamespaceWaiters {
    /// Open sessions, by the member's folded name. A member has two for a moment, while one supersedes the other.
    pub(super) sessions: HashMap<String, Vec<Arc<Mailbox>>>,
    /// Counts everything that happens.
    pub(super) news: watch::Sender<u64>,
    /// Counts changes of tasks.
    pub(super) tasks: watch::Sender<u64>,
}

impl Default for NamespaceWaiters {
    fn default() -> Self {
        Self { sessions: HashMap::new(), news: watch::Sender::new(0), tasks: watch::Sender::new(0) }
    }
}

impl NamespaceWaiters {
    pub(super) fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.news.receiver_count() == 0 && self.tasks.receiver_count() == 0
    }

    pub(super) fn wake(&self, topic: Topic<'_>) {
        match topic {
            Topic::Inbox(member) => self.each(member, Mailbox::look),
            Topic::Inboxes => self.all(Mailbox::look),
            Topic::Session(member) => self.each(member, Mailbox::check),
            Topic::Team => {
                self.all(Mailbox::check);
                self.tasks.send_modify(|count| *count += 1);
            }
            Topic::Tasks => self.tasks.send_modify(|count| *count += 1),
            // Those who wait for a decision watch everything that happens.
            Topic::Requests => {}
        }
    }

    fn each(&self, member: &str, wake: fn(&Mailbox)) {
        for session in self.sessions.get(member).into_iter().flatten() {
            wake(session);
        }
    }

    fn all(&self, wake: fn(&Mailbox)) {
        for session in self.sessions.values().flatten() {
            wake(session);
        }
    }
}
