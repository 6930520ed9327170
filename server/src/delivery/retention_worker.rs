//! Visits every team now and then, to forget what may be forgotten and to tell of what nobody processes. Any number of
//! coordinators may do so side by side.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::coordinator::Coordinator;

/// How long to rest between two teams, so that a round over many of them is no burst.
const REST: Duration = Duration::from_millis(20);

/// Visits all teams, again and again until cancelled. A fifth more or less than the interval lies between two rounds, so
/// that coordinators which were started together do not go on together.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let interval = coordinator.limits().tidy_interval;
    let pause = || tokio::time::sleep(interval.mul_f64(rand::random_range(0.8..1.2)));
    while stop.run_until_cancelled(pause()).await.is_some() {
        // What cannot be done now is done in the next round.
        let Ok(namespaces) = coordinator.all_namespaces().await else { continue };
        for namespace in namespaces {
            if stop.run_until_cancelled(tokio::time::sleep(REST)).await.is_none() {
                return;
            }
            if let Err(refusal) = coordinator.tidy(&namespace).await {
                tracing::debug!(?namespace, %refusal, "what may be forgotten could not be");
            }
        }
    }
}
