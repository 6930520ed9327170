//! Carries out what is due when time passes, in every team, and claims the alerts that are due. Any number of
//! coordinators may do so concurrently: the one that commits first makes each change, once.
//!
//! A coordinator that was away itself (paused, or cut off from the store) must not declare others lost: it first renews
//! the leases of its sessions, and declares no member lost for the length of a lease and its grace. It does the same
//! when the store's clock has jumped ahead of this machine's, because someone set it or both machines were suspended.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    alert_worker::AlertQueue,
    gauges::Gauges,
    heartbeats::Heartbeats,
    visits::{AWAY, EACH_MIN, Visits},
};
use crate::{
    coordinator::Coordinator,
    notify::Worker,
    store::{Leases, Namespace},
};

/// How often the worker wakes.
const TICK: Duration = Duration::from_millis(250);

/// How soon a team is visited again after a change: another coordinator may have made something due and died.
const EACH_MAX: Duration = Duration::from_secs(30);

/// How long a team goes without a visit at most.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// How many teams are visited at once.
const AT_ONCE: usize = 16;

/// Visits teams until cancelled.
pub async fn run(
    coordinator: Arc<Coordinator>,
    heartbeats: Arc<Heartbeats>,
    alerts: AlertQueue,
    stop: CancellationToken,
) {
    let mut visits = Visits::new(EACH_MAX, IDLE_MAX);
    let mut gauges = Gauges::default();
    let mut ticked = Instant::now();
    let patience = coordinator.limits().lease_ttl + coordinator.limits().lost_grace;
    let mut lose_from = Instant::now() + patience;
    while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
        if ticked.elapsed() > AWAY {
            tracing::info!(
                for_s = ticked.elapsed().as_secs(),
                "this coordinator was away; renewing the leases it holds"
            );
            heartbeats.record_open_sessions(&coordinator);
            lose_from = Instant::now() + patience;
        }
        let now = Instant::now();
        visits.learn(coordinator.notifier().take_changes(Worker::Due), now);
        if visits.needs_list(now) {
            match coordinator.all_namespaces().await {
                Ok(listed) => {
                    visits.list(listed, now, now.elapsed());
                    gauges.retain(coordinator.metrics(), |namespace| visits.has(namespace));
                }
                Err(_) => lose_from = Instant::now() + patience,
            }
        }
        let now = Instant::now();
        loop {
            let together = visits.take_ready(now, AT_ONCE);
            if together.is_empty() {
                break;
            }
            let reads = together
                .iter()
                .map(async |namespace| (namespace, leases(&coordinator, namespace).await, Instant::now()));
            let mut answered = Vec::with_capacity(together.len());
            for (namespace, leases, at) in join_all(reads).await {
                let Ok(leases) = leases else {
                    // One that cannot be read keeps no other from its turn.
                    lose_from = Instant::now() + patience;
                    visits.rest(namespace, Instant::now(), Some(EACH_MIN));
                    continue;
                };
                if visits.has_jumped(namespace, leases.now_ms, at) {
                    tracing::info!(
                        ?namespace,
                        "the store's clock was set ahead; renewing the leases of the sessions here"
                    );
                    heartbeats.record_open_sessions(&coordinator);
                    lose_from = Instant::now() + patience;
                }
                answered.push((namespace, leases));
            }
            if answered.is_empty() {
                // The store does not answer: no timeout for each of the other teams.
                break;
            }
            let may_lose = Instant::now() >= lose_from;
            let visited = answered.iter().map(async |(namespace, leases)| {
                let due = visit(&coordinator, &alerts, namespace, leases, may_lose).await;
                (*namespace, due, gauges.count(&coordinator, namespace).await)
            });
            for (namespace, due, counted) in join_all(visited).await {
                gauges.keep(namespace, counted);
                visits.rest(namespace, Instant::now(), due);
            }
        }
        gauges.publish(coordinator.metrics());
        // The store took this long; the coordinator did not pause.
        ticked = Instant::now();
    }
}

async fn leases(coordinator: &Coordinator, namespace: &Namespace) -> Result<Leases, ()> {
    coordinator
        .store()
        .leases(namespace)
        .await
        .map_err(|error| tracing::debug!(?namespace, %error, "leases could not be read"))
}

/// Returns when something will be due next in a team. `None` means never.
async fn visit(
    coordinator: &Coordinator,
    alerts: &AlertQueue,
    namespace: &Namespace,
    leases: &Leases,
    may_lose: bool,
) -> Option<Duration> {
    let done = coordinator.carry_out_due(namespace, leases, may_lose).await;
    // After what is due: a request that has just expired waits for no person.
    let claimed = alerts.claim(coordinator, namespace).await;
    let rest = [done, claimed].map(|rest| {
        rest.unwrap_or_else(|refusal| {
            tracing::debug!(?namespace, %refusal, "what is due could not be carried out");
            Some(EACH_MIN)
        })
    });
    rest.into_iter().flatten().min()
}
