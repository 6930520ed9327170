//! Subscriptions through reconnects, with a scripted coordinator.

use teamwire_client::{
    Closed, Delivery, End, EndReason, Error, Event, Reason, Refusal, SubscribeOptions, Subscription,
    v1::{self, CloseReason, message::Body},
};
use teamwire_test_coordinator::Coordinator;
use tonic::Status;

/// Waits for the next message, through any reconnects.
async fn next(subscription: &mut Subscription) -> Box<Delivery> {
    loop {
        match subscription.next().await {
            Some(Ok(Event::Delivery(delivery))) => return delivery,
            Some(Ok(Event::Opened(_) | Event::Lost { .. })) => {}
            other => panic!("no message: {other:?}"),
        }
    }
}

/// Waits for the end of the subscription.
async fn end(subscription: &mut Subscription) -> Result<Event, Error> {
    loop {
        match subscription.next().await {
            Some(Ok(Event::Opened(_) | Event::Lost { .. })) => {}
            Some(end) => {
                assert!(subscription.next().await.is_none(), "something after the end");
                return end;
            }
            None => panic!("no end"),
        }
    }
}

fn text(delivery: &Delivery) -> &str {
    match &delivery.message.body {
        Some(Body::Message(v1::DirectMessage { content, .. })) => content,
        other => panic!("no text: {other:?}"),
    }
}

#[tokio::test]
async fn a_reconnect_does_not_deliver_again_what_the_application_has() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    coordinator.put_text("one").await;
    let one = next(&mut subscription).await;
    for status in [Some(Status::unknown("cut")), None, Some(Refusal::new(Reason::SlowConsumer, "slow").into())] {
        coordinator.cut(status).await;
    }
    coordinator.until("another session", |state| (state.opened.len() > 1).then_some(())).await;
    coordinator.put_text("two").await;
    assert_eq!(text(&*next(&mut subscription).await), "two");
    one.ack();
    subscription.flush().await.expect("acknowledged");
    let instances = coordinator.with(|state| state.opened.iter().map(|o| o.instance_id.clone()).collect::<Vec<_>>());
    assert!(instances.iter().all(|instance| !instance.is_empty() && *instance == instances[0]));
}

#[tokio::test]
async fn a_lost_acknowledgement_is_sent_again_in_the_new_session() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    let id = coordinator.put_text("one").await;
    let one = next(&mut subscription).await;
    coordinator.with(|state| {
        state.fail_acks.extend([Status::unknown("cut"), Refusal::new(Reason::Internal, "a fault").into()]);
        state.fail_streams.push_back(Status::unavailable("not yet"));
    });
    coordinator.cut(Some(Status::unknown("cut"))).await;
    coordinator.until("the cut", |state| state.fail_streams.is_empty().then_some(())).await;
    one.ack();
    coordinator.until("the acknowledgement", |state| state.inbox.is_empty().then_some(())).await;
    subscription.flush().await.expect("acknowledged");
    let last = coordinator.with(|state| state.acked.last().cloned());
    assert_eq!(last, Some((id, "session-2".to_owned())));
}

#[tokio::test]
async fn an_acknowledged_message_that_comes_again_is_acknowledged_again_and_not_delivered() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    let id = coordinator.put_text("one").await;
    next(&mut subscription).await.ack();
    subscription.flush().await.expect("acknowledged");
    // The coordinator's store has lost the acknowledgement.
    let message =
        v1::Message { id: id.clone(), body: Some(Body::Message(v1::DirectMessage::default())), ..Default::default() };
    coordinator.with(|state| state.inbox.push((message, 1)));
    coordinator.cut(None).await;
    coordinator.until("the second acknowledgement", |state| (state.acked.len() == 2).then_some(())).await;
    coordinator.put_text("two").await;
    assert_eq!(text(&*next(&mut subscription).await), "two");
}

#[tokio::test]
async fn acknowledgements_are_sent_in_batches() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    for i in 0..50 {
        coordinator.put_text(&i.to_string()).await;
    }
    for i in 0..50 {
        let delivery = next(&mut subscription).await;
        assert_eq!(text(&delivery), i.to_string());
        delivery.ack();
    }
    subscription.flush().await.expect("acknowledged");
    assert_eq!(coordinator.with(|state| (state.acked.len(), state.inbox.len())), (50, 0));
}

