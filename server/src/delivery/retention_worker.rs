//! Visits every team periodically, to delete what has been kept long enough and to report unprocessed messages. Any
//! number of coordinators may do so concurrently.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{coordinator::Coordinator, store::Namespace};

/// How long to pause between two teams, so that a round over many of them is not a burst.
const REST: Duration = Duration::from_millis(20);

/// Visits all teams, periodically until cancelled. The interval between rounds is jittered by a fifth, so that
/// coordinators that were started together drift apart.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let interval = coordinator.limits().retention_interval;
    let pause = || tokio::time::sleep(interval.mul_f64(rand::random_range(0.8..1.2)));
    while stop.run_until_cancelled(pause()).await.is_some() {
        // The next round does what fails now.
        let Ok(namespaces) = coordinator.all_namespaces().await else { continue };
        if let Err(refusal) = coordinator.trim_sign_ins(&Namespace::directory()).await {
            tracing::debug!(%refusal, "the operator's sign-ins could not be cleaned up");
        }
        if let Err(refusal) = coordinator.trim_audit().await {
            tracing::debug!(%refusal, "the audit log could not be trimmed");
        }
        for namespace in namespaces {
            if stop.run_until_cancelled(tokio::time::sleep(REST)).await.is_none() {
                return;
            }
            if let Err(refusal) = coordinator.delete_old(&namespace).await {
                tracing::debug!(?namespace, %refusal, "a team could not be cleaned up");
            }
        }
    }
}
