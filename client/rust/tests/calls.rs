//! Calls and their retries, with a scripted coordinator.

use std::{iter, time::Duration};

use teamwire_client::{Client, Error, Reason, Refusal, Retry, SubscribeOptions, message, v1};
use teamwire_test_coordinator::{Coordinator, MEMBER};
use tokio::{net::TcpListener, time::timeout};
use tonic::Status;

#[tokio::test]
async fn a_send_with_an_unknown_outcome_is_retried_with_the_same_key() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        state.fail_sends.extend([
            Status::unknown("h2"),
            Status::cancelled("proxy"),
            Refusal::new(Reason::StoreUnavailable, "later").retry_after(Duration::from_millis(5)).into(),
        ]);
    });
    coordinator.client().send(message::direct("lead", "s", "c")).await.expect("sent");
    let keys = coordinator.with(|state| state.sends.iter().map(|(r, _)| r.idempotency_key.clone()).collect::<Vec<_>>());
    assert_eq!(keys.len(), 4);
    assert!(!keys[0].is_empty() && keys.iter().all(|key| *key == keys[0]));
}

#[tokio::test]
async fn a_refusal_is_final_and_carries_its_reason() {
    let coordinator = Coordinator::start().await;
    let refusal = Refusal::new(Reason::AgentNotFound, "There is no \"bo\".").field("recipient");
    coordinator.with(|state| state.fail_sends.push_back(refusal.clone().into()));
    match coordinator.client().send(message::direct("bo", "s", "c")).await {
        Err(Error::Refused(refused)) => assert_eq!(refused, refusal),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(coordinator.with(|state| state.sends.len()), 1);
}

#[tokio::test]
async fn an_unknown_outcome_is_reported_with_its_key() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.fail_sends.push_back(Status::unavailable("cut")));
    let error = coordinator.client().with_retry(Retry::none()).send(message::direct("lead", "s", "c")).await;
    let error = error.expect_err("cut");
    assert!(
        matches!(&error, Error::OutcomeUnknown { call: "Send", idempotency_key, .. } if idempotency_key.len() == 36)
    );
    assert!(error.is_retryable() && error.is_outcome_unknown());
    let deleted = coordinator.client().delete_team(v1::DeleteTeamRequest::default()).await.expect_err("cut");
    assert!(matches!(&deleted, Error::OutcomeUnknown { idempotency_key, .. } if idempotency_key.is_empty()));
    assert!(!deleted.is_retryable() && deleted.is_outcome_unknown());
}

#[tokio::test]
async fn the_outcome_is_unknown_after_an_internal_error_which_is_not_retried() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| state.fail_sends.push_back(Refusal::new(Reason::Internal, "damaged").into()));
    let error = coordinator.client().send(message::direct("lead", "s", "c")).await.expect_err("damaged");
    assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error:?}");
    assert_eq!((error.reason(), coordinator.with(|state| state.sends.len())), (Some(Reason::Internal), 1));
}

