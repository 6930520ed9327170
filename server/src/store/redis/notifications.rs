//! The subscription to all coordinators' notifications.

use std::time::Duration;

use futures::StreamExt;
use redis::aio::PubSub;
use tokio::{
    sync::broadcast,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    data_loss::LossDetector,
    keys::{Keys, Published},
    topology::Topology,
};
use crate::store::Notification;

/// The interval at which the subscription is pinged.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How long a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed attempt to subscribe.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Forwards notifications, forever. Renews a lost subscription, and then sends [`Notification::All`], because
/// notifications were lost with it.
pub(super) async fn listen(
    topology: &Topology,
    channels: &[String],
    loss_detector: &LossDetector,
    notifications: broadcast::Sender<Notification>,
    first: PubSub,
) {
    let mut subscription = first;
    loop {
        forward(subscription, loss_detector, &notifications).await;
        tracing::warn!(?topology, "notifications from the store stopped; subscribing again");
        subscription = loop {
            // The connection for calls is probably lost too. Find out now, so that no caller has to.
            topology.check().await;
            match topology.subscribe(channels).await {
                Ok(subscription) => break subscription,
                Err(_) => sleep(RETRY_AFTER).await,
            }
        };
        tracing::info!(?topology, "notifications from the store resumed");
        // The message that a namespace was dropped may be among the lost ones.
        loss_detector.recheck();
        // There may be no receivers.
        let _ = notifications.send(Notification::All);
    }
}

async fn forward(subscription: PubSub, loss_detector: &LossDetector, notifications: &broadcast::Sender<Notification>) {
    let (mut sink, mut messages) = subscription.split();
    let mut ticks = interval(PING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => match Keys::published(message.get_payload_bytes()) {
                    Some(Published::Notification(notification)) => {
                        // There may be no receivers.
                        let _ = notifications.send(notification);
                    }
                    Some(Published::Dropped(namespace, version)) => loss_detector.record_drop(&namespace, version),
                    None => (),
                },
                None => return,
            },
            _ = ticks.tick() => {
                // Forwarding pauses until the answer, which follows any pending messages on this connection.
                let alive = timeout(PING_TIMEOUT, sink.ping::<redis::Value>()).await;
                if !matches!(alive, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}