#[tokio::test]
async fn an_approved_shutdown_is_the_last_event() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client();
    let mut subscription = client.subscribe(SubscribeOptions::default());
    coordinator.put_shutdown_request("req_1").await;
    let request = next(&mut subscription).await;
    client.approve_shutdown(&request.message.request_id).await.expect("approved");
    request.ack();
    assert!(
        matches!(end(&mut subscription).await, Ok(Event::ShutdownApproved { request_id }) if request_id == "req_1")
    );
    let approved = End { reason: EndReason::ShutdownApproved, request_id: "req_1".to_owned() };
    assert_eq!(subscription.end(), Some(&approved));
    subscription.flush().await.expect("acknowledged even then");
}

/// The reader used to stop at 256 waiting messages, so that it saw neither a shutdown request nor the end behind them.
#[tokio::test]
async fn a_shutdown_request_and_the_end_overtake_messages_that_the_application_does_not_take() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client();
    let mut subscription = client.subscribe(SubscribeOptions::default());
    let first = coordinator.put_text("first").await;
    next(&mut subscription).await.ack();
    subscription.flush().await.expect("acknowledged");
    for i in 0..300 {
        coordinator.put_text(&i.to_string()).await;
    }
    coordinator.put_shutdown_request("req_1").await;
    // Once the reader acknowledges this again, it has read everything before it.
    let last = v1::Message { id: first, body: Some(Body::Message(v1::DirectMessage::default())), ..Default::default() };
    coordinator.with(|state| state.inbox.push((last, 1)));
    coordinator.cut(None).await;
    coordinator.until("the reader", |state| (state.acked.len() == 2).then_some(())).await;

    let request = next(&mut subscription).await;
    assert_eq!(request.message.request_id, "req_1", "the request does not get past the messages");
    client.approve_shutdown(&request.message.request_id).await.expect("approved");
    let ended = end(&mut subscription).await;
    assert!(matches!(ended, Ok(Event::ShutdownApproved { request_id }) if request_id == "req_1"));
}

#[tokio::test]
async fn a_closed_subscription_does_not_reconnect() {
    for (reason, closed, word) in [
        (CloseReason::Superseded, Closed::Superseded, "superseded"),
        (CloseReason::TeamDeleted, Closed::TeamDeleted, "team_deleted"),
        (CloseReason::MemberStopped, Closed::MemberStopped, "member_stopped"),
        (CloseReason::DataLost, Closed::DataLost, "data_lost"),
    ] {
        let coordinator = Coordinator::start().await;
        let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
        coordinator.close(reason, "").await;
        assert_eq!(subscription.end(), None);
        assert!(matches!(end(&mut subscription).await, Ok(Event::Closed(end)) if end == closed));
        assert_eq!(subscription.end().map(|end| end.reason.as_str()), Some(word));
        subscription.ack("0198c0de-0000-7000-8000-000000000000");
        assert!(matches!(subscription.flush().await, Err(Error::Closed(end)) if end == closed));
        assert_eq!(coordinator.with(|state| state.opened.len()), 1);
    }
}

#[tokio::test]
async fn a_superseded_acknowledgement_ends_a_subscription_whose_stream_is_silent() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    coordinator.put_text("one").await;
    let one = next(&mut subscription).await;
    coordinator.with(|state| state.fail_acks.push_back(Refusal::new(Reason::SessionSuperseded, "another").into()));
    one.ack();
    assert!(matches!(end(&mut subscription).await, Ok(Event::Closed(Closed::Superseded))));
    assert!(matches!(subscription.flush().await, Err(Error::Closed(Closed::Superseded))));
    assert_eq!(coordinator.with(|state| state.opened.len()), 1, "it took the inbox back");
}

#[tokio::test]
async fn a_refused_credential_ends_the_subscription_with_the_refusal() {
    let coordinator = Coordinator::start().await;
    let refusal = Refusal::new(Reason::CredentialExpired, "Ask for another.");
    coordinator.with(|state| state.fail_streams.push_back(refusal.clone().into()));
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    assert!(matches!(end(&mut subscription).await, Err(Error::Refused(refused)) if refused == refusal));
}

#[tokio::test]
async fn a_subscription_survives_draining_and_outages() {
    let coordinator = Coordinator::start().await;
    let mut subscription = coordinator.client().subscribe(SubscribeOptions::default());
    coordinator.close(CloseReason::Draining, "").await;
    coordinator.with(|state| {
        state.fail_streams.extend([
            Status::unavailable("starting"),
            Refusal::new(Reason::StoreUnavailable, "later").into(),
            Refusal::new(Reason::Draining, "going").into(),
            Refusal::new(Reason::Internal, "a fault").into(),
            Status::internal("a proxy's fault"),
        ]);
    });
    coordinator.put_text("one").await;
    assert_eq!(text(&*next(&mut subscription).await), "one");
    coordinator.restart().await;
    coordinator.put_text("two").await;
    assert_eq!(text(&*next(&mut subscription).await), "two");
}
