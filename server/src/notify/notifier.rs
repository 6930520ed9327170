//! The notifier: passes commits, made here or elsewhere, on to the sessions and calls that wait for them.

use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use teamwire_proto::{name::Name, v1};
use tokio::sync::watch;

use super::{mailbox::Mailbox, team_changes::TeamChanges, waiters::NamespaceWaiters};
use crate::{
    domain::{
        records::{DueNoticesRecord, RecordType, TeamRecord},
        secret::SessionId,
        streams,
        topics::Topic,
    },
    store::{Commit, Namespace, Notification, Txn, Write},
};

/// Knows the open sessions of this coordinator, and the calls that wait for something in a team.
pub struct Notifier {
    /// Identifies this coordinator in its notifications.
    by: u64,
    namespaces: Mutex<HashMap<Namespace, NamespaceWaiters>>,
    /// For each worker.
    changes: Mutex<[Changes; 2]>,
}

/// Who learns which teams have changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Worker {
    /// The due worker.
    Due,
    /// The retention worker.
    Retention,
}

/// Teams that have changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Those where something may be due that was not before: their roster or their waiting notices were changed here.
    pub(crate) due_here: HashSet<Namespace>,
    /// Those that have changed in another way, or elsewhere.
    pub(crate) teams: HashSet<Namespace>,
    /// Any team may have changed.
    pub(crate) any: bool,
}

impl Changes {
    fn add(&mut self, namespace: &Namespace, is_due_here: bool) {
        let teams = if is_due_here { &mut self.due_here } else { &mut self.teams };
        if !teams.contains(namespace) {
            teams.insert(namespace.clone());
        }
    }
}

