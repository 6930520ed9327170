//! Commits whose outcome is not known yet.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::sleep};

use super::notifier::Notifier;
use crate::store::{Namespace, Txn, Write};

/// How long after a call was dropped the notifier wakes those that its commit may concern. A commit that happens later
/// is found by the reconciler.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// A commit that the store has not answered yet. Dropped before [`is_known`](Self::is_known), because the caller went
/// away or the store did not answer, it makes every session and call that the commit may concern read the store.
pub(crate) struct PendingCommit<'t> {
    notifier: &'t Arc<Notifier>,
    namespace: &'t Namespace,
    txn: &'t Txn,
    is_known: bool,
}

impl<'t> PendingCommit<'t> {
    pub(crate) fn new(notifier: &'t Arc<Notifier>, namespace: &'t Namespace, txn: &'t Txn) -> Self {
        Self { notifier, namespace, txn, is_known: false }
    }

    /// Records that the store has answered.
    pub(crate) fn is_known(&mut self) {
        self.is_known = true;
    }
}

impl Drop for PendingCommit<'_> {
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
        let (notifier, namespace) = (Arc::clone(self.notifier), self.namespace.clone());
        runtime.spawn(async move {
            sleep(LOOK_AFTER).await;
            notifier.note_change(&namespace, true);
            notifier.wake(&namespace, topics.iter().map(String::as_str));
        });
    }
}
