//! gRPC health: whether this coordinator can do its work, for each service and, as "", overall.
//!
//! It is SERVING while the store answers. A store that answers but takes no writes does not change that: reading and
//! acknowledging, which makes room, go on, and no other coordinator on that store could do more. It is NOT_SERVING when
//! the store was silent for [`SILENCE_MAX`], until it answers again, and as soon as the coordinator drains.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    store::{Store, StoreError},
    telemetry::Metrics,
};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(1);

/// How long an answer is waited for before the silence is looked at. The question stays under way.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the store may be silent.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Keeps the health of some services up to date until the coordinator drains.
pub async fn run(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    mut reporter: HealthReporter,
    services: &[&str],
    draining: CancellationToken,
) {
    metrics.store_up.set(1);
    report(&reporter, services, ServingStatus::Serving).await;
    draining.run_until_cancelled(follow(&store, &metrics, &reporter, services)).await;
    report(&reporter, services, ServingStatus::NotServing).await;
    // Whoever watches is told, and then let go: an open stream would keep the coordinator from ending.
    for service in services {
        reporter.clear_service_status(service).await;
    }
}

/// Asks the store again and again.
async fn follow(store: &Arc<dyn Store>, metrics: &Metrics, reporter: &HealthReporter, services: &[&str]) {
    // Summed up, so that a pause of this coordinator itself counts for one round at the most.
    let mut silence = Duration::ZERO;
    let mut looked = Instant::now();
    let mut is_up = true;
    // On a task of its own: a question that is put aside half way may hold what others wait for.
    let mut asked: Option<JoinHandle<Result<u64, StoreError>>> = None;
    loop {
        let question = asked.get_or_insert_with(|| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.now_ms().await })
        });
        let answer = timeout(PATIENCE, question).await;
        if answer.is_ok() {
            asked = None;
        }
        silence = match answer {
            Ok(Ok(Ok(_))) => Duration::ZERO,
            _ => silence + looked.elapsed().min(PATIENCE + EVERY),
        };
        looked = Instant::now();
        let is_up_now = silence < SILENCE_MAX;
        if is_up_now != is_up {
            is_up = is_up_now;
            metrics.store_up.set(is_up.into());
            if is_up {
                tracing::info!("the store answers again");
                report(reporter, services, ServingStatus::Serving).await;
            } else {
                tracing::warn!("the store does not answer");
                report(reporter, services, ServingStatus::NotServing).await;
            }
        }
        sleep(EVERY).await;
    }
}

async fn report(reporter: &HealthReporter, services: &[&str], status: ServingStatus) {
    for service in services {
        reporter.set_service_status(service, status).await;
    }
}
