//! Looks after what is due when time passes, in every team. Any number of coordinators may do so side by side: each
//! change is made once, by whoever commits first.
//!
//! A coordinator that was away itself (paused, or cut off from the store) must not take others for lost: it first renews
//! the leases of the sessions that it holds, and waits as long as a lease lasts before it declares anyone lost.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::lease::SignsOfLife;
use crate::{coordinator::Coordinator, store::Space};

/// How often the sweep wakes.
const TICK: Duration = Duration::from_millis(250);

/// How often each team is looked at, if nothing calls for more.
const EACH: Duration = Duration::from_secs(2);

/// How often the list of teams is read.
const LIST: Duration = Duration::from_secs(10);

/// A tick this late means that this coordinator was away.
const AWAY: Duration = Duration::from_secs(5);

/// Sweeps until cancelled.
pub async fn run(coordinator: Arc<Coordinator>, signs: Arc<SignsOfLife>, stop: CancellationToken) {
    let mut due: HashMap<Space, Instant> = HashMap::new();
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
            signs.hear_of_all(&coordinator);
            lose_from = Instant::now() + patience;
        }
        for space in coordinator.hub().take_changed() {
            due.insert(space, Instant::now());
        }
        if list_at <= Instant::now() {
            match list(&coordinator, &mut due).await {
                Ok(()) => list_at = Instant::now() + LIST,
                Err(()) => lose_from = Instant::now() + patience,
            }
        }
        let now = Instant::now();
        let ready: Vec<Space> = due.iter().filter(|(_, at)| **at <= now).map(|(space, _)| space.clone()).collect();
        for space in ready {
            let may_lose = Instant::now() >= lose_from;
            if sweep(&coordinator, &space, may_lose).await.is_err() {
                lose_from = Instant::now() + patience;
                break;
            }
            due.insert(space, Instant::now() + EACH.mul_f64(rand::random_range(0.8..1.2)));
        }
        // What took long here was the store, not a pause of this coordinator.
        ticked = Instant::now();
    }
}

async fn list(coordinator: &Coordinator, due: &mut HashMap<Space, Instant>) -> Result<(), ()> {
    let listed = coordinator.all_spaces().await.map_err(drop)?;
    let before = std::mem::take(due);
    let now = Instant::now();
    due.extend(listed.into_iter().map(|space| {
        let at = before.get(&space).copied().unwrap_or(now);
        (space, at)
    }));
    Ok(())
}

async fn sweep(coordinator: &Coordinator, space: &Space, may_lose: bool) -> Result<(), ()> {
    let leases = match coordinator.store().leases(space).await {
        Ok(leases) => leases,
        Err(error) => {
            tracing::debug!(?space, %error, "leases could not be read");
            return Err(());
        }
    };
    if let Err(refusal) = coordinator.sweep(space, &leases, may_lose).await {
        tracing::debug!(?space, %refusal, "what is due could not be done");
    }
    Ok(())
}
