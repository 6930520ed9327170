//! Open sessions: waking them, delivering to them, keeping their members alive, ending them.
//!
//! - [`Hub`]: who is to be woken when something was committed, here or by another coordinator.
//! - [`session`]: the loop of one session. [`poll`]: the net under the wake-ups. [`losses`]: when
//!   the store has lost what it had answered.
//! - [`lease`]: signs of life, gathered and written in batches. [`sweep`]: what is due when time passes; [`tidy`]: what
//!   may be forgotten.
//!
//! A wake-up says where to look, never what is there; it may be lost. The one exception is an arrival: an entry of an
//! inbox that this very coordinator has just committed. A session takes it without reading the store if its sequence is
//! the very next one, which no lost wake-up can forge.

pub mod lease;
pub mod losses;
pub mod poll;
pub mod session;
pub mod sweep;
pub mod tidy;

use std::{
    cell::LazyCell,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use teamwire_proto::{name::Name, v1};
use tokio::{runtime::Handle, sync::watch, time::sleep};

use crate::{
    domain::record::{Stored, TOPIC_INBOXES, TOPIC_TASKS, TOPIC_TEAM, TeamRecord},
    store::{Commit, Namespace, Notification, Txn, Write},
};
use session::Shared;

/// How long after a call was given up its commit is looked for. What comes later is found by the poll.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Knows the open sessions of this coordinator and whoever else waits for something in a team.
pub struct Hub {
    /// What the notifications of this coordinator say who says so.
    by: u64,
    namespaces: Mutex<HashMap<Namespace, Here>>,
    /// Teams whose roster this coordinator has just changed; the sweep looks at them soon.
    changed: Mutex<Vec<Namespace>>,
}

/// Who waits in one namespace.
struct Here {
    /// By the member's folded name. Two of one member for a moment, while one supersedes the other.
    sessions: HashMap<String, Vec<Arc<Shared>>>,
    /// Counts up with everything that happens.
    news: watch::Sender<u64>,
    /// Counts up when a task has changed.
    tasks: watch::Sender<u64>,
}

impl Default for Here {
    fn default() -> Self {
        Self { sessions: HashMap::new(), news: watch::Sender::new(0), tasks: watch::Sender::new(0) }
    }
}

impl Here {
    fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.news.receiver_count() == 0 && self.tasks.receiver_count() == 0
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("namespaces", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Hub {
    /// Makes a hub that nobody waits at.
    pub fn new() -> Self {
        Self { by: rand::random(), namespaces: Mutex::default(), changed: Mutex::default() }
    }

    /// Returns who says so in the notifications that this hub does not need.
    pub fn by(&self) -> u64 {
        self.by
    }

    /// Notes that a transaction is about to be committed. If it is not known what came of it, because the caller went
    /// away or the store did not answer, those whom it may concern are told to look.
    pub(crate) fn under_way<'t>(self: &'t Arc<Self>, namespace: &'t Namespace, txn: &'t Txn) -> UnderWay<'t> {
        UnderWay { hub: self, namespace, txn, is_known: false }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, Here>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session. It is removed when the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>, shared: Arc<Shared>) -> Entered {
        let mut namespaces = self.lock();
        let here = namespaces.entry(shared.namespace.clone()).or_default();
        here.sessions.entry(shared.member.folded().to_owned()).or_default().push(Arc::clone(&shared));
        Entered { hub: Arc::clone(self), shared }
    }

    /// Returns the member's session with this id, or its newest one.
    pub fn session(&self, namespace: &Namespace, member: &Name, session_id: Option<&str>) -> Option<Arc<Shared>> {
        let namespaces = self.lock();
        let sessions = namespaces.get(namespace)?.sessions.get(member.folded())?;
        let found = match session_id {
            Some(id) => sessions.iter().find(|session| session.session_id == id),
            None => sessions.last(),
        };
        found.cloned()
    }

    /// Returns what changes whenever something happens in the namespace.
    pub fn watch(&self, namespace: &Namespace) -> watch::Receiver<u64> {
        self.watch_in(namespace, |here| &here.news)
    }

    /// Returns what changes whenever a task of the namespace has changed.
    pub fn watch_tasks(&self, namespace: &Namespace) -> watch::Receiver<u64> {
        self.watch_in(namespace, |here| &here.tasks)
    }

    fn watch_in(&self, namespace: &Namespace, which: fn(&Here) -> &watch::Sender<u64>) -> watch::Receiver<u64> {
        let mut namespaces = self.lock();
        // Whoever watched a namespace that is now quiet has left its place; take the chance to clear it away.
        if namespaces.len() > 1_024 {
            namespaces.retain(|_, here| !here.is_idle());
        }
        which(namespaces.entry(namespace.clone()).or_default()).subscribe()
    }

    /// Returns every open session.
    pub fn sessions(&self) -> Vec<Arc<Shared>> {
        self.lock().values().flat_map(|here| here.sessions.values()).flatten().cloned().collect()
    }

    /// Returns the teams whose roster was changed here since the last call.
    pub(crate) fn take_changed(&self) -> Vec<Namespace> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes on what this coordinator has committed: arrivals to the sessions that are here, and the notifications.
    pub(crate) fn committed(&self, namespace: &Namespace, txn: &Txn, commit: &Commit) {
        let roster_changed =
            txn.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if key.kind == TeamRecord::KIND));
        if roster_changed {
            self.changed.lock().unwrap_or_else(PoisonError::into_inner).push(namespace.clone());
        }
        let mut namespaces = self.lock();
        let Some(here) = namespaces.get_mut(namespace) else { return };
        let message: Option<&Bytes> = txn.writes.iter().find_map(|write| match write {
            Write::Put { key, data } if key.kind == v1::Message::KIND => Some(data),
            _ => None,
        });
        let single = txn.writes.iter().filter(|w| matches!(w, Write::Put { key, .. } if key.kind == v1::Message::KIND));
        // With several messages in one transaction it is not said which went where: those sessions look in the store.
        let message = message.filter(|_| single.count() == 1);
        // Once for all who get it.
        let message: LazyCell<Option<Arc<v1::Message>>, _> =
            LazyCell::new(|| message.and_then(|data| <v1::Message as Stored>::decode(data).ok()).map(Arc::new));
        let appends = txn.writes.iter().filter_map(|write| match write {
            Write::Append { stream, .. } => Some(stream),
            _ => None,
        });
        for (stream, sequence) in appends.zip(&commit.appended) {
            let (Some(member), Some(sequence)) = (stream.strip_prefix("inbox/"), sequence) else { continue };
            for session in here.sessions.get(member).into_iter().flatten() {
                session.arrived(*sequence, message.as_ref());
            }
        }
        for write in &txn.writes {
            match write {
                // Arrivals have done what this notification would do.
                Write::Notify { topic, .. } if topic.starts_with("inbox") => {}
                Write::Notify { topic, .. } => here.wake(topic),
                _ => {}
            }
        }
        here.news.send_modify(|count| *count += 1);
    }

    /// Passes on a notification of the store.
    pub fn notification(&self, notification: &Notification) {
        match notification {
            // `committed` has done it, or `UnderWay` will.
            Notification::Topic { by, .. } if *by == self.by => {}
            Notification::Topic { namespace, topic, .. } => self.wake(namespace, [topic.as_str()]),
            Notification::All => {
                for here in self.lock().values_mut() {
                    here.wake(TOPIC_TEAM);
                    here.wake(TOPIC_INBOXES);
                    here.wake(TOPIC_TASKS);
                    here.news.send_modify(|count| *count += 1);
                }
            }
        }
    }

    fn wake<'t>(&self, namespace: &Namespace, topics: impl IntoIterator<Item = &'t str>) {
        if let Some(here) = self.lock().get_mut(namespace) {
            topics.into_iter().for_each(|topic| here.wake(topic));
            here.news.send_modify(|count| *count += 1);
        }
    }
}

