//! Detects commits that Redis acknowledged and then lost.
//!
//! A replica that takes over can lack its primary's last commits, and a server without persistence comes back empty.
//! Both start a new *history*: Redis gives every run of a primary its own replication ID. A store that is emptied, as
//! by FLUSHALL, starts a new history, too, because its marker's random id is part of the history (see `marker.rs`). So:
//! - every commit states the history it runs under, and the meta hash of its namespace keeps the last few histories,
//!   each with its *floor*: the namespace's version when that history began; and the version of the commit that created
//!   the namespace;
//! - the coordinator remembers, for each namespace, the last version acknowledged to it, and under which history;
//! - when a server shows a new history, the coordinator checks every namespace it remembers. A version above the floor
//!   of the history that came next was lost. Later commits, by any coordinator, do not hide that.
//!
//! A namespace that no longer exists, or that was created again, was lost too, unless a coordinator dropped it; a drop
//! is published to all coordinators. If a drop happens elsewhere while this coordinator is disconnected, in the very
//! seconds in which the history changes, it is reported as a loss although nothing was lost.
//!
//! Two kinds of losses go undetected: those in namespaces that no running coordinator has written to, and those that
//! start no new history. The latter are keys deleted while the marker stays, and an emptied node of a cluster, whose
//! nodes share no marker.

use std::{fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use lru::LruCache;
use parking_lot::Mutex;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, broadcast},
    time::{sleep, timeout},
};

use super::{functions::Function, keys::Keys, topology::Topology};
use crate::store::{LOSSES_MAX, Loss, Namespace, StoreError};

/// The number of namespaces to remember. Beyond that, the least recently written ones are forgotten.
const NAMESPACES_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not 0");

/// The number of histories to remember a commit under for each namespace, until they are checked.
const HISTORIES_MAX: usize = 4;

/// The number of namespaces to check concurrently.
const CHECKS_MAX: usize = 32;

/// The pause after a namespace could not be checked.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// When to check again: longer than an answer of the previous server can be in flight.
const RECHECK_AFTER: Duration = Duration::from_secs(6);

/// Remembers what Redis acknowledged to this coordinator, and detects what it lost.
pub(super) struct LossDetector {
    acknowledged: Mutex<LruCache<Namespace, Vec<Acknowledged>>>,
    /// Namespaces of which nothing is left, until they are written to again.
    gone: Mutex<LruCache<Namespace, ()>>,
    /// Notified when something may have been lost.
    recheck: Arc<Notify>,
    reports: broadcast::Sender<Loss>,
}

impl fmt::Debug for LossDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossDetector").finish_non_exhaustive()
    }
}

/// The last commit to a namespace that was acknowledged under a history, and since the namespace was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) version: u64,
    pub(super) history: Arc<str>,
    /// The version of the commit that created the namespace.
    pub(super) born: u64,
    /// Whether it dropped the namespace.
    pub(super) dropped: bool,
}

/// The versions and histories stored in a namespace.
#[derive(Debug, PartialEq, Eq)]
struct StoredHistory {
    version: u64,
    /// The version of the commit that created the namespace.
    born: u64,
    /// The histories of the last commits, each with its floor, newest first.
    histories: Vec<(String, u64)>,
}

impl LossDetector {
    /// Makes a detector that remembers nothing yet. `recheck` wakes [`LossDetector::run`].
    pub(super) fn new(recheck: Arc<Notify>) -> Self {
        let (reports, _) = broadcast::channel(LOSSES_MAX);
        let (acknowledged, gone) = (LruCache::new(NAMESPACES_MAX), LruCache::new(NAMESPACES_MAX));
        Self { acknowledged: Mutex::new(acknowledged), gone: Mutex::new(gone), recheck, reports }
    }

