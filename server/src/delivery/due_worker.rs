//! Carries out what is due when time passes, in every team, and claims the alerts that are due. Any number of coordinators may do so concurrently: the one
//! that commits first makes each change, once.
//!
//! A coordinator that was away itself (paused, or cut off from the store) must not declare others lost: it first renews
//! the leases of its sessions, and declares no member lost for the length of a lease and its grace. It does the same
//! when the store's clock has jumped ahead of this machine's, because someone set it or both machines were suspended.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{alert_worker::AlertQueue, gauges::Gauges, heartbeats::Heartbeats};
use crate::{
    coordinator::Coordinator,
    store::{Leases, Namespace},
};

/// How often the worker wakes.
const TICK: Duration = Duration::from_millis(250);

/// How soon each team is visited again, at the earliest and at the latest: another coordinator may have made something
/// due and died.
const EACH_MIN: Duration = Duration::from_millis(500);
const EACH_MAX: Duration = Duration::from_secs(30);

/// How many teams are visited at once.
const AT_ONCE: usize = 16;

/// The shortest and the longest pause between two readings of the list of teams.
const LIST: Duration = Duration::from_secs(10);
const LIST_MAX: Duration = Duration::from_secs(60);

/// How many times as long as a reading of the list the pause after it is at least.
const LIST_PAUSE_FACTOR: u32 = 50;

/// A tick this late means that this coordinator was away. The store's clock this far ahead means that it was set.
const AWAY: Duration = Duration::from_secs(5);

/// Visits teams until cancelled.
pub async fn run(
    coordinator: Arc<Coordinator>,
    heartbeats: Arc<Heartbeats>,
    alerts: AlertQueue,
    stop: CancellationToken,
) {
    let mut due: HashMap<Namespace, Instant> = HashMap::new();
    let mut clocks = Clocks::default();
    let mut gauges = Gauges::default();
    let mut list_at = Instant::now();
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
        for namespace in coordinator.notifier().take_changed() {
            due.insert(namespace, Instant::now());
        }
        if list_at <= Instant::now() {
            let began = Instant::now();
            match list(&coordinator, &mut due).await {
                Ok(()) => {
                    list_at = Instant::now() + (began.elapsed() * LIST_PAUSE_FACTOR).clamp(LIST, LIST_MAX);
                    clocks.0.retain(|namespace, _| due.contains_key(namespace));
                }
                Err(()) => lose_from = Instant::now() + patience,
            }
        }
        let now = Instant::now();
        let ready: Vec<Namespace> =
            due.iter().filter(|(_, at)| **at <= now).map(|(namespace, _)| namespace.clone()).collect();
        for together in ready.chunks(AT_ONCE) {
            let reads = together
                .iter()
                .map(async |namespace| (namespace, leases(&coordinator, namespace).await, Instant::now()));
            let mut answered = Vec::with_capacity(together.len());
            for (namespace, leases, at) in join_all(reads).await {
                let Ok(leases) = leases else {
                    // One that cannot be read keeps no other from its turn.
                    lose_from = Instant::now() + patience;
                    due.insert(namespace.clone(), Instant::now() + EACH_MIN);
                    continue;
                };
                if clocks.has_jumped(namespace, leases.now_ms, at) {
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
            let visits = answered.iter().map(async |(namespace, leases)| {
                let rest = visit(&coordinator, &alerts, namespace, leases, may_lose).await;
                (*namespace, rest, gauges.count(&coordinator, namespace).await)
            });
            for (namespace, rest, counted) in join_all(visits).await {
                gauges.keep(namespace, counted);
                let pause = rest.unwrap_or(EACH_MAX).clamp(EACH_MIN, EACH_MAX);
                // At different times than other coordinators, and never later than something is due.
                due.insert(namespace.clone(), Instant::now() + pause.mul_f64(rand::random_range(0.8..1.0)));
            }
        }
        gauges.publish(coordinator.metrics(), |namespace| due.contains_key(namespace));
        // The store took this long; the coordinator did not pause.
        ticked = Instant::now();
    }
}

async fn list(coordinator: &Coordinator, due: &mut HashMap<Namespace, Instant>) -> Result<(), ()> {
    let listed = coordinator.all_namespaces().await.map_err(drop)?;
    let before = std::mem::take(due);
    let now = Instant::now();
    due.extend(listed.into_iter().map(|namespace| {
        let at = before.get(&namespace).copied().unwrap_or(now);
        (namespace, at)
    }));
    Ok(())
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

/// The store's latest time for each team, and when it was read. A cluster has more than one clock.
#[derive(Default)]
struct Clocks(HashMap<Namespace, (u64, Instant)>);

impl Clocks {
    /// Records the time, and returns whether it has advanced much more than this machine's clock since the last call.
    fn has_jumped(&mut self, namespace: &Namespace, now_ms: u64, at: Instant) -> bool {
        let Some((before_ms, before)) = self.0.insert(namespace.clone(), (now_ms, at)) else { return false };
        Duration::from_millis(now_ms.saturating_sub(before_ms)) > at.duration_since(before) + AWAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by the fault `clock-forward`: members whose leases had run out only by the new time were declared lost.
    #[test]
    fn only_a_clock_that_jumps_ahead_is_noticed() {
        let (mut clocks, namespace, began) = (Clocks::default(), Namespace::directory(), Instant::now());
        let mut jumped = |ms, s| clocks.has_jumped(&namespace, ms, began + Duration::from_secs(s));
        assert!(!jumped(1_000_000, 0), "there is nothing to compare with yet");
        assert!(!jumped(1_030_500, 30));
        assert!(!jumped(1_030_500, 40), "it stands still");
        assert!(!jumped(1_020_000, 50), "it was set back");
        assert!(jumped(4_630_000, 60));
        assert!(!jumped(4_640_000, 70), "once");
    }
}
