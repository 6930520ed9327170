//! Calls in frames, with a scripted coordinator.

use prost::Message as _;
use teamwire_client::{Client, ConnectOptions, Error, Reason, Refusal, message, v1};
use teamwire_proto::Method;
use teamwire_test_coordinator::{Carry, Coordinator, MEMBER};
use tonic::Status;

/// Returns a client that opens a stream with its first call.
fn client(coordinator: &Coordinator) -> Client {
    let options = ConnectOptions { calls_before_frames: 0, ..ConnectOptions::default() };
    Client::connect_with(&coordinator.url(), options)
        .expect("an address")
        .with_credential(MEMBER)
        .expect("a credential")
}

async fn send(client: &Client) {
    client.send(message::direct("lead", "s", "c")).await.expect("sent");
}

/// Sends until a frame has carried a message. Returns how many calls were made alone.
async fn send_until_carried(coordinator: &Coordinator, client: &Client) -> usize {
    loop {
        send(client).await;
        let (carried, alone) = coordinator.with(|state| (state.carried.len(), state.sends.len()));
        if carried > 0 {
            return alone;
        }
    }
}

#[tokio::test]
async fn calls_travel_in_frames_once_a_connection_has_carried_a_few() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.carries.push_back(Carry { answers: usize::MAX, end: None }));
    let client = coordinator.client();
    let alone = send_until_carried(&coordinator, &client).await;
    assert!(alone > 8, "{alone}");
    for _ in 0..10 {
        send(&client).await;
    }
    let large = "x".repeat(20 * 1024);
    client.send(message::direct("lead", "s", large)).await.expect("sent");
    let another = client.with_credential("twm:blue:bob:0123456789abcdef").unwrap();
    send(&another).await;
    coordinator.with(|state| {
        assert_eq!((state.carried.len(), state.sends.len()), (11, alone + 2));
        let frame = &state.carried[10];
        assert_eq!(frame.method, Method::Send.path());
        assert!(frame.timeout.is_some() && v1::SendRequest::decode(frame.request.clone()).is_ok());
        let sequences: Vec<_> = state.carried.iter().map(|frame| frame.sequence).collect();
        assert_eq!(sequences, Vec::from_iter(1..=11));
    });
}

#[tokio::test]
async fn a_coordinator_without_such_streams_gets_calls() {
    let coordinator = Coordinator::start().await;
    let client = client(&coordinator);
    for _ in 0..30 {
        send(&client).await;
    }
    assert_eq!(coordinator.with(|state| (state.carried.len(), state.sends.len())), (0, 30));
}

#[tokio::test]
async fn a_frame_that_was_not_taken_is_repeated_whatever_the_call() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.carries.push_back(Carry { answers: 1, end: None }));
    let client = client(&coordinator);
    send_until_carried(&coordinator, &client).await;
    let deleted = client.delete_team(v1::DeleteTeamRequest::default()).await.expect_err("cut");
    assert!(matches!(&deleted, Error::OutcomeUnknown { detail, .. } if detail == "cut in mid-call"), "{deleted:?}");
    assert_eq!(coordinator.with(|state| state.carried.last().unwrap().method.clone()), Method::DeleteTeam.path());
}

#[tokio::test]
async fn a_frame_whose_stream_breaks_is_repeated_if_the_call_may_be() {
    let coordinator = Coordinator::start().await;
    let breaks = || Carry { answers: 1, end: Some(Status::unavailable("cut")) };
    coordinator.with(|state| state.carries.extend([breaks(), breaks()]));
    let client = client(&coordinator);
    let alone = send_until_carried(&coordinator, &client).await;
    send(&client).await;
    coordinator.with(|state| {
        let broken = v1::SendRequest::decode(state.carried.last().unwrap().request.clone()).unwrap();
        assert_eq!((state.carried.len(), state.sends.len()), (2, alone + 1));
        assert_eq!(broken.idempotency_key, state.sends[alone].0.idempotency_key);
        state.carried.clear();
    });
    send_until_carried(&coordinator, &client).await;
    let deleted = client.delete_team(v1::DeleteTeamRequest::default()).await.expect_err("cut");
    assert!(matches!(&deleted, Error::OutcomeUnknown { detail, .. } if detail == "cut"), "{deleted:?}");
    // Why the stream is refused says nothing about its calls.
    for reason in [Reason::SlowConsumer, Reason::CredentialRevoked] {
        let coordinator = Coordinator::start().await;
        let refused = Carry { answers: 1, end: Some(Refusal::new(reason, "The stream.").into()) };
        coordinator.with(|state| state.carries.push_back(refused));
        let client = self::client(&coordinator);
        send_until_carried(&coordinator, &client).await;
        let deleted = client.delete_team(v1::DeleteTeamRequest::default()).await.expect_err("refused");
        assert!(matches!(&deleted, Error::OutcomeUnknown { detail, .. } if detail == "The stream."), "{deleted:?}");
    }
}