#[tokio::test]
async fn a_busy_coordinator_says_nothing_about_an_earlier_attempt() {
    let coordinator = Coordinator::start().await;
    let limited = || Refusal::new(Reason::RateLimited, "busy").retry_after(Duration::ZERO);
    coordinator.with(|state| {
        state.fail_sends.push_back(Status::unavailable("cut"));
        state.fail_sends.extend(iter::repeat_with(|| limited().into()).take(1_000));
    });
    let hasty = coordinator.client().with_retry(Retry::within(Duration::from_millis(300)));
    let error = hasty.send(message::direct("lead", "s", "c")).await.expect_err("busy");
    assert!(error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn a_missing_coordinator_is_unreachable_and_the_outcome_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let client = Client::connect(&address.to_string()).expect("an address").with_retry(Retry::none());
    let error = client.send(message::direct("lead", "s", "c")).await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn an_invalid_address_is_rejected() {
    for address in ["ftp://x", "http://", "a b", "http://a,https://b"] {
        assert!(matches!(Client::connect(address), Err(Error::Address { .. })), "{address}");
    }
    let client = Client::connect("localhost:7420").expect("an address");
    assert_eq!(client.address(), "http://localhost:7420");
    assert!(matches!(client.with_credential("a\nb"), Err(Error::Credential)));
    assert!(!format!("{:?}", client.with_credential(MEMBER)).contains("0123456789abcdef"));
}

#[tokio::test]
async fn a_send_refused_in_our_superseded_session_is_retried_in_the_new_one() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client();
    let _subscription = client.subscribe(SubscribeOptions::default());
    coordinator.until("a session", |state| (state.opened.len() == 1).then_some(())).await;
    // The refusal arrives after the stream is cut and before another session opens.
    let superseded = Status::from(Refusal::new(Reason::SessionSuperseded, "superseded"));
    coordinator.with(|state| state.fail_streams.push_back(Status::unavailable("once more")));
    coordinator.cut(Some(Status::unknown("cut"))).await;
    coordinator.with(|state| state.fail_sends.push_back(superseded));
    // The client must notice the cut first. Until then the refusal would rightly be final.
    coordinator.until("the cut", |state| state.fail_streams.is_empty().then_some(())).await;
    client.send(message::direct("lead", "s", "c")).await.expect("sent in the new session");
    let sessions = coordinator.with(|state| state.sends.iter().map(|(_, s)| s.clone()).collect::<Vec<_>>());
    assert_eq!(sessions.last().map(String::as_str), Some("session-2"), "{sessions:?}");
}

#[tokio::test]
async fn following_the_history_through_cuts_yields_each_entry_once() {
    let coordinator = Coordinator::start().await;
    let mut history = coordinator.client().follow_history(v1::FollowHistoryRequest::default());
    for sequence in 1..=6 {
        let entry = history.next().await.expect("an entry").expect("no refusal");
        assert_eq!(entry.sequence, sequence);
    }
    let refused = history.next().await.expect("an end").expect_err("the team is gone");
    assert_eq!(refused.reason(), Some(Reason::TeamNotFound));
    assert!(history.next().await.is_none());
}

#[tokio::test]
async fn waiting_for_a_decision_ends_when_it_is_made_or_the_time_is_over() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client();
    let pending = client.wait_decision("req_1", Duration::ZERO).await.expect("a request");
    assert_eq!(pending.state(), v1::RequestState::Pending);
    let waiting = tokio::spawn(async move { client.wait_decision("req_1", Duration::from_secs(100)).await });
    coordinator.until("a second call", |state| (state.waits > 2).then_some(())).await;
    coordinator.with(|state| state.approved.push("req_1".to_owned()));
    let decided = waiting.await.expect("no panic").expect("a request");
    assert_eq!(decided.state(), v1::RequestState::Approved);
}

#[tokio::test]
async fn waiting_for_a_decision_ends_in_time_if_the_coordinator_is_gone() {
    let coordinator = Coordinator::start().await;
    coordinator
        .with(|state| state.fail_waits.extend(iter::repeat_n((Duration::ZERO, Status::unavailable("gone")), 1_000)));
    let client = coordinator.client();
    let waiting = timeout(Duration::from_secs(8), client.wait_decision("req_1", Duration::from_secs(1)));
    let error = waiting.await.expect("in time").expect_err("gone");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_wait_that_broke_asks_only_for_the_rest_of_its_time() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        state.approved.push("req_1".to_owned());
        state.fail_waits.push_back((Duration::ZERO, Status::unavailable("cut")));
    });
    coordinator.client().wait_decision("req_1", Duration::from_secs(20)).await.expect("a decision");
    let asked = coordinator.with(|state| state.asked.clone());
    assert!(asked.len() == 2 && asked[1] < asked[0], "{asked:?}");
}

#[tokio::test]
async fn an_outage_during_a_wait_counts_from_its_own_first_failure() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        state.approved.push("req_1".to_owned());
        let cuts = [Duration::ZERO, Duration::from_millis(1_200)].map(|after| (after, Status::unavailable("cut")));
        state.fail_waits.extend(cuts);
    });
    let client = coordinator.client().with_retry(Retry::within(Duration::from_secs(1)));
    let decided = client.wait_decision("req_1", Duration::from_secs(20)).await.expect("a decision");
    assert_eq!(decided.state(), v1::RequestState::Approved);
}
