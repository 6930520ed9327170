//! Visits teams, to delete what has been kept long enough and to report unprocessed messages: each soon after it has
//! changed, and otherwise rarely. Any number of coordinators may do so concurrently.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::visits::Visits;
use crate::{coordinator::Coordinator, notify::Worker, store::Namespace};

/// How long to pause between two teams, so that a round over many of them is not a burst.
const REST: Duration = Duration::from_millis(20);

/// How many times as long as the interval between rounds a team goes without a visit at most.
const IDLE_FACTOR: u32 = 60;

/// Visits teams in rounds until cancelled. The interval between rounds is jittered by a fifth, so that coordinators that
/// were started together drift apart.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let interval = coordinator.limits().retention_interval;
    let pause = || tokio::time::sleep(interval.mul_f64(rand::random_range(0.8..1.2)));
    let mut visits = Visits::new(interval, interval * IDLE_FACTOR);
    let patience = coordinator.audit_patience().min(interval * IDLE_FACTOR);
    let mut looked_for_old: Option<Instant> = None;
    while stop.run_until_cancelled(pause()).await.is_some() {
        let now = Instant::now();
        // Each team that has changed since the last round is visited in this one.
        let mut changes = coordinator.notifier().take_changes(Worker::Retention);
        changes.due_here.extend(changes.teams.drain());
        visits.learn(changes, now);
        if visits.needs_list(now) {
            // The next round does what fails now.
            let Ok(listed) = coordinator.all_namespaces().await else { continue };
            visits.list(listed, now, now.elapsed());
        }
        if let Err(refusal) = coordinator.trim_sign_ins(&Namespace::directory()).await {
            tracing::debug!(%refusal, "the operator's sign-ins could not be cleaned up");
        }
        let looks_for_old = looked_for_old.is_none_or(|at| at.elapsed() >= patience);
        match coordinator.trim_audit(looks_for_old).await {
            Ok(()) if looks_for_old => looked_for_old = Some(now),
            Ok(()) => {}
            Err(refusal) => tracing::debug!(%refusal, "the audit log could not be trimmed"),
        }
        for namespace in visits.take_ready(now, usize::MAX) {
            if stop.run_until_cancelled(tokio::time::sleep(REST)).await.is_none() {
                return;
            }
            let due = coordinator.delete_old(&namespace).await.unwrap_or_else(|refusal| {
                tracing::debug!(?namespace, %refusal, "a team could not be cleaned up");
                Some(interval)
            });
            visits.rest(&namespace, Instant::now(), due);
        }
    }
}
