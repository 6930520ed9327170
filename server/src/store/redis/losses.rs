//! Finds out when Redis has lost what it had answered.
//!
//! A replica that takes over may lack the last commits of its primary, and a server that keeps nothing on disk comes back
//! empty. Both begin a new *history*: Redis gives every run of a primary a replication id of its own. So:
//! - every commit says under which history it comes, and the meta hash of its namespace keeps the last few histories, each
//!   with the version that the namespace had when it began: its *floor*;
//! - a coordinator remembers the last version that it was answered for each namespace, and under which history;
//! - when a server turns up with another history, it looks at all that it remembers: a version above the floor of the
//!   history that came next was lost. Later commits do not hide that, whoever makes them.
//!
//! A namespace that is gone was lost as well, unless it was dropped: whoever drops one tells all coordinators. One that was
//! dropped elsewhere while this coordinator was cut off, in the very seconds in which the server changed, is reported
//! although nothing was lost. Not found are losses in namespaces that no running coordinator has written to, and what vanishes
//! while the history goes on, as by FLUSHALL.

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream};
use lru::LruCache;
use redis::{Pipeline, Value};
use tokio::{
    sync::{Notify, broadcast},
    time::{sleep, timeout},
};

use super::{keys::Keys, library::Function, servers::Servers};
use crate::store::{LOSSES_MAX, Loss, Namespace, StoreError};

/// How many namespaces are remembered; beyond that, those that were written to the longest time ago are not.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not 0");

/// Under how many histories a commit is remembered of each, until it was looked at.
const HISTORIES_MAX: usize = 4;

/// How many namespaces are looked at side by side.
const LOOKS_MAX: usize = 32;

/// How long to wait after a namespace could not be looked at.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// After how long to look again: longer than an answer of the former server may be on its way.
const AGAIN_AFTER: Duration = Duration::from_secs(6);

/// What Redis has answered to this coordinator.
pub(super) struct Losses {
    acknowledged: Mutex<LruCache<Namespace, Vec<Acknowledged>>>,
    /// Something may have been lost.
    doubt: Arc<Notify>,
    reports: broadcast::Sender<Loss>,
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Losses").finish_non_exhaustive()
    }
}

/// The last commit to a namespace that was answered under a history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Acknowledged {
    version: u64,
    history: Arc<str>,
    /// Whether it dropped the namespace.
    dropped: bool,
}

/// What a namespace says of its past.
#[derive(Debug, PartialEq, Eq)]
struct Past {
    version: u64,
    /// The histories under which the last commits came and the floor of each, newest first.
    histories: Vec<(String, u64)>,
}

impl Losses {
    /// Remembers nothing yet. `doubt` wakes [`Losses::watch`].
    pub(super) fn new(doubt: Arc<Notify>) -> Self {
        let (reports, _) = broadcast::channel(LOSSES_MAX);
        Self { acknowledged: Mutex::new(LruCache::new(REMEMBERED_MAX)), doubt, reports }
    }

