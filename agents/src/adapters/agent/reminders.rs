//! Reminds the agent of a request to shut down that it has read and not answered.
//!
//! An agent may take its last words for an answer, but no one reads them. When a turn has ended and the request is
//! still pending, the agent is shown again which tool input answers it.

use std::{future::pending, time::Duration};

use teamwire_client::{Client, Retry};
use teamwire_proto::v1::{GetRequestRequest, RequestState};
use tokio::time::{Instant, sleep_until};

/// How long after the end of a turn each reminder comes. An agent may wait for something that it has started, so there
/// are few reminders, with growing delays. All of them come before the default deadline of a request.
pub(super) const DELAYS: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(120)];

/// How long to wait before the coordinator is asked again that could not be asked about a request.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The reminders of one process of the program. At most one request can be pending at a time.
#[derive(Debug)]
pub(super) struct Reminders {
    client: Client,
    /// How long after the end of a turn each reminder comes.
    delays: &'static [Duration],
    open: Option<Open>,
}

/// A request that may be pending.
#[derive(Debug)]
struct Open {
    request_id: String,
    /// How many reminders of it there were.
    reminders: usize,
    next_at: Instant,
}

impl Reminders {
    /// Creates reminders of the client's member.
    pub(super) fn new(client: Client, delays: &'static [Duration]) -> Self {
        Self { client: client.with_retry(Retry::none()), delays, open: None }
    }

    /// Notes that a turn has ended. `asked`: the request to shut down that the turn took. `None` if it took none.
    pub(super) fn turn_ended(&mut self, asked: Option<String>) {
        if let Some(request_id) = asked {
            self.open = Some(Open { request_id, reminders: 0, next_at: Instant::now() });
        }
        if let Some(open) = &mut self.open {
            open.next_at = Instant::now() + self.delays[open.reminders];
        }
    }

    /// Returns the request that may be pending, if there is one.
    pub(super) fn open_request(&self) -> Option<&str> {
        self.open.as_ref().map(|open| open.request_id.as_str())
    }

    /// Waits until a reminder is due, and returns its request. Waits forever if none is to come. Cancel-safe.
    pub(super) async fn next(&mut self) -> String {
        loop {
            let Some(open) = &mut self.open else { return pending().await };
            sleep_until(open.next_at).await;
            match is_pending(&self.client, &open.request_id).await {
                Some(true) => {
                    open.reminders += 1;
                    let request_id = open.request_id.clone();
                    match self.delays.get(open.reminders) {
                        // The end of the turn that takes this reminder moves it.
                        Some(delay) => open.next_at = Instant::now() + *delay,
                        None => self.open = None,
                    }
                    return request_id;
                }
                Some(false) => self.open = None,
                None => open.next_at = Instant::now() + RETRY_DELAY,
            }
        }
    }
}

/// Returns whether a request is pending. `None` if the coordinator does not say.
async fn is_pending(client: &Client, request_id: &str) -> Option<bool> {
    let request = GetRequestRequest { request_id: request_id.to_owned(), ..GetRequestRequest::default() };
    match client.get_request(request).await {
        Ok(found) => Some(found.request.is_some_and(|request| request.state() == RequestState::Pending)),
        Err(error) if error.is_retryable() => None,
        Err(_) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use teamwire_test_coordinator::Coordinator;
    use tokio::time::timeout;

    use super::*;

    const SHORT: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(2)];

    async fn next(reminders: &mut Reminders) -> String {
        timeout(Duration::from_secs(20), reminders.next()).await.expect("a reminder")
    }

    /// Asserts that no reminder comes, for much longer than the delays.
    async fn assert_none(reminders: &mut Reminders) {
        assert_eq!(timeout(Duration::from_millis(200), reminders.next()).await.ok(), None);
    }

    #[tokio::test]
    async fn a_request_that_stays_pending_is_repeated_a_few_times() {
        let coordinator = Coordinator::start().await;
        let mut reminders = Reminders::new(coordinator.client(), &SHORT);
        reminders.turn_ended(Some("r1".to_owned()));
        for _ in SHORT {
            assert_eq!(next(&mut reminders).await, "r1");
            reminders.turn_ended(None);
        }
        assert_none(&mut reminders).await;
        reminders.turn_ended(Some("r2".to_owned()));
        assert_eq!(next(&mut reminders).await, "r2");
    }

    #[tokio::test]
    async fn an_answered_request_is_not_repeated() {
        let coordinator = Coordinator::start().await;
        coordinator.with(|state| state.approved.push("r1".to_owned()));
        let mut reminders = Reminders::new(coordinator.client(), &SHORT);
        reminders.turn_ended(Some("r1".to_owned()));
        assert_none(&mut reminders).await;
    }
}
