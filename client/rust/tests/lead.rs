//! What a lead does, with a scripted coordinator.

use std::{iter, time::Duration};

use teamwire_client::{
    Error, Reason, Refusal, Retry, SubscribeOptions,
    v1::{self, MemberState, RequestState},
};
use teamwire_test_coordinator::Coordinator;
use tokio::time::timeout;
use tonic::Status;

const PATIENCE: Duration = Duration::from_secs(20);

fn member(name: &str, incarnation: u64, state: MemberState) -> v1::Member {
    let exit = (state == MemberState::Exited).then(|| v1::ExitReport { code: Some(3), ..Default::default() });
    v1::Member { name: name.to_owned(), incarnation, state: state.into(), exit, ..Default::default() }
}

fn page(next_page_token: &str, member: v1::Member) -> v1::ListMembersResponse {
    v1::ListMembersResponse { members: vec![member], next_page_token: next_page_token.to_owned() }
}

#[tokio::test]
async fn a_shutdown_waits_for_the_decision_and_the_exit_through_all_pages() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        state.member_pages.extend([
            page("more", member("lead", 1, MemberState::Active)),
            page("", member("Ann", 2, MemberState::Stopping)),
            page("more", member("lead", 1, MemberState::Active)),
            page("", member("Ann", 2, MemberState::Exited)),
        ]);
    });
    let client = coordinator.client();
    let waiting = tokio::spawn(async move { client.shutdown("ann", "done", PATIENCE).await });
    coordinator.until("a wait for the decision", |state| (state.waits > 0).then_some(())).await;
    coordinator.with(|state| state.approved.push("req_1".to_owned()));
    let ended = waiting.await.expect("no panic").expect("an end");
    assert_eq!(ended.request.state(), RequestState::Approved);
    assert_eq!(ended.exit.and_then(|exit| exit.code), Some(3));
    assert_eq!(coordinator.with(|state| state.page_tokens.clone()), ["", "more", "", "more"]);
}

#[tokio::test]
async fn a_shutdown_joins_a_pending_request_and_reports_it_as_pending_when_the_time_is_over() {
    let coordinator = Coordinator::start().await;
    let pending = Refusal::new(Reason::ShutdownPending, "pending").with("request_id", "req_9");
    coordinator.with(|state| state.fail_sends.push_back(pending.into()));
    let ended = coordinator.client().shutdown("ann", "", Duration::ZERO).await.expect("a request");
    assert_eq!((ended.request.id.as_str(), ended.request.state()), ("req_9", RequestState::Pending));
    assert_eq!(ended.exit, None);
}

#[tokio::test]
async fn a_shutdown_ends_without_an_exit_if_a_new_life_has_begun_or_the_time_is_over() {
    for (now, patience) in
        [(member("ann", 3, MemberState::Active), PATIENCE), (member("ann", 2, MemberState::Stopping), Duration::ZERO)]
    {
        let coordinator = Coordinator::start().await;
        coordinator.with(|state| {
            state.approved.push("req_1".to_owned());
            state.member_pages.push_back(page("", now));
        });
        let ended = coordinator.client().shutdown("ann", "", patience).await.expect("an end");
        assert_eq!((ended.request.state(), ended.exit), (RequestState::Approved, None));
    }
}

#[tokio::test]
async fn a_shutdown_ends_in_time_without_an_exit_if_the_coordinator_is_gone() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        state.approved.push("req_1".to_owned());
        state.fail_lists.extend(iter::repeat_n(Status::unavailable("gone"), 1_000));
    });
    let ending = timeout(PATIENCE / 2, async { coordinator.client().shutdown("ann", "", PATIENCE / 20).await });
    let ended = ending.await.expect("in time").expect("an end");
    assert_eq!((ended.request.state(), ended.exit), (RequestState::Approved, None));
}

#[tokio::test]
async fn creating_a_team_returns_the_client_of_its_lead() {
    let coordinator = Coordinator::start().await;
    let operator = coordinator.client().with_credential("two:0123456789abcdef").expect("a credential");
    assert_eq!((operator.name(), operator.team()), ("", ""));
    let zoe = operator.with_team("acme").create_team("blue", "zoe").await.expect("a team");
    assert_eq!((zoe.name(), zoe.team()), ("zoe", "blue"));
    assert_eq!(zoe.credential(), "twm:blue:zoe:0123456789abcdef");
    assert!(zoe.invite("ann").await.expect("a token").join_string.ends_with(" for ann"));
    assert_eq!(zoe.force_stop("ann", "stuck").await.expect("a member").last_summary, "stuck");
    assert_eq!(zoe.hand_over("ann").await.expect("a team").lead, "ann");
    let deleted = zoe.with_retry(Retry::none()).delete_team("blue").await;
    assert!(matches!(deleted, Err(Error::OutcomeUnknown { call: "DeleteTeam", .. })), "{deleted:?}");
}

#[tokio::test]
async fn a_flush_without_acknowledgements_sends_none() {
    let coordinator = Coordinator::start().await;
    coordinator.with(|state| {
        let refused = Refusal::new(Reason::InvalidField, "no ids").into();
        state.fail_acks.push_back(refused);
    });
    let subscription = coordinator.client().subscribe(SubscribeOptions::default());
    coordinator.until("a session", |state| (state.opened.len() == 1).then_some(())).await;
    subscription.flush().await.expect("nothing to confirm");
    assert_eq!(coordinator.with(|state| state.fail_acks.len()), 1);
}