    /// Subscribes to the losses detected from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Loss> {
        self.reports.subscribe()
    }

    /// Requests a check of all namespaces.
    pub(super) fn recheck(&self) {
        self.recheck.notify_one();
    }

    /// Remembers an acknowledged commit that left its version in the namespace, or dropped the namespace.
    pub(super) fn record_commit(&self, namespace: &Namespace, new: Acknowledged) {
        // Without a history, losses cannot be detected.
        if new.history.is_empty() {
            return;
        }
        self.gone.lock().pop(namespace);
        let mut all = self.acknowledged.lock();
        let Some(last) = all.get_mut(namespace) else {
            all.put(namespace.clone(), vec![new]);
            return;
        };
        match last.iter_mut().find(|last| last.history == new.history && last.born == new.born) {
            // Concurrent commits may be acknowledged in any order.
            Some(last) if last.version < new.version => *last = new,
            Some(_) => (),
            // The commits under earlier histories, and before the namespace was created again, are still unchecked, and
            // this commit says nothing about them.
            None => {
                last.truncate(HISTORIES_MAX - 1);
                last.push(new);
            }
        }
    }

    /// Forgets the commits before a drop of the namespace by any coordinator.
    pub(super) fn record_drop(&self, namespace: &Namespace, version: u64) {
        self.forget(namespace, |last| last.version < version);
    }

    /// Checks whenever requested, forever.
    pub(super) async fn run(&self, topology: &Topology, keys: &Keys) {
        loop {
            self.recheck.notified().await;
            self.check_all(topology, keys).await;
            while timeout(RECHECK_AFTER, self.recheck.notified()).await.is_ok() {
                self.check_all(topology, keys).await;
            }
            self.check_all(topology, keys).await;
        }
    }

    /// Checks all remembered namespaces, and retries each until the store answers.
    pub(super) async fn check_all(&self, topology: &Topology, keys: &Keys) {
        // Otherwise a namespace that was emptied just now would look dropped.
        topology.check().await;
        let mut namespaces: Vec<Namespace> =
            self.acknowledged.lock().iter().map(|(namespace, _)| namespace.clone()).collect();
        while !namespaces.is_empty() {
            let checks = stream::iter(namespaces).map(|namespace| async move {
                match self.check(topology, keys, &namespace).await {
                    // A caller that needs the unreadable contents reports the error.
                    Ok(()) | Err(StoreError::Corrupt(_)) => None,
                    Err(_) => Some(namespace),
                }
            });
            namespaces = checks.buffer_unordered(CHECKS_MAX).filter_map(std::future::ready).collect().await;
            if !namespaces.is_empty() {
                sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Checks a namespace, and returns whether everything in it is lost.
    pub(super) async fn has_lost(
        &self,
        topology: &Topology,
        keys: &Keys,
        namespace: &Namespace,
    ) -> Result<bool, StoreError> {
        self.check(topology, keys, namespace).await?;
        Ok(self.gone.lock().contains(namespace))
    }

    async fn check(&self, topology: &Topology, keys: &Keys, namespace: &Namespace) -> Result<(), StoreError> {
        let mut query = Pipeline::new();
        query.cmd("HMGET").arg(keys.meta(namespace)).arg(&["v", "h", "b"]);
        let before = self.acknowledged.lock().peek(namespace).cloned().unwrap_or_default();
        // Read the namespace after that, so that a commit acknowledged in between does not look lost.
        let past = topology.read(Some(namespace), &query).await?.pop().as_ref().and_then(StoredHistory::read);
        let now = topology.history_of(namespace);
        let kept = |last: &Acknowledged| match &past {
            // Within one history, a namespace disappears only by a drop.
            past if now.as_ref() == Some(&last.history) && !last.is_in(past.as_ref()) => None,
            past => last.lost_in(past.as_ref()),
        };
        let lost = before.iter().filter_map(|last| Some((last.version, kept(last)?))).max();
        let newest = before.iter().max_by_key(|last| last.version);
        let Some((acknowledged, found)) = lost else {
            // Only the newest is needed from now on.
            self.forget(namespace, |last| before.contains(last) && (past.is_none() || Some(last) != newest));
            return Ok(());
        };
        let call = |function: &str, history: &str| {
            let mut count = redis::cmd("FCALL");
            count.arg(function).arg(1).arg(keys.meta(namespace)).arg(history);
            count
        };
        let counted = topology.call(namespace, Function::CountLoss, call).await?;
        let generation = redis::from_redis_value(counted.value).unwrap_or_default();
        if generation == 0 {
            self.gone.lock().put(namespace.clone(), ());
        }
        let is_unreported =
            self.forget(namespace, |last| before.contains(last) && (kept(last).is_some() || Some(last) != newest));
        if !is_unreported {
            return Ok(());
        }
        let loss = Loss { namespace: namespace.clone(), acknowledged, found, generation };
        tracing::error!(
            ?namespace,
            acknowledged,
            found,
            generation,
            "the store lost commits that it had acknowledged: messages may be gone"
        );
        // There may be no receivers.
        let _ = self.reports.send(loss);
        Ok(())
    }

    /// Returns whether any commit to a namespace is remembered.
    #[cfg(test)]
    pub(super) fn tracks(&self, namespace: &Namespace) -> bool {
        self.acknowledged.lock().contains(namespace)
    }

    /// Forgets commits. Returns whether there were any; if not, another check has come first.
    fn forget(&self, namespace: &Namespace, what: impl Fn(&Acknowledged) -> bool) -> bool {
        let mut all = self.acknowledged.lock();
        let Some(last) = all.peek_mut(namespace) else { return false };
        let count = last.len();
        last.retain(|last| !what(last));
        let has_forgotten = last.len() < count;
        if last.is_empty() {
            all.pop(namespace);
        }
        has_forgotten
    }
}

impl Acknowledged {
    /// Returns whether the namespace still exists, and was not created again.
    fn is_in(&self, past: Option<&StoredHistory>) -> bool {
        past.is_some_and(|past| past.born == self.born)
    }

    /// If the commit was lost, returns the last surviving version of its history, or 0 if none of it survived. `past`:
    /// the namespace's contents, if it exists.
    fn lost_in(&self, past: Option<&StoredHistory>) -> Option<u64> {
        let kept = match past {
            None => 0,
            Some(past) if past.born != self.born => 0,
            Some(past) => match past.histories.iter().position(|(id, _)| **id == *self.history) {
                Some(0) => past.version,
                Some(at) => past.histories[at - 1].1,
                // Everything under that history is gone.
                None => past.histories.last().map_or(past.version, |(_, floor)| *floor),
            },
        };
        // A dropped namespace does not exist, or was recreated.
        (kept < self.version && !(self.dropped && kept == 0)).then_some(kept)
    }
}

impl StoredHistory {
    /// Parses the version and the histories. `None` if the namespace does not exist.
    fn read(answer: &Value) -> Option<Self> {
        let (version, histories, born): (Option<u64>, Option<String>, Option<u64>) =
            redis::from_redis_value(answer.clone()).ok()?;
        let histories = histories.unwrap_or_default();
        // The oldest history may be truncated.
        let whole = histories.rsplit_once(';').map_or("", |(whole, _)| whole);
        let each = whole.split(';').filter_map(|history| {
            let (id, floor) = history.split_once(' ')?;
            Some((id.to_owned(), floor.parse().ok()?))
        });
        Some(Self { version: version?, born: born.unwrap_or(0), histories: each.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(version: &str, histories: &str) -> Option<StoredHistory> {
        past_born("0", version, histories)
    }

    fn past_born(born: &str, version: &str, histories: &str) -> Option<StoredHistory> {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        StoredHistory::read(&Value::Array(vec![bulk(version), bulk(histories), bulk(born)]))
    }

    fn last(version: u64, history: &str) -> Acknowledged {
        Acknowledged { version, history: history.into(), born: 0, dropped: false }
    }

    #[test]
    fn versions_up_to_the_next_historys_floor_survived() {
        let now = past("900", "z 700;y 500;x 0;");
        for (version, history, lost) in [
            (900, "z", None),
            (901, "z", Some(900)),
            (700, "y", None),
            (701, "y", Some(700)),
            (500, "x", None),
            // None of that history is left.
            (800, "w", Some(0)),
        ] {
            assert_eq!(last(version, history).lost_in(now.as_ref()), lost, "{version} {history}");
        }
        // A history can come back, when two servers alternate.
        let turns = past("900", "x 700;y 500;x 0;");
        assert_eq!(last(900, "x").lost_in(turns.as_ref()), None);
        // The oldest history is truncated.
        assert_eq!(past("900", "z 700;y 50").unwrap().histories, [("z".to_owned(), 700)]);
        assert_eq!(last(650, "x").lost_in(past("900", "z 700;y 50").as_ref()), None);
        // The namespace has no history.
        assert_eq!(last(901, "x").lost_in(past("900", "").as_ref()), Some(900));
    }

    #[test]
    fn missing_namespace_was_lost_unless_it_was_dropped() {
        let dropped = |version, history| Acknowledged { dropped: true, ..last(version, history) };
        assert_eq!(last(5, "x").lost_in(None), Some(0));
        assert_eq!(dropped(5, "x").lost_in(None), None);
        // Recreated, at once or on another server.
        for recreated in [past_born("6", "7", "x 0;"), past_born("6", "7", "y 0;")] {
            assert_eq!(dropped(5, "x").lost_in(recreated.as_ref()), None);
            // Not dropped: it was emptied, and then recreated.
            assert_eq!(last(5, "x").lost_in(recreated.as_ref()), Some(0));
        }
        // The namespace is back in its state before the drop.
        assert_eq!(dropped(5, "x").lost_in(past("7", "y 4;x 0;").as_ref()), Some(4));
        assert_eq!(dropped(5, "x").lost_in(past("4", "x 0;").as_ref()), Some(4));
    }
}
