//! Checks periodically whether sessions have missed a notification, or an acknowledgement through another coordinator. One
//! read of the store serves all sessions of a team, and only sessions that have missed something are woken.

use std::{cmp::Ordering, collections::HashMap, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{coordinator::Coordinator, notify::Mailbox, store::Namespace};

/// How often each team with sessions is checked; jittered by a quarter.
const EACH: Duration = Duration::from_millis(1_500);

/// How many teams are checked per second at most. If there are more, each is checked less often.
const TEAMS_PER_SECOND: f64 = 500.0;

/// Checks all teams with sessions, periodically until cancelled.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let looks = async {
        loop {
            let teams = by_team(coordinator.notifier().sessions());
            let round = EACH.max(Duration::from_secs_f64(teams.len() as f64 / TEAMS_PER_SECOND));
            let began = Instant::now();
            let count = u32::try_from(teams.len()).unwrap_or(u32::MAX);
            // Spread over the round, so that the checks never come in a burst.
            for (place, (namespace, sessions)) in (0..).zip(teams) {
                sleep_until(began + round * place / count.max(1)).await;
                look(&coordinator, &namespace, &sessions).await;
            }
            sleep_until(began + round.mul_f64(rand::random_range(0.75..1.25))).await;
        }
    };
    stop.run_until_cancelled(looks).await;
}

fn by_team(sessions: Vec<Arc<Mailbox>>) -> HashMap<Namespace, Vec<Arc<Mailbox>>> {
    let mut teams: HashMap<Namespace, Vec<Arc<Mailbox>>> = HashMap::new();
    for session in sessions {
        teams.entry(session.namespace.clone()).or_default().push(session);
    }
    teams
}

async fn look(coordinator: &Coordinator, namespace: &Namespace, sessions: &[Arc<Mailbox>]) {
    let members: Vec<_> = sessions.iter().map(|session| &session.member).collect();
    // Read this first: what a session handles meanwhile must not make it seem ahead of its inbox.
    let seen: Vec<(u64, u64)> =
        sessions.iter().map(|session| (session.seen_next(), session.outstanding().messages)).collect();
    let places = match coordinator.session_places(namespace, &members).await {
        Ok(places) => places,
        // Sessions that need the store retry on their own; the others can wait for the next check.
        Err(refusal) => {
            tracing::debug!(?namespace, %refusal, "sessions could not be checked");
            return;
        }
    };
    for ((session, (seen, outstanding)), (inbox, record)) in sessions.iter().zip(seen).zip(places) {
        // The inbox holds less than the session has delivered and not seen acknowledged, and what it has not seen yet.
        if outstanding > 0 && inbox.entries < outstanding + inbox.next.saturating_sub(seen) {
            session.recount();
        }
        match inbox.next.cmp(&seen) {
            Ordering::Greater => {
                session.look();
                // Among what it has not seen may be a shutdown request, for which only a check makes it look.
                session.check();
            }
            Ordering::Equal => {}
            // The store has lost acknowledged commits.
            Ordering::Less => session.begin_again(),
        }
        let holds = record.is_some_and(|record| record.session_id == session.session_id && record.ended.is_none());
        if !holds {
            session.check();
        }
    }
}