impl Default for Notifier {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("namespaces", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Notifier {
    /// Makes a notifier without sessions.
    pub fn new() -> Self {
        Self { by: rand::random(), namespaces: Mutex::default(), changes: Mutex::default() }
    }

    /// Returns what identifies this coordinator in its notifications. It ignores those, since it knows of its commits
    /// already.
    pub fn by(&self) -> u64 {
        self.by
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, NamespaceWaiters>> {
        self.namespaces.lock()
    }

    /// Registers a session until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>, mailbox: Arc<Mailbox>) -> OpenGuard {
        let mut namespaces = self.lock();
        let waiters = namespaces.entry(mailbox.namespace.clone()).or_default();
        waiters.sessions.entry(mailbox.member.folded().to_owned()).or_default().push(Arc::clone(&mailbox));
        OpenGuard { notifier: Arc::clone(self), mailbox }
    }

    /// Returns the mailbox of the member's session with this id, or of its newest one.
    pub fn mailbox(
        &self,
        namespace: &Namespace,
        member: &Name,
        session_id: Option<&SessionId>,
    ) -> Option<Arc<Mailbox>> {
        let namespaces = self.lock();
        let sessions = namespaces.get(namespace)?.sessions.get(member.folded())?;
        let found = match session_id {
            Some(id) => sessions.iter().find(|session| session.session_id == *id),
            None => sessions.last(),
        };
        found.cloned()
    }

    /// Returns a counter that changes whenever something happens in the namespace.
    pub fn watch(&self, namespace: &Namespace) -> watch::Receiver<u64> {
        self.watch_in(namespace, |waiters| &waiters.news)
    }

    /// Returns a counter that changes whenever a task of the namespace has changed.
    pub fn watch_tasks(&self, namespace: &Namespace) -> watch::Receiver<u64> {
        self.watch_in(namespace, |waiters| &waiters.tasks)
    }

    /// Returns a counter that changes whenever a member of the namespace has reported activity, or its runner has answered
    /// a call that reads its transcript.
    pub fn watch_activity(&self, namespace: &Namespace, member: &Name) -> watch::Receiver<u64> {
        waiters_in(&mut self.lock(), namespace).watch_activity(member.folded())
    }

    /// Returns what gathers the changes to the namespace's team, for the one task that reads it.
    pub(crate) fn team_changes(&self, namespace: &Namespace) -> Arc<TeamChanges> {
        waiters_in(&mut self.lock(), namespace).team_changes()
    }

    fn watch_in(
        &self,
        namespace: &Namespace,
        which: fn(&NamespaceWaiters) -> &watch::Sender<u64>,
    ) -> watch::Receiver<u64> {
        which(waiters_in(&mut self.lock(), namespace)).subscribe()
    }

    /// Returns the mailbox of every open session.
    pub fn sessions(&self) -> Vec<Arc<Mailbox>> {
        self.lock().values().flat_map(|waiters| waiters.sessions.values()).flatten().cloned().collect()
    }

    /// Returns the mailbox of every open session of a namespace.
    pub fn sessions_of(&self, namespace: &Namespace) -> Vec<Arc<Mailbox>> {
        let namespaces = self.lock();
        let waiters = namespaces.get(namespace).into_iter();
        waiters.flat_map(|waiters| waiters.sessions.values()).flatten().cloned().collect()
    }

    /// Returns the mailboxes of the open sessions of a namespace that may have missed something at this version.
    pub(crate) fn sessions_behind(&self, namespace: &Namespace, version: u64) -> Vec<Arc<Mailbox>> {
        let namespaces = self.lock();
        let waiters = namespaces.get(namespace).into_iter();
        let sessions = waiters.flat_map(|waiters| waiters.sessions.values()).flatten();
        sessions.filter(|session| !session.is_up_to_date_at(version)).cloned().collect()
    }

    /// Returns the namespaces with open sessions.
    pub fn with_sessions(&self) -> Vec<Namespace> {
        let namespaces = self.lock();
        let has_sessions = namespaces.iter().filter(|(_, waiters)| !waiters.sessions.is_empty());
        has_sessions.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Returns the members of a namespace with an open session.
    pub(crate) fn members_with_sessions(&self, namespace: &Namespace) -> Vec<Name> {
        let namespaces = self.lock();
        let sessions = namespaces.get(namespace).into_iter().flat_map(|waiters| waiters.sessions.values());
        sessions.filter_map(|of_one| of_one.last()).map(|session| session.member.clone()).collect()
    }

    /// Returns which teams have changed since the last call, as far as is known here.
    pub(crate) fn take_changes(&self, worker: Worker) -> Changes {
        std::mem::take(&mut self.changes.lock()[worker as usize])
    }

    /// Notes that a team has changed. `is_due_here`: something may be due that was not before, because of a commit made
    /// here.
    pub(super) fn note_change(&self, namespace: &Namespace, is_due_here: bool) {
        if namespace.is_team() {
            self.changes.lock().iter_mut().for_each(|changes| changes.add(namespace, is_due_here));
        }
    }

    /// Passes on what this coordinator has committed: arrivals to its sessions, and the notifications.
    pub(crate) fn committed(&self, namespace: &Namespace, txn: &Txn, commit: &Commit) {
        // Renewed leases make nothing due earlier, and no one waits for them.
        if txn.writes.iter().all(|write| matches!(write, Write::Lease { .. })) {
            return;
        }
        let decides_what_is_due = |write: &Write| match write {
            Write::Put { key, .. } => [TeamRecord::KIND, DueNoticesRecord::KIND].contains(&key.kind),
            Write::DropNamespace => true,
            _ => false,
        };
        self.note_change(namespace, txn.writes.iter().any(decides_what_is_due));
        let mut namespaces = self.lock();
        let Some(waiters) = namespaces.get_mut(namespace) else { return };
        waiters.changes.iter().for_each(|changes| changes.note_commit(txn));
        let message: Option<&Bytes> = txn.writes.iter().find_map(|write| match write {
            Write::Put { key, data } if key.kind == v1::Message::KIND => Some(data),
            _ => None,
        });
        let single = txn.writes.iter().filter(|w| matches!(w, Write::Put { key, .. } if key.kind == v1::Message::KIND));
        // If a transaction has several messages, it does not say which went where: sessions then read the store.
        let message = message.filter(|_| single.count() == 1);
        // Decoded once for all recipients.
        let message: LazyCell<Option<Arc<v1::Message>>, _> =
            LazyCell::new(|| message.and_then(|data| <v1::Message as RecordType>::decode(data).ok()).map(Arc::new));
        let appends = txn.writes.iter().filter_map(|write| match write {
            Write::Append { stream, .. } => Some(stream),
            _ => None,
        });
        // Entries that leave with the arrival of another are notices that the other one replaces. Few transactions have
        // any.
        let removals = txn.writes.iter().filter_map(|write| match write {
            Write::Remove { stream, sequences } => Some((stream, sequences)),
            _ => None,
        });
        let removals: Vec<_> = removals.collect();
        for (stream, sequence) in appends.zip(&commit.appended) {
            let (Some(member), Some(sequence)) = (streams::inbox_owner(stream), sequence) else { continue };
            for session in waiters.sessions.get(member).into_iter().flatten() {
                for (_, replaced) in removals.iter().filter(|(from, _)| *from == stream) {
                    session.replaced(replaced);
                }
                session.arrived(*sequence, message.as_ref());
            }
        }
        let topics = txn.writes.iter().filter_map(|write| match write {
            Write::Notify { topic, .. } => Topic::parse(topic),
            _ => None,
        });
        // Arrivals have woken those sessions already.
        waiters.pass_on(topics.filter(|topic| !matches!(topic, Topic::Inbox(_) | Topic::Inboxes)));
    }

    /// Passes on a notification of the store.
    pub fn notification(&self, notification: &Notification) {
        match notification {
            Notification::Topic { namespace, topic, by } => {
                self.note_change(namespace, false);
                // Otherwise, `committed` has passed it on, or `PendingCommit` will.
                if *by != self.by {
                    self.wake(namespace, [topic.as_str()]);
                }
            }
            Notification::All => {
                self.changes.lock().iter_mut().for_each(|changes| changes.any = true);
                self.lock().values().for_each(NamespaceWaiters::wake_all);
            }
        }
    }

    pub(super) fn wake<'t>(&self, namespace: &Namespace, topics: impl IntoIterator<Item = &'t str>) {
        if let Some(waiters) = self.lock().get_mut(namespace) {
            let topics = topics.into_iter().filter_map(Topic::parse);
            let noted = topics.inspect(|topic| waiters.changes.iter().for_each(|changes| changes.note_topic(*topic)));
            waiters.pass_on(noted);
        }
    }
}

fn waiters_in<'n>(
    namespaces: &'n mut HashMap<Namespace, NamespaceWaiters>,
    namespace: &Namespace,
) -> &'n mut NamespaceWaiters {
    // Namespaces that no call watches anymore are still listed; drop them now and then.
    if namespaces.len() > 1_024 {
        namespaces.retain(|_, waiters| !waiters.is_idle());
    }
    namespaces.entry(namespace.clone()).or_default()
}

/// A session's registration at the notifier.
pub(crate) struct OpenGuard {
    notifier: Arc<Notifier>,
    mailbox: Arc<Mailbox>,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut namespaces = self.notifier.lock();
        let Some(waiters) = namespaces.get_mut(&self.mailbox.namespace) else { return };
        if let Some(sessions) = waiters.sessions.get_mut(self.mailbox.member.folded()) {
            sessions.retain(|session| !Arc::ptr_eq(session, &self.mailbox));
            if sessions.is_empty() {
                waiters.sessions.remove(self.mailbox.member.folded());
            }
        }
        if waiters.is_idle() {
            namespaces.remove(&self.mailbox.namespace);
        }
    }
}