impl Here {
    fn wake(&self, topic: &str) {
        match topic.split_once('/') {
            Some(("inbox", member)) => self.each(member, Shared::look),
            Some(("session", member)) => self.each(member, Shared::check),
            _ if topic == TOPIC_INBOXES => self.all(Shared::look),
            _ if topic == TOPIC_TEAM => {
                self.all(Shared::check);
                self.tasks.send_modify(|count| *count += 1);
            }
            _ if topic == TOPIC_TASKS => self.tasks.send_modify(|count| *count += 1),
            _ => {}
        }
    }

    fn each(&self, member: &str, wake: fn(&Shared)) {
        for session in self.sessions.get(member).into_iter().flatten() {
            wake(session);
        }
    }

    fn all(&self, wake: fn(&Shared)) {
        for session in self.sessions.values().flatten() {
            wake(session);
        }
    }
}

/// A commit whose outcome is not known yet.
pub(crate) struct UnderWay<'t> {
    hub: &'t Arc<Hub>,
    namespace: &'t Namespace,
    txn: &'t Txn,
    is_known: bool,
}

impl UnderWay<'_> {
    /// The store has answered.
    pub(crate) fn is_known(&mut self) {
        self.is_known = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.is_known {
            return;
        }
        let topic = |write: &Write| match write {
            Write::Notify { topic, .. } => Some(topic.clone()),
            _ => None,
        };
        let topics: Vec<String> = self.txn.writes.iter().filter_map(topic).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        let (hub, namespace) = (Arc::clone(self.hub), self.namespace.clone());
        runtime.spawn(async move {
            sleep(LOOK_AFTER).await;
            hub.wake(&namespace, topics.iter().map(String::as_str));
        });
    }
}

/// A session's place at the hub.
pub(crate) struct Entered {
    hub: Arc<Hub>,
    shared: Arc<Shared>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut namespaces = self.hub.lock();
        let Some(here) = namespaces.get_mut(&self.shared.namespace) else { return };
        if let Some(sessions) = here.sessions.get_mut(self.shared.member.folded()) {
            sessions.retain(|session| !Arc::ptr_eq(session, &self.shared));
            if sessions.is_empty() {
                here.sessions.remove(self.shared.member.folded());
            }
        }
        if here.is_idle() {
            namespaces.remove(&self.shared.namespace);
        }
    }
}
