//! The queue between a subscription's reader and the application.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use teamwire_proto::v1::{self, message::Body};
use tokio::sync::Notify;

use super::{Delivery, Event};
use crate::Error;

/// The most messages that wait for the application. A session has at most 64 unacknowledged ones. While the queue is full,
/// the stream is not read, so that the coordinator waits.
const DELIVERIES_MAX: usize = 256;

/// A queue with priorities: the end of the subscription, then the latest change of its connection, then shutdown
/// requests, then the other messages in order.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Notified when there is something to take.
    filled: Notify,
    /// Notified when there is room.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    end: Option<Result<Event, Error>>,
    is_over: bool,
    /// The last time that the session opened or was lost. Only the latest is kept.
    link: Option<Event>,
    urgent: VecDeque<Delivery>,
    deliveries: VecDeque<Delivery>,
}

impl Inbox {
    /// Waits for room, and adds a message.
    pub(super) async fn put(&self, delivery: Delivery) {
        loop {
            {
                let mut state = self.state();
                if state.urgent.len() + state.deliveries.len() < DELIVERIES_MAX {
                    match delivery.message.body {
                        Some(Body::ShutdownRequest(_)) => state.urgent.push_back(delivery),
                        _ => state.deliveries.push_back(delivery),
                    }
                    break;
                }
            }
            self.emptied.notified().await;
        }
        self.filled.notify_one();
    }

    pub(super) fn opened(&self, opened: v1::SessionOpened) {
        self.state().link = Some(Event::Opened(opened));
        self.filled.notify_one();
    }

    pub(super) fn lost(&self, detail: String) {
        self.state().link = Some(Event::Lost { detail });
        self.filled.notify_one();
    }

    /// Adds the end. Messages that the application has not taken stay in the coordinator's inbox.
    pub(super) fn end(&self, end: Result<Event, Error>) {
        self.state().end = Some(end);
        self.filled.notify_one();
    }

    /// Waits for the next event and takes it. None: the end was taken before. Cancel-safe.
    pub(super) async fn take(&self) -> Option<Result<Event, Error>> {
        loop {
            if let Some(taken) = self.take_now() {
                return taken;
            }
            self.filled.notified().await;
        }
    }

    fn take_now(&self) -> Option<Option<Result<Event, Error>>> {
        let mut state = self.state();
        if state.is_over {
            return Some(None);
        }
        if let Some(end) = state.end.take() {
            state.is_over = true;
            return Some(Some(end));
        }
        if let Some(link) = state.link.take() {
            return Some(Some(Ok(link)));
        }
        let delivery = state.urgent.pop_front().or_else(|| state.deliveries.pop_front())?;
        self.emptied.notify_one();
        Some(Some(Ok(Event::Delivery(Box::new(delivery)))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::{
        super::{Acks, Closed},
        *,
    };

    fn delivery(id: &str, body: Body) -> Delivery {
        let message = v1::Message { id: id.to_owned(), body: Some(body), ..Default::default() };
        Delivery { message, sequence: 0, delivery_count: 1, acks: Acks::new() }
    }

    fn direct(id: &str) -> Delivery {
        delivery(id, Body::Message(v1::DirectMessage::default()))
    }

    fn shutdown(id: &str) -> Delivery {
        delivery(id, Body::ShutdownRequest(v1::ShutdownRequest::default()))
    }

    async fn next_id(inbox: &Inbox) -> String {
        match inbox.take().await {
            Some(Ok(Event::Delivery(delivery))) => delivery.message.id,
            other => panic!("no delivery: {other:?}"),
        }
    }

    #[tokio::test]
    async fn shutdown_requests_come_first_and_other_messages_in_order() {
        let inbox = Inbox::default();
        for delivery in [direct("a"), direct("b"), shutdown("x"), direct("c"), shutdown("y")] {
            inbox.put(delivery).await;
        }
        for id in ["x", "y", "a", "b", "c"] {
            assert_eq!(next_id(&inbox).await, id);
        }
    }

    #[tokio::test]
    async fn the_end_comes_first_and_only_once() {
        let inbox = Inbox::default();
        inbox.put(direct("a")).await;
        inbox.end(Ok(Event::Closed(Closed::MemberStopped)));
        assert!(matches!(inbox.take().await, Some(Ok(Event::Closed(Closed::MemberStopped)))));
        assert!(inbox.take().await.is_none());
        assert!(inbox.take().await.is_none());
    }

    #[tokio::test]
    async fn a_full_inbox_makes_the_reader_wait() {
        let inbox = Inbox::default();
        for i in 0..DELIVERIES_MAX {
            inbox.put(direct(&i.to_string())).await;
        }
        let mut waiting = Box::pin(inbox.put(direct("last")));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(next_id(&inbox).await, "0");
        waiting.await;
    }
}
