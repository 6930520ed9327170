//! Sends the alerts that this coordinator has claimed, and records how each ended.
//!
//! The due worker hands them over through a bounded queue. What finds no room there, or waits there for too long, is
//! not sent: its claim ends, and a coordinator claims it again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use teamwire_proto::Refusal;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::{
    coordinator::Coordinator,
    domain::alerts::{ClaimedAlert, DueAlerts, message_id},
    sender::Target,
    store::Namespace,
};

/// How many alerts may wait to be sent.
const WAITING_MAX: usize = 256;

/// How many are sent at once.
const AT_ONCE: usize = 16;

/// How long an alert may wait here. Less than its claim lasts beyond the time limit of an attempt.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The pauses between the attempts to record that an alert was delivered: otherwise it would be sent again.
const RECORD_PAUSES: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10)];

/// Where alerts go, by the ids of the rules that they follow.
pub type Targets = BTreeMap<String, Target>;

/// Takes the alerts that are to be sent.
#[derive(Debug)]
pub struct AlertQueue {
    claimed: mpsc::Sender<Claimed>,
    targets: Arc<Targets>,
}

#[derive(Debug)]
struct Claimed {
    namespace: Namespace,
    alert: ClaimedAlert,
    at: Instant,
}

/// Sends the alerts of its queue.
#[derive(Debug)]
pub struct AlertWorker {
    claimed: mpsc::Receiver<Claimed>,
    targets: Arc<Targets>,
}

impl AlertWorker {
    /// Makes a worker and its queue.
    pub fn new(targets: Targets) -> (AlertQueue, Self) {
        let (sender, claimed) = mpsc::channel(WAITING_MAX);
        let targets = Arc::new(targets);
        (AlertQueue { claimed: sender, targets: Arc::clone(&targets) }, Self { claimed, targets })
    }

    /// Sends until cancelled, and then finishes what it is sending.
    pub async fn run(self, coordinator: Arc<Coordinator>, stop: CancellationToken) {
        let claimed = ReceiverStream::new(self.claimed).take_until(stop.cancelled());
        claimed.for_each_concurrent(AT_ONCE, |claimed| deliver(&coordinator, &self.targets, claimed)).await;
    }
}

impl AlertQueue {
    /// Claims the alerts that are due in a team, and adds them. Returns when the next one will be due. `None` means never.
    pub(super) async fn claim(
        &self,
        coordinator: &Coordinator,
        namespace: &Namespace,
    ) -> Result<Option<Duration>, Refusal> {
        let DueAlerts { claimed, given_up, next_ms } = coordinator.claim_alerts(namespace).await?;
        for (alert, error) in given_up {
            if let Some(target) = self.targets.get(&alert.rule) {
                let (team, id) = (namespace.as_str(), message_id(alert.id));
                tracing::error!(
                    team, kind = alert.kind, %id, to = %target, error,
                    "a notification was not delivered within a day, so it is given up"
                );
                coordinator.metrics().notified(target.kind(), "given_up");
            }
        }
        for alert in claimed {
            let claimed = Claimed { namespace: namespace.clone(), alert, at: Instant::now() };
            if self.claimed.try_send(claimed).is_err() {
                tracing::debug!(?namespace, "too many notifications wait to be sent; this one is claimed again later");
            }
        }
        Ok(next_ms.map(Duration::from_millis))
    }
}

async fn deliver(coordinator: &Coordinator, targets: &Targets, claimed: Claimed) {
    let Claimed { namespace, alert, at } = claimed;
    let (Some(rule), Some(target)) = (coordinator.alert_rule(&alert.rule), targets.get(&alert.rule)) else { return };
    if at.elapsed() > WAIT_MAX {
        return;
    }
    let (team, id) = (namespace.as_str(), message_id(alert.id));
    let sent = target.send(&id, &alert.body, rule.timeout).await;
    let error = sent.as_ref().err().map(ToString::to_string);
    coordinator.metrics().notified(target.kind(), if error.is_none() { "delivered" } else { "failed" });
    match &error {
        None => tracing::info!(team, kind = alert.kind, %id, to = %target, "a notification was delivered"),
        Some(error) => tracing::warn!(
            team, kind = alert.kind, %id, to = %target, attempt = alert.attempt, error,
            "a notification was not delivered; it is tried again for a day"
        ),
    }
    for pause in RECORD_PAUSES {
        match coordinator.settle_alert(&namespace, &alert, error.as_deref()).await {
            Ok(()) => return,
            Err(refusal) => tracing::debug!(team, %id, %refusal, "the outcome could not be recorded yet"),
        }
        tokio::time::sleep(pause).await;
    }
    tracing::warn!(team, %id, "the store did not record whether a notification was delivered, so it may be sent again");
}
