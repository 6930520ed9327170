//! Checks periodically whether sessions have missed a notification, or an acknowledgement through another coordinator.
//! If nothing has changed in a team since all of its sessions were up to date, this takes one number from the store.
//! Otherwise two reads serve all its sessions that are not up to date, and only those that have missed something are
//! woken.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use teamwire_proto::Refusal;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{coordinator::Coordinator, notify::Work, store::Namespace};

/// How often each team with sessions is checked; jittered by a quarter.
const EACH: Duration = Duration::from_millis(1_500);

/// How many teams are checked per second at most. If there are more, each is checked less often.
const TEAMS_PER_SECOND: f64 = 500.0;

/// Checks all teams with sessions, periodically until cancelled.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let looks = async {
        loop {
            let teams = coordinator.notifier().with_sessions();
            let round = EACH.max(Duration::from_secs_f64(teams.len() as f64 / TEAMS_PER_SECOND));
            let began = Instant::now();
            let count = u32::try_from(teams.len()).unwrap_or(u32::MAX);
            // Spread over the round, so that the checks never come in a burst.
            for (place, namespace) in (0..).zip(teams) {
                sleep_until(began + round * place / count.max(1)).await;
                if let Err(refusal) = look(&coordinator, &namespace).await {
                    // Sessions that need the store retry on their own; the others can wait for the next check.
                    tracing::debug!(?namespace, %refusal, "sessions could not be checked");
                }
            }
            sleep_until(began + round.mul_f64(rand::random_range(0.75..1.25))).await;
        }
    };
    stop.run_until_cancelled(looks).await;
}

async fn look(coordinator: &Coordinator, namespace: &Namespace) -> Result<(), Refusal> {
    // Read this first: what happens meanwhile makes the next look find another version.
    let version = coordinator.team_version(namespace).await?;
    let sessions = coordinator.notifier().sessions_behind(namespace, version);
    if sessions.is_empty() {
        return Ok(());
    }
    let members: Vec<_> = sessions.iter().map(|session| &session.member).collect();
    // Read this before the store: what a session handles meanwhile must not make it seem ahead of its inbox.
    let seen: Vec<(u64, u64)> =
        sessions.iter().map(|session| (session.seen_next(), session.outstanding().messages)).collect();
    let places = coordinator.session_places(namespace, &members).await?;
    for ((session, (seen, outstanding)), (inbox, record)) in sessions.iter().zip(seen).zip(places) {
        // The inbox holds less than the session has delivered and not seen acknowledged, and what it has not seen yet.
        let misses_acknowledgements = outstanding > 0 && inbox.entries < outstanding + inbox.next.saturating_sub(seen);
        if misses_acknowledgements {
            session.request(Work::Recount);
        }
        let order = inbox.next.cmp(&seen);
        match order {
            Ordering::Greater => {
                session.request(Work::Reread);
                // Among what it has not seen may be a shutdown request, for which it looks only when it verifies.
                session.request(Work::Verify);
            }
            Ordering::Equal => {}
            // The store has lost acknowledged commits.
            Ordering::Less => session.request(Work::Restart),
        }
        let holds = record.is_some_and(|record| record.session_id == session.session_id && record.ended.is_none());
        if !holds {
            session.request(Work::Verify);
        }
        // An empty namespace has version 0, each time that it is empty.
        if holds && !misses_acknowledgements && order.is_eq() && version > 0 {
            session.set_up_to_date_at(version);
        }
    }
    Ok(())
}
