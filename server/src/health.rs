//! gRPC health: whether this coordinator can do its work, for each service and, as "", overall.
//!
//! It is SERVING while the store answers. That includes a store that refuses writes: members can still read and
//! acknowledge, which makes room, and no other coordinator on that store could do more. It is NOT_SERVING once the
//! store has been silent for [`SILENCE_MAX`], until the store answers again; and as soon as the coordinator drains.
//!
//! The service [`WRITES`] tells whether the store takes writes, too.
//!
//! [`probes`] answers the same on a separate listener, for probes that do not speak TLS.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic_health::{
    ServingStatus,
    server::{HealthReporter, health_reporter},
};

use crate::{
    edge::{Bounds, PublicListener},
    store::{Store, StoreError},
    telemetry::Metrics,
};

/// How often the store is queried.
const EVERY: Duration = Duration::from_secs(1);

/// How long to wait for an answer before judging the silence. The query continues.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the store may be silent.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);

/// How many times in a row the store must refuse a write before that is reported, except at startup: a single refusal
/// is normal while another server takes over.
const REFUSALS_MIN: u32 = 2;

/// The service that tells whether the process runs: SERVING as long as it does. Liveness probes use it; a coordinator
/// whose store is unavailable needs no restart.
pub const LIVE: &str = "live";

/// The service that tells whether the store takes writes. NOT_SERVING: members can read and acknowledge, but not send.
pub const WRITES: &str = "writes";

/// How many probes may be open on a connection, and how long one may take. A prober needs only one at a time.
const PROBES_MAX: u32 = 8;
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers health checks, and nothing else, on a listener without TLS until cancelled. Returns the reporter that sets
/// the answers.
pub fn probes(listener: TcpListener, stop: CancellationToken) -> (HealthReporter, impl Future<Output = ()>) {
    let (reporter, service) = health_reporter();
    let live = reporter.clone();
    let bounds = Bounds { streams_max: PROBES_MAX, ..Bounds::default() };
    let serve = async move {
        live.set_service_status(LIVE, ServingStatus::Serving).await;
        let server = bounds.server().timeout(PROBE_TIMEOUT).add_service(service);
        let server = server.serve_with_incoming(PublicListener::new(listener).incoming());
        if let Some(Err(error)) = stop.run_until_cancelled(server).await {
            tracing::error!(%error, "health checks are no longer answered");
        }
    };
    (reporter, serve)
}

/// Keeps the health of services up to date until the coordinator drains. The first reporter is that of the protocol's
/// listener, which closes with the drain.
pub async fn run(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    mut reporters: Vec<HealthReporter>,
    services: &[&str],
    draining: CancellationToken,
) {
    metrics.store_up.set(1);
    metrics.store_writable.set(1);
    report(&reporters, services, ServingStatus::Serving).await;
    report(&reporters, &[WRITES], ServingStatus::Serving).await;
    draining.run_until_cancelled(follow(&store, &metrics, &reporters, services)).await;
    report(&reporters, services, ServingStatus::NotServing).await;
    // Watchers get this status, then their streams end: an open stream would keep the coordinator from exiting.
    if let Some(reporter) = reporters.first_mut() {
        for service in services.iter().chain([&WRITES]) {
            reporter.clear_service_status(service).await;
        }
    }
}

/// What the store answers to a query.
type Answer = Result<Result<(), StoreError>, StoreError>;

/// Queries the store, and checks whether it takes writes.
async fn ask(store: Arc<dyn Store>) -> Answer {
    store.now_ms().await?;
    Ok(store.check_writable().await)
}

/// Queries the store periodically.
async fn follow(store: &Arc<dyn Store>, metrics: &Metrics, reporters: &[HealthReporter], services: &[&str]) {
    // A sum, so that a pause of this coordinator counts as one round at most.
    let mut silence = Duration::ZERO;
    let mut looked = Instant::now();
    let mut is_up = true;
    let mut writes = Writes { is_taken: true, refusals: REFUSALS_MIN - 1 };
    // On a separate task: a query that is no longer polled could hold what others wait for.
    let mut asked: Option<JoinHandle<Answer>> = None;
    loop {
        let question = asked.get_or_insert_with(|| tokio::spawn(ask(Arc::clone(store))));
        let answer = timeout(PATIENCE, question).await;
        if answer.is_ok() {
            asked = None;
        }
        silence = match answer {
            Ok(Ok(Ok(written))) => {
                writes.note(written, metrics, reporters).await;
                Duration::ZERO
            }
            _ => silence + looked.elapsed().min(PATIENCE + EVERY),
        };
        looked = Instant::now();
        let is_up_now = silence < SILENCE_MAX;
        if is_up_now != is_up {
            is_up = is_up_now;
            metrics.store_up.set(is_up.into());
            if is_up {
                tracing::info!("the store answers again");
                report(reporters, services, ServingStatus::Serving).await;
            } else {
                tracing::warn!("the store does not answer");
                report(reporters, services, ServingStatus::NotServing).await;
            }
        }
        sleep(EVERY).await;
    }
}

/// Whether the store takes writes.
struct Writes {
    is_taken: bool,
    /// How many times in a row it has refused one.
    refusals: u32,
}

impl Writes {
    /// Records the outcome of a check, and reports what has changed.
    async fn note(&mut self, written: Result<(), StoreError>, metrics: &Metrics, reporters: &[HealthReporter]) {
        self.refusals = if written.is_ok() { 0 } else { self.refusals + 1 };
        let status = match written {
            Ok(()) if !self.is_taken => {
                tracing::info!("the store takes writes again");
                ServingStatus::Serving
            }
            Err(error) if self.is_taken && self.refusals >= REFUSALS_MIN => {
                tracing::error!(
                    %error,
                    "the store refuses writes: members can still read, and acknowledge if it is full, but not send"
                );
                ServingStatus::NotServing
            }
            _ => return,
        };
        self.is_taken = status == ServingStatus::Serving;
        metrics.store_writable.set(self.is_taken.into());
        report(reporters, &[WRITES], status).await;
    }
}

async fn report(reporters: &[HealthReporter], services: &[&str], status: ServingStatus) {
    for reporter in reporters {
        for service in services {
            reporter.set_service_status(service, status).await;
        }
    }
}
