//! What to do when the store has lost acknowledged commits: notify the team, and restart its sessions at what is left.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::{coordinator::Coordinator, notify::Work};

/// Reports losses until cancelled, or until the store can lose nothing more.
pub async fn run(coordinator: Arc<Coordinator>, stop: CancellationToken) {
    let mut losses = coordinator.store().losses();
    while let Some(loss) = stop.run_until_cancelled(losses.recv()).await {
        let loss = match loss {
            Ok(loss) => loss,
            Err(RecvError::Lagged(missed)) => {
                tracing::error!(missed, "the store has lost commits of more teams than could be reported");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        coordinator.metrics().lost_writes.inc();
        // Sequences are reused: a session that is ahead of its inbox would skip the next messages.
        for session in coordinator.notifier().sessions_of(&loss.namespace) {
            session.request(Work::Restart);
        }
        let (coordinator, stop) = (Arc::clone(&coordinator), stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(report(&coordinator, &loss)).await });
    }
}

/// Notifies the team, as soon as the store accepts it.
async fn report(coordinator: &Coordinator, loss: &crate::store::Loss) {
    for _ in 0..60 {
        match coordinator.report_loss(loss).await {
            Ok(()) => return,
            Err(refusal) => {
                tracing::debug!(namespace = ?loss.namespace, %refusal, "the team could not be notified of a loss yet")
            }
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    tracing::error!(namespace = ?loss.namespace, "the team could not be notified of a loss");
}
