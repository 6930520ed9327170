//! Who waits in one namespace.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use super::{
    mailbox::{Mailbox, Work},
    team_changes::TeamChanges,
};
use crate::domain::topics::Topic;

/// Who waits in one namespace.
pub(crate) struct NamespaceWaiters {
    /// Open sessions, by the member's folded name. A member has two for a moment, while one supersedes the other.
    pub(super) sessions: HashMap<String, Vec<Arc<Mailbox>>>,
    /// Counts everything that happens.
    pub(super) news: watch::Sender<u64>,
    /// Counts changes to tasks.
    pub(super) tasks: watch::Sender<u64>,
    /// Counts reports of activity and pages of the transcript, by the member's folded name.
    activity: HashMap<String, watch::Sender<u64>>,
    /// What may have changed, if a task reads the team for those who watch it.
    pub(super) changes: Option<Arc<TeamChanges>>,
}

impl Default for NamespaceWaiters {
    fn default() -> Self {
        Self {
            sessions: HashMap::new(),
            news: watch::Sender::new(0),
            tasks: watch::Sender::new(0),
            activity: HashMap::new(),
            changes: None,
        }
    }
}

impl NamespaceWaiters {
    pub(super) fn is_idle(&self) -> bool {
        let mut counts = [&self.news, &self.tasks].into_iter().chain(self.activity.values());
        let is_watched = self.changes.as_ref().is_some_and(|changes| Arc::strong_count(changes) > 1);
        self.sessions.is_empty() && !is_watched && counts.all(|count| count.receiver_count() == 0)
    }

    /// Returns what gathers the changes to the team.
    pub(super) fn team_changes(&mut self) -> Arc<TeamChanges> {
        Arc::clone(self.changes.get_or_insert_default())
    }

    /// Returns a counter that changes whenever a member has reported activity.
    pub(super) fn watch_activity(&mut self, member: &str) -> watch::Receiver<u64> {
        self.activity.retain(|_, count| count.receiver_count() > 0);
        self.activity.entry(member.to_owned()).or_default().subscribe()
    }

    /// Passes on a commit with these topics. Reports of activity are frequent, and pages of transcripts concern one call, so
    /// they do not wake anyone else.
    pub(super) fn pass_on<'t>(&self, topics: impl IntoIterator<Item = Topic<'t>>) {
        let mut is_news = true;
        for topic in topics {
            is_news &= !matches!(topic, Topic::Activity(_) | Topic::RunnerQuery(_));
            self.wake(topic);
        }
        if is_news {
            self.news.send_modify(|count| *count += 1);
        }
    }

    /// Wakes all, because anything may have changed.
    pub(super) fn wake_all(&self) {
        self.activity.keys().for_each(|member| self.wake(Topic::Activity(member)));
        self.changes.iter().for_each(|changes| changes.note_everything());
        self.pass_on([Topic::Team, Topic::Inboxes, Topic::Tasks]);
    }

    fn wake(&self, topic: Topic<'_>) {
        match topic {
            Topic::Activity(member) => {
                self.activity.get(member).into_iter().for_each(|count| count.send_modify(|count| *count += 1));
            }
            Topic::RunnerQuery(member) => {
                self.each(member, Work::Questions);
                self.wake(Topic::Activity(member));
            }
            Topic::Inbox(member) => self.each(member, Work::Reread),
            Topic::Inboxes => self.all(Work::Reread),
            Topic::Withdrawn(member) => {
                self.sessions.get(member).into_iter().flatten().for_each(|session| session.withdrawn())
            }
            Topic::Session(member) => self.each(member, Work::Verify),
            Topic::Team => {
                self.all(Work::Verify);
                self.tasks.send_modify(|count| *count += 1);
            }
            Topic::Tasks => self.tasks.send_modify(|count| *count += 1),
            // Calls that wait for a decision watch everything that happens. No session shows the roster.
            Topic::Requests | Topic::Roster => {}
        }
    }

    fn each(&self, member: &str, work: Work) {
        for session in self.sessions.get(member).into_iter().flatten() {
            session.request(work);
        }
    }

    fn all(&self, work: Work) {
        for session in self.sessions.values().flatten() {
            session.request(work);
        }
    }
}
