//! Tests of acknowledgements, on paused time.

use std::pin::pin;

use tokio::{sync::mpsc, time::sleep_until};

use super::*;

const SESSION: &str = "session-1";

/// The acknowledgements of a subscription, and their sender. Time passes only while everything waits.
struct World {
    acks: Acks,
    began: Instant,
    /// When each call began, in milliseconds, and how many messages it acknowledges.
    calls: mpsc::Receiver<(u128, usize)>,
    /// Each call waits for one of these: whether it succeeds.
    answers: mpsc::Sender<bool>,
    session: watch::Sender<Session>,
}

impl World {
    fn new(unacked_messages_max: u32) -> Self {
        let (acks, began) = (Acks::new(unacked_messages_max), Instant::now());
        let (session, sessions) = watch::channel(Session { id: SESSION.to_owned(), ..Session::default() });
        let (made, calls) = mpsc::channel(8);
        let (answers, answer) = mpsc::channel(8);
        let answer = Arc::new(tokio::sync::Mutex::new(answer));
        let call = move |request: v1::AckRequest| {
            let (made, answer) = (made.clone(), answer.clone());
            async move {
                assert_eq!(request.session_id, SESSION);
                let _ = made.try_send((began.elapsed().as_millis(), request.message_ids.len()));
                let is_ok = answer.lock().await.recv().await == Some(true);
                if is_ok { Ok(()) } else { Err(Error::Closed(Closed::Dropped)) }
            }
        };
        let sender = acks.clone();
        tokio::spawn(async move { sender.send(&sessions, &call).await });
        Self { acks, began, calls, answers, session }
    }

    async fn at(&self, ms: u64) {
        sleep_until(self.began + Duration::from_millis(ms)).await;
    }

    fn ack(&self, messages: usize) {
        for _ in 0..messages {
            self.acks.ack(&Uuid::new_v4().to_string());
        }
    }

    /// Waits until a call begins, and answers it.
    async fn call(&mut self) -> (u128, usize) {
        let call = self.calls.recv().await.expect("a call");
        self.answer(true);
        call
    }

    fn answer(&self, is_ok: bool) {
        self.answers.try_send(is_ok).expect("the sender");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_pause_an_acknowledgement_is_sent_at_once() {
    let mut world = World::new(0);
    for ms in [0, 20, 45] {
        world.at(ms).await;
        world.ack(1);
        assert_eq!(world.call().await, (u128::from(ms), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_in_quick_succession_share_calls_20_ms_apart() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.calls.recv().await, Some((0, 1)));
    world.at(1).await;
    world.ack(2);
    world.at(2).await;
    world.answer(true);
    world.at(10).await;
    world.ack(1);
    assert_eq!(world.call().await, (20, 3), "from the beginning of the call before, not from its end");
    world.at(30).await;
    world.ack(1);
    assert_eq!(world.call().await, (40, 1));
}

#[tokio::test(start_paused = true)]
async fn the_longer_a_call_takes_the_later_the_next_one_begins_up_to_100_ms() {
    for (took, next) in [(2, 20), (5, 40), (10, 80), (70, 100), (120, 120)] {
        let mut world = World::new(0);
        world.ack(1);
        assert_eq!(world.calls.recv().await, Some((0, 1)));
        world.ack(2);
        world.at(took).await;
        world.answer(true);
        assert_eq!(world.call().await, (u128::from(next), 2), "after {took} ms");
        world.at(next + 20).await;
        world.ack(1);
        assert_eq!(world.call().await, (u128::from(next) + 20, 1), "after a fast one");
    }
}

#[tokio::test(start_paused = true)]
async fn an_urgent_acknowledgement_does_not_wait_after_a_long_call() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.calls.recv().await, Some((0, 1)));
    world.at(10).await;
    world.answer(true);
    world.ack(31);
    world.at(15).await;
    world.ack(1);
    assert_eq!(world.call().await, (15, 32));
}

#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_calls_only() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.call().await, (0, 1));
    world.at(5).await;
    world.ack(2);
    let acks = world.acks.clone();
    let flush = tokio::spawn(async move { acks.flush().await });
    assert_eq!(world.call().await, (5, 2));
    flush.await.expect("no panic").expect("confirmed");
    assert_eq!(world.began.elapsed().as_millis(), 5);
    world.ack(1);
    assert_eq!(world.call().await, (25, 1), "nothing is urgent after the flush");
    world.ack(1);
    assert!(futures::poll!(pin!(world.acks.flush())).is_pending());
    assert_eq!(world.call().await, (45, 1), "nor after one that was dropped");
}

#[tokio::test(start_paused = true)]
async fn half_of_the_sessions_unacknowledged_messages_are_sent_at_once() {
    for (unacked_messages_max, half) in [(0, 32), (64, 32), (5, 3), (2, 1), (1, 1)] {
        let mut world = World::new(unacked_messages_max);
        world.ack(1);
        assert_eq!(world.call().await, (0, 1));
        world.at(5).await;
        world.ack(half - 1);
        world.at(7).await;
        world.ack(1);
        assert_eq!(world.call().await, (7, half), "{unacked_messages_max}");
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_window_is_sent_at_once_during_one_call_but_not_during_two() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.calls.recv().await, Some((0, 1)));
    world.at(5).await;
    world.ack(32);
    assert_eq!(world.calls.recv().await, Some((5, 32)), "a second call");
    let acks = world.acks.clone();
    let flush = tokio::spawn(async move { acks.flush().await });
    world.ack(40);
    world.at(30).await;
    assert!(world.calls.try_recv().is_err(), "there is no third one");
    world.answer(true);
    assert_eq!(world.calls.recv().await, Some((30, 40)));
    assert!(!flush.is_finished());
    world.answer(true);
    world.answer(true);
    flush.await.expect("no panic").expect("all are confirmed");
    world.ack(1);
    assert_eq!(world.call().await, (105, 1), "100 ms after the beginning of the last slow call");
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_the_window_is_sent_at_once_while_a_call_with_the_first_part_is_in_flight() {
    let mut world = World::new(5);
    world.ack(3);
    assert_eq!(world.calls.recv().await, Some((0, 3)));
    world.at(5).await;
    world.ack(1);
    world.at(7).await;
    assert!(world.calls.try_recv().is_err(), "the session may still deliver one");
    world.ack(1);
    assert_eq!(world.calls.recv().await, Some((7, 2)));
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_once_the_subscription_has_ended() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.call().await, (0, 1));
    world.at(5).await;
    world.ack(2);
    world.acks.hurry();
    assert_eq!(world.call().await, (5, 2));
    world.at(6).await;
    world.ack(1);
    assert_eq!(world.call().await, (6, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_repeated_with_the_waiting_acknowledgements() {
    let mut world = World::new(0);
    world.ack(1);
    assert_eq!(world.calls.recv().await, Some((0, 1)));
    world.ack(2);
    world.answer(false);
    let (repeated, messages) = world.call().await;
    assert_eq!(messages, 3);
    world.ack(1);
    assert_eq!(world.call().await, (repeated + 20, 1));
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_wait_for_the_session_that_is_opening() {
    let mut world = World::new(0);
    world.session.send_modify(|session| session.is_reopening = true);
    world.ack(3);
    world.at(50).await;
    world.session.send_modify(|session| session.is_reopening = false);
    assert_eq!(world.call().await, (50, 3));
}
