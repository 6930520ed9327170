//! The subscription to the notifications of all coordinators.

use std::time::Duration;

use futures::StreamExt;
use redis::aio::PubSub;
use tokio::{
    sync::broadcast,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    keys::{Keys, Published},
    losses::Losses,
    servers::Servers,
};
use crate::store::Notification;

/// How often a quiet subscription is asked whether it is alive.
const PING_EVERY: Duration = Duration::from_secs(5);

/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait after a subscription failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Passes notifications on for as long as it runs. When the subscription is lost it is made again, and since notifications were lost
/// with it, everyone is told to look.
pub(super) async fn listen(
    servers: &Servers,
    channels: &[String],
    losses: &Losses,
    notifications: broadcast::Sender<Notification>,
    first: PubSub,
) {
    let mut subscription = first;
    loop {
        pass_on(subscription, losses, &notifications).await;
        tracing::warn!(?servers, "notifications from the store stopped; subscribing again");
        subscription = loop {
            // Finds out early that the connection for calls is lost as well, so that no caller has to.
            servers.check().await;
            match servers.subscribe(channels).await {
                Ok(subscription) => break subscription,
                Err(_) => sleep(RETRY_AFTER).await,
            }
        };
        tracing::info!(?servers, "notifications from the store come again");
        // It may not have been heard that a namespace was dropped.
        losses.doubt();
        // Nobody listens.
        let _ = notifications.send(Notification::All);
    }
}

async fn pass_on(subscription: PubSub, losses: &Losses, notifications: &broadcast::Sender<Notification>) {
    let (mut sink, mut messages) = subscription.split();
    let mut ticks = interval(PING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => match Keys::published(message.get_payload_bytes()) {
                    Some(Published::Notification(notification)) => {
                        // Nobody listens.
                        let _ = notifications.send(notification);
                    }
                    Some(Published::Dropped(namespace, version)) => losses.dropped(&namespace, version),
                    None => (),
                },
                None => return,
            },
            _ = ticks.tick() => {
                // Messages wait for the answer, which comes after them on the same connection.
                let alive = timeout(PING_TIMEOUT, sink.ping::<redis::Value>()).await;
                if !matches!(alive, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}
