//! The queue between a subscription's reader and the application.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use teamwire_proto::v1::{self, message::Body};
use tokio::sync::Notify;

use super::{Delivery, Event};
use crate::Error;

/// A queue with priorities: the end of the subscription, then the latest change of its connection, then questions about
/// the transcript, then shutdown requests, then the other messages in order.
///
/// It never makes the reader wait, or a shutdown request and the end could not get past what the application does not
/// take. The session's credit bounds it: the coordinator sends no more while too much is unacknowledged.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    /// Notified when there is something to take.
    filled: Notify,
}

#[derive(Debug, Default)]
struct InboxState {
    end: Option<Result<Event, Error>>,
    is_over: bool,
    /// The last time that the session opened or was lost. Only the latest is kept.
    link: Option<Event>,
    /// The coordinator bounds how many there are.
    queries: VecDeque<v1::RunnerQuery>,
    urgent: VecDeque<Delivery>,
    deliveries: VecDeque<Delivery>,
}

impl Inbox {
    /// Adds a message.
    pub(super) fn put(&self, delivery: Delivery) {
        let mut state = self.state();
        match delivery.message.body {
            Some(Body::ShutdownRequest(_)) => state.urgent.push_back(delivery),
            _ => state.deliveries.push_back(delivery),
        }
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn ask(&self, query: v1::RunnerQuery) {
        self.state().queries.push_back(query);
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

    /// Waits for the next event and takes it. `None` if the end was taken before. Cancel-safe.
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
        if let Some(query) = state.queries.pop_front() {
            return Some(Some(Ok(Event::Query(Box::new(query)))));
        }
        let delivery = state.urgent.pop_front().or_else(|| state.deliveries.pop_front())?;
        Some(Some(Ok(Event::Delivery(Box::new(delivery)))))
    }

    fn state(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Acks, Closed},
        *,
    };

    fn delivery(id: &str, body: Body) -> Delivery {
        let message = v1::Message { id: id.to_owned(), body: Some(body), ..Default::default() };
        Delivery { message, sequence: 0, delivery_count: 1, acks: Acks::new(0) }
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
            inbox.put(delivery);
        }
        for id in ["x", "y", "a", "b", "c"] {
            assert_eq!(next_id(&inbox).await, id);
        }
    }

    #[tokio::test]
    async fn the_end_comes_first_and_only_once() {
        let inbox = Inbox::default();
        inbox.put(direct("a"));
        inbox.end(Ok(Event::Closed(Closed::MemberStopped)));
        assert!(matches!(inbox.take().await, Some(Ok(Event::Closed(Closed::MemberStopped)))));
        assert!(inbox.take().await.is_none());
        assert!(inbox.take().await.is_none());
    }
}