    /// Subscribes to what will be found.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Loss> {
        self.reports.subscribe()
    }

    /// Has everything looked at.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Remembers that a commit was answered which has left its version in the namespace, or has dropped it.
    pub(super) fn acknowledged(&self, namespace: &Namespace, version: u64, history: Arc<str>, dropped: bool) {
        // A server that does not tell its history cannot be found out.
        if history.is_empty() {
            return;
        }
        let new = Acknowledged { version, history, dropped };
        let mut all = self.lock();
        let Some(last) = all.get_mut(namespace) else {
            all.put(namespace.clone(), vec![new]);
            return;
        };
        match last.iter_mut().find(|last| last.history == new.history) {
            // Answers to commits at the same time come in any order.
            Some(last) if last.version < new.version => *last = new,
            Some(_) => (),
            // What was answered before is not looked at yet, and this commit says nothing of it.
            None => {
                last.truncate(HISTORIES_MAX - 1);
                last.push(new);
            }
        }
    }

    /// Forgets what came before a namespace was dropped, by whomever.
    pub(super) fn dropped(&self, namespace: &Namespace, version: u64) {
        self.forget(namespace, |last| last.version < version);
    }

    /// Looks for losses for as long as it runs, whenever there is doubt.
    pub(super) async fn watch(&self, servers: &Servers, keys: &Keys) {
        loop {
            self.doubt.notified().await;
            self.look(servers, keys).await;
            while timeout(AGAIN_AFTER, self.doubt.notified()).await.is_ok() {
                self.look(servers, keys).await;
            }
            self.look(servers, keys).await;
        }
    }

    /// Looks at all namespaces that are remembered, at each until it answers.
    pub(super) async fn look(&self, servers: &Servers, keys: &Keys) {
        let mut namespaces: Vec<Namespace> = self.lock().iter().map(|(namespace, _)| namespace.clone()).collect();
        while !namespaces.is_empty() {
            let looks = stream::iter(namespaces).map(|namespace| async move {
                match self.look_at(servers, keys, &namespace).await {
                    // It is reported by whoever needs what cannot be read.
                    Ok(()) | Err(StoreError::Corrupt(_)) => None,
                    Err(_) => Some(namespace),
                }
            });
            namespaces = looks.buffer_unordered(LOOKS_MAX).filter_map(std::future::ready).collect().await;
            if !namespaces.is_empty() {
                sleep(RETRY_AFTER).await;
            }
        }
    }

    async fn look_at(&self, servers: &Servers, keys: &Keys, namespace: &Namespace) -> Result<(), StoreError> {
        let mut ask = Pipeline::new();
        ask.cmd("HMGET").arg(keys.meta(namespace)).arg(&["v", "h"]);
        let before = self.lock().peek(namespace).cloned().unwrap_or_default();
        // After that, so that nothing is taken for lost which is only answered meanwhile.
        let past = servers.read(Some(namespace), &ask).await?.pop().as_ref().and_then(Past::read);
        let now = servers.history_of(namespace);
        let kept = |last: &Acknowledged| match &past {
            // While the history goes on, a namespace is gone because it was dropped.
            None if now.as_ref() == Some(&last.history) => None,
            past => last.lost_in(past.as_ref()),
        };
        let lost = before.iter().filter_map(|last| Some((last.version, kept(last)?))).max();
        let newest = before.iter().max_by_key(|last| last.version);
        let Some((acknowledged, found)) = lost else {
            // One is enough from now on.
            self.forget(namespace, |last| before.contains(last) && (past.is_none() || Some(last) != newest));
            return Ok(());
        };
        let call = |function: &str, history: &str| {
            let mut count = redis::cmd("FCALL");
            count.arg(function).arg(1).arg(keys.meta(namespace)).arg(history);
            count
        };
        let counted = servers.call(namespace, Function::Lost, call).await?;
        let generation = redis::from_redis_value(counted.value).unwrap_or_default();
        self.forget(namespace, |last| before.contains(last) && (kept(last).is_some() || Some(last) != newest));
        let loss = Loss { namespace: namespace.clone(), acknowledged, found, generation };
        tracing::error!(
            ?namespace,
            acknowledged,
            found,
            generation,
            "the store has lost commits that it had answered: messages that were OK'd may be gone"
        );
        // Nobody listens.
        let _ = self.reports.send(loss);
        Ok(())
    }

    /// Returns whether anything is remembered of a namespace.
    #[cfg(test)]
    pub(super) fn remembers(&self, namespace: &Namespace) -> bool {
        self.lock().contains(namespace)
    }

    fn forget(&self, namespace: &Namespace, what: impl Fn(&Acknowledged) -> bool) {
        let mut all = self.lock();
        if let Some(last) = all.peek_mut(namespace) {
            last.retain(|last| !what(last));
            if last.is_empty() {
                all.pop(namespace);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<Namespace, Vec<Acknowledged>>> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acknowledged {
    /// Returns the last version that was kept of the history in which this commit was answered, if the commit is not
    /// among what was kept; 0 where there is nothing of it. `past`: what the namespace says, if it is there.
    fn lost_in(&self, past: Option<&Past>) -> Option<u64> {
        let kept = match past {
            None => 0,
            Some(past) => match past.histories.iter().position(|(id, _)| **id == *self.history) {
                Some(0) => past.version,
                Some(at) => past.histories[at - 1].1,
                // All that came under that history is gone, or the namespace is another one by now.
                None => past.histories.last().map_or(past.version, |(_, floor)| *floor),
            },
        };
        // A namespace that was dropped is not there, or was made anew.
        (kept < self.version && !(self.dropped && kept == 0)).then_some(kept)
    }
}

impl Past {
    /// Reads the version and the histories; `None` where there is no namespace.
    fn read(answer: &Value) -> Option<Self> {
        let (version, histories): (Option<u64>, Option<String>) = redis::from_redis_value(answer.clone()).ok()?;
        let histories = histories.unwrap_or_default();
        // The last may have been cut off.
        let whole = histories.rsplit_once(';').map_or("", |(whole, _)| whole);
        let each = whole.split(';').filter_map(|history| {
            let (id, floor) = history.split_once(' ')?;
            Some((id.to_owned(), floor.parse().ok()?))
        });
        Some(Self { version: version?, histories: each.collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn past(version: &str, histories: &str) -> Option<Past> {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        Past::read(&Value::Array(vec![bulk(version), bulk(histories)]))
    }

    fn last(version: u64, history: &str) -> Acknowledged {
        Acknowledged { version, history: history.into(), dropped: false }
    }

    #[test]
    fn what_is_below_the_floor_of_the_next_history_was_kept() {
        let now = past("900", "z 700;y 500;x 0;");
        for (version, history, lost) in [
            (900, "z", None),
            (901, "z", Some(900)),
            (700, "y", None),
            (701, "y", Some(700)),
            (500, "x", None),
            // Nothing of it is left.
            (800, "w", Some(0)),
        ] {
            assert_eq!(last(version, history).lost_in(now.as_ref()), lost, "{version} {history}");
        }
        // A history that comes again, as when two servers take turns.
        let turns = past("900", "x 700;y 500;x 0;");
        assert_eq!(last(900, "x").lost_in(turns.as_ref()), None);
        // The oldest is cut off.
        assert_eq!(past("900", "z 700;y 50").unwrap().histories, [("z".to_owned(), 700)]);
        assert_eq!(last(650, "x").lost_in(past("900", "z 700;y 50").as_ref()), None);
        // No history is known.
        assert_eq!(last(901, "x").lost_in(past("900", "").as_ref()), Some(900));
    }

    #[test]
    fn a_namespace_that_is_gone_was_lost_unless_it_was_dropped() {
        let dropped = |version, history| Acknowledged { dropped: true, ..last(version, history) };
        assert_eq!(last(5, "x").lost_in(None), Some(0));
        assert_eq!(dropped(5, "x").lost_in(None), None);
        // Made anew, at once or by another server.
        assert_eq!(dropped(5, "x").lost_in(past("7", "x 0;").as_ref()), None);
        assert_eq!(dropped(5, "x").lost_in(past("7", "y 0;").as_ref()), None);
        // It is back as it was before.
        assert_eq!(dropped(5, "x").lost_in(past("7", "y 4;x 0;").as_ref()), Some(4));
        assert_eq!(dropped(5, "x").lost_in(past("4", "x 0;").as_ref()), Some(4));
    }
}
