//! The lives of members: joining, taking over, going idle, leaving, being lost and found, being stopped.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, Activity, MemberState, NoticeKind, RequestState, Role, history_entry::Event, message::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, fillable::Fillable, team::*};

const SECOND: Duration = Duration::from_secs(1);

fn join_as(name: &str) -> v1::JoinRequest {
    v1::JoinRequest { name: name.to_owned(), ..Default::default() }
}

#[tokio::test]
async fn a_member_joins_with_a_token_and_keeps_its_attributes() {
    let t = Team::new().await;
    let told = v1::MemberAttributes {
        agent_type: "researcher".to_owned(),
        model: "m".to_owned(),
        labels: [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into(),
        ..Default::default()
    };
    let request = v1::JoinRequest { attributes: Some(told.clone()), ..join_as("Bob") };
    let reply = t.coordinator.join(&presented(&t.invite("").await), &request).await.unwrap();
    let member = reply.member.unwrap();
    assert_eq!((member.name.as_str(), member.role(), member.state()), ("Bob", Role::Teammate, MemberState::Joined));
    assert_eq!((member.incarnation, member.attributes), (1, Some(told)));
    assert_eq!(reply.team.unwrap().lead, "lead");
    assert_eq!(t.member("lead").await.role(), Role::Lead);
}

#[tokio::test]
async fn an_invalid_join_is_refused_without_using_up_the_token() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    let (free, bound) = (presented(&t.invite("").await), presented(&t.invite("eve").await));
    let bad = Code::InvalidArgument;
    for name in ["", "a b", "-a", &"x".repeat(64), "operator", "Coordinator", "Team-Lead"] {
        t.refused(t.try_join(&free, join_as(name)), bad, Reason::InvalidName, "name").await;
    }
    for name in ["BOB", "lead"] {
        let taken = t.try_join(&free, join_as(name));
        t.refused(taken, Code::AlreadyExists, Reason::MemberExists, "name").await;
    }
    let other = t.try_join(&bound, join_as("dan"));
    t.refused(other, Code::PermissionDenied, Reason::NotPermitted, "name").await;
    let told = v1::MemberAttributes { model: "x".repeat(101), ..Default::default() };
    let request = v1::JoinRequest { attributes: Some(told), ..join_as("dan") };
    t.refused(t.try_join(&free, request), bad, Reason::InvalidField, "attributes").await;
    t.try_join(&free, join_as("dan")).await.unwrap();
    t.try_join(&bound, join_as("EVE")).await.unwrap();
    t.member("EVE").await;
}

#[tokio::test]
async fn a_join_token_has_a_limited_number_of_uses_and_a_limited_lifetime() {
    let mut t = Team::new().await;
    let request = v1::InviteRequest { uses_max: 2, ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.lead.who, &request).await.unwrap().join_token);
    t.try_join(&token, join_as("a")).await.unwrap();
    t.try_join(&token, join_as("b")).await.unwrap();
    let used = t.try_join(&token, join_as("c"));
    t.refused(used, Code::Unauthenticated, Reason::JoinTokenUsed, "").await;

    let token = presented(&t.invite("").await);
    t.pass(15 * 60 * SECOND).await;
    let expired = t.try_join(&token, join_as("c"));
    t.refused(expired, Code::Unauthenticated, Reason::JoinTokenExpired, "").await;
    for (uses_max, field) in [(1_001, "uses_max")] {
        let request = v1::InviteRequest { uses_max, ..Default::default() };
        let call = t.coordinator.invite(&t.lead.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, field).await;
    }
}

#[tokio::test]
async fn a_member_begins_a_new_life_with_its_credential_and_the_lead_gets_a_notice() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.send(&t.lead, message("bob", "x")).await;
    let mut old = t.open(&bob).await;
    old.delivery().await;
    let new = t.rejoin(&bob).await;
    assert_eq!(old.closing().await.reason(), v1::CloseReason::Superseded);
    assert_eq!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.len(), 1);
    let member = t.member("bob").await;
    assert_eq!((member.incarnation, member.state()), (2, MemberState::Joined));
    let aborted = (Code::Aborted, Reason::SessionSuperseded);
    t.refused(t.try_send(&bob, message("lead", "x")), aborted.0, aborted.1, "").await;
    t.refused(t.try_leave(&bob, 0), aborted.0, aborted.1, "").await;
    t.refused(t.try_join(&bob, Default::default()), aborted.0, aborted.1, "").await;
    let other_name = t.try_join(&new, join_as("eve"));
    t.refused(other_name, Code::PermissionDenied, Reason::NotPermitted, "name").await;
    // The inbox stays, and what the old life has seen is marked.
    assert_eq!(t.open(&new).await.delivery().await.delivery_count, 2);
}

#[tokio::test]
async fn a_restarted_members_crash_reaches_the_lead_and_the_history_with_its_exit() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let crashed = |code| v1::JoinRequest {
        previous_exit: Some(v1::ExitReport { code: Some(code), ..Default::default() }),
        ..Default::default()
    };
    let mut bob = bob;
    for code in [3, 4, 5] {
        let reply = t.try_join(&bob, crashed(code)).await.unwrap();
        bob = Member::new("bob", &reply.credential);
        t.pass(if code == 3 { 5 * 60 * SECOND } else { 6 * 60 * SECOND }).await;
    }
    let told = t.notices(&t.lead, NoticeKind::MemberRestarted).await;
    // The lead has read none of them, so one notice counts all three and has the latest exit.
    let texts: Vec<_> = told.iter().map(|notice| (notice.text.as_str(), notice.count)).collect();
    assert_eq!(texts, [("bob crashed (exit code 5) and was restarted, 2nd time in 10 min.", 3)]);
    assert_eq!(told[0].exit.as_ref().unwrap().code, Some(5));
    assert!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.is_empty());
    assert!(t.notices(&t.lead, NoticeKind::MemberExited).await.is_empty());
    let member = t.member("bob").await;
    assert_eq!((member.incarnation, member.state(), member.exit), (4, MemberState::Joined, None));
    let exits = t.history().await.into_iter().filter_map(|entry| match entry.event {
        Some(Event::Member(event)) if event.member == "bob" => Some((event.incarnation, event.state(), event.detail)),
        _ => None,
    });
    let exits: Vec<_> = exits.filter(|(_, state, _)| *state == MemberState::Exited).collect();
    assert_eq!(exits[0], (1, MemberState::Exited, "exit code 3".to_owned()));
    assert_eq!(exits.len(), 3);

    // After an exit that was reported, there is nothing to add.
    t.leave(&bob).await;
    let reply = t.try_join(&bob, crashed(6)).await.unwrap();
    bob = Member::new("bob", &reply.credential);
    let told = t.notices(&t.lead, NoticeKind::MemberRestarted).await;
    assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [3]);
    let invalid = t.try_join(&bob, crashed(256));
    t.refused(invalid, Code::InvalidArgument, Reason::InvalidField, "previous_exit").await;
}

#[tokio::test]
async fn an_exit_after_an_approved_shutdown_reports_the_approval_and_the_runners_action() {
    use v1::RunnerAction;
    for (code, signal, action, text) in [
        (Some(0), 0, RunnerAction::None, "bob approved its shutdown and ended with code 0."),
        (None, 15, RunnerAction::Sigterm, "bob approved its shutdown; its runner ended it with SIGTERM."),
    ] {
        let (t, [bob]) = Team::of(["bob"]).await;
        let id = t.ask(&t.lead, shutdown("bob")).await;
        t.send(&bob, approve(&id)).await;
        // Only the coordinator knows what was approved.
        let forged = "req_forged".to_owned();
        let runner_action = action.into();
        let exit = v1::ExitReport { code, signal, runner_action, approved_request_id: forged, ..Default::default() };
        let request = v1::LeaveRequest { exit: Some(exit), ..Default::default() };
        t.coordinator.leave(&bob.who, &request).await.unwrap();
        t.coordinator.leave(&bob.who, &request).await.unwrap();
        let told = t.notices(&t.lead, NoticeKind::MemberExited).await;
        let texts: Vec<_> = told.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(texts, [text]);
        let exit = t.member("bob").await.exit.unwrap();
        assert_eq!((exit.approved_request_id, exit.runner_action), (id, runner_action));
    }
    let (t, [bob]) = Team::of(["bob"]).await;
    let exit = v1::ExitReport { approved_request_id: "req_forged".to_owned(), code: Some(0), ..Default::default() };
    t.coordinator.leave(&bob.who, &v1::LeaveRequest { exit: Some(exit), ..Default::default() }).await.unwrap();
    assert_eq!(t.member("bob").await.exit.unwrap().approved_request_id, "");
}

#[tokio::test]
async fn the_name_of_an_exited_member_can_be_joined_and_keeps_its_spelling_and_inbox() {
    let (t, [bob]) = Team::of(["Bob"]).await;
    t.send(&t.lead, message("bob", "x")).await;
    t.leave(&bob).await;
    let new = t.join("BOB").await;
    assert_eq!((new.name.as_str(), t.member("Bob").await.incarnation), ("Bob", 2));
    assert_eq!(t.inbox(&new).await.len(), 1);
}

#[tokio::test]
async fn only_a_member_that_was_shut_down_needs_a_new_token_to_rejoin() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    let stopped = (Code::FailedPrecondition, Reason::MemberStopped);
    t.refused(t.try_join(&bob, Default::default()), stopped.0, stopped.1, "").await;
    t.leave(&bob).await;
    t.refused(t.try_join(&bob, Default::default()), stopped.0, stopped.1, "").await;
    t.refused(t.try_send(&bob, message("lead", "x")), stopped.0, stopped.1, "").await;
    assert_eq!(t.join("bob").await.name, "bob");
    // A member that exited by itself may begin a new life.
    t.leave(&eve).await;
    t.refused(t.try_send(&eve, message("lead", "x")), stopped.0, stopped.1, "").await;
    t.rejoin(&eve).await;
    assert_eq!(t.member("eve").await.incarnation, 2);
}

#[tokio::test]
async fn an_exit_is_reported_once_to_the_lead_and_in_the_history() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.try_leave(&bob, 3).await.unwrap();
    t.try_leave(&bob, 3).await.unwrap();
    t.coordinator.leave(&bob.who, &v1::LeaveRequest::default()).await.unwrap();
    let told = t.notices(&t.lead, NoticeKind::MemberExited).await;
    assert_eq!((told.len(), told[0].exit.as_ref().unwrap().code), (1, Some(3)));
    let member = t.member("bob").await;
    assert_eq!(
        (member.state(), member.exit.unwrap().code, member.lease_left),
        (MemberState::Exited, Some(3), Some(prost_types::Duration::default()))
    );
    let bad = Code::InvalidArgument;
    t.refused(t.try_leave(&bob, 256), bad, Reason::InvalidField, "exit").await;
}

#[tokio::test]
async fn going_idle_tells_the_lead_once_with_the_last_summary() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    assert_eq!(t.heartbeat(&bob, Activity::Active, "tests written").await.state(), MemberState::Active);
    let said_at = t.member("bob").await.last_summary_at;
    assert!(said_at.is_some() && t.member("lead").await.last_summary_at.is_none());
    t.clock.advance(Duration::from_secs(1));
    assert_eq!(t.heartbeat(&bob, Activity::Idle, "").await.state(), MemberState::Idle);
    assert_eq!(t.heartbeat(&bob, Activity::Unspecified, "").await.state(), MemberState::Idle);
    t.heartbeat(&bob, Activity::Idle, "").await;
    let told = t.notices(&t.lead, NoticeKind::Idle).await;
    assert_eq!(told.len(), 1);
    assert!(told[0].text.contains("tests written"));
    let member = t.member("bob").await;
    assert_eq!((member.state(), member.last_summary.as_str()), (MemberState::Idle, "tests written"));
    assert_eq!(member.last_summary_at, said_at, "it has said nothing since");
    assert_ne!(member.state_since, said_at);
    // Another notice does not join one that is unprocessed: it replaces it after a while.
    t.heartbeat(&bob, Activity::Active, "").await;
    t.heartbeat(&bob, Activity::Idle, "").await;
    t.pass_and_run_due(Duration::from_secs(11), &[&bob, &t.lead.clone()]).await;
    let told = t.notices(&t.lead, NoticeKind::Idle).await;
    assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [2]);
    let request = v1::HeartbeatRequest { summary: "a\nb".to_owned(), ..Default::default() };
    let call = t.coordinator.heartbeat(&bob.who, &request);
    t.refused(call, Code::InvalidArgument, Reason::InvalidSummary, "summary").await;
}

#[tokio::test]
async fn a_work_failure_is_reported_to_the_lead_and_does_not_change_the_members_state() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = uuid::Uuid::now_v7().to_string();
    let exit = |code| Some(v1::ExitReport { code: Some(code), ..Default::default() });
    let failed = |failure| v1::HeartbeatRequest { failure: Some(failure), ..Default::default() };
    let at = |message_id: &str, messages| v1::WorkFailure {
        exit: exit(3),
        message_id: message_id.to_owned(),
        messages,
        ..Default::default()
    };
    t.heartbeat(&bob, Activity::Idle, "").await;
    t.coordinator.heartbeat(&bob.who, &failed(at(&id, 1))).await.unwrap();
    let told = t.notices(&t.lead, NoticeKind::WorkFailed).await;
    assert!(
        told[0].text.starts_with(&format!("bob's program failed on message {id} (exit code 3).")),
        "{}",
        told[0].text
    );
    assert_eq!((told[0].message_id.as_str(), told[0].count, told[0].important), (id.as_str(), 1, true));
    assert_eq!(t.member("bob").await.state(), MemberState::Idle);

    t.coordinator.heartbeat(&bob.who, &failed(at(&id, 3))).await.unwrap();
    t.pass_and_run_due(Duration::from_secs(11), &[&bob, &t.lead.clone()]).await;
    let told = t.notices(&t.lead, NoticeKind::WorkFailed).await;
    assert!(told[0].text.contains("failed on a batch of 3 messages"), "{}", told[0].text);
    assert_eq!((told.len(), told[0].count), (1, 2));

    // A program that is still running fails once more on the same message, on a task that does not exist, and on its
    // first prompt.
    let is_running = |message_id: &str, attempts| v1::WorkFailure {
        exit: None,
        error: "API Error: 400 too long".to_owned(),
        attempts,
        ..at(message_id, 1)
    };
    t.coordinator.heartbeat(&bob.who, &failed(is_running(&id, 3))).await.unwrap();
    t.pass_and_run_due(Duration::from_secs(11), &[&bob, &t.lead.clone()]).await;
    let told = t.notices(&t.lead, NoticeKind::WorkFailed).await;
    let text =
        format!("bob's program failed 3 times on message {id} (API Error: 400 too long). Its runner tries again");
    assert!(told[0].text.starts_with(&text), "{}", told[0].text);
    assert_eq!((told.len(), told[0].count, &told[0].exit, &told[0].message_id), (1, 3, &None, &id));
    t.coordinator.heartbeat(&bob.who, &failed(is_running("", 6))).await.unwrap();
    t.pass_and_run_due(Duration::from_secs(11), &[&bob, &t.lead.clone()]).await;
    let told = t.notices(&t.lead, NoticeKind::WorkFailed).await;
    assert!(told[0].text.starts_with("bob's program failed 6 times on its first prompt (API"), "{}", told[0].text);
    let two_lines = v1::WorkFailure { error: "a\nb".to_owned(), ..is_running(&id, 1) };

    let lead = t.lead.clone();
    t.coordinator.heartbeat(&lead.who, &failed(at(&id, 1))).await.unwrap();
    assert_eq!(t.notices(&lead, NoticeKind::WorkFailed).await[0].count, 4, "the lead needs no notice about itself");
    for (failure, reason, field) in [
        (v1::WorkFailure { exit: exit(0), ..at(&id, 1) }, Reason::InvalidField, "failure.exit"),
        (v1::WorkFailure { exit: exit(256), ..at(&id, 1) }, Reason::InvalidField, "failure.exit"),
        (v1::WorkFailure { exit: None, ..at(&id, 1) }, Reason::InvalidField, "failure.exit"),
        (at("x", 1), Reason::InvalidMessageId, "failure.message_id"),
        (at("", 1), Reason::InvalidMessageId, "failure.message_id"),
        (two_lines, Reason::InvalidField, "failure.error"),
    ] {
        let request = failed(failure);
        let call = t.coordinator.heartbeat(&bob.who, &request);
        t.refused(call, Code::InvalidArgument, reason, field).await;
    }
}

#[tokio::test]
async fn a_member_becomes_lost_after_its_lease_and_grace_and_live_with_its_next_call() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let lead = t.lead.clone();
    t.pass_and_run_due(35 * SECOND, &[&lead]).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Joined, "the grace is not over");
    t.pass(11 * SECOND).await;
    // A coordinator that may itself have been away loses nobody.
    t.coordinator.carry_out_due(&t.namespace, &t.leases().await, false).await.unwrap();
    assert_eq!(t.member("bob").await.state(), MemberState::Joined);
    for _ in 0..2 {
        t.run_due().await;
    }
    assert_eq!(t.member("bob").await.state(), MemberState::Lost);
    assert_eq!(t.notices(&t.lead, NoticeKind::MemberLost).await.len(), 1);
    // Its credential is still good, and it is alive again with the next sign.
    t.send(&bob, message("lead", "here I am")).await;
    t.heartbeat(&bob, Activity::Unspecified, "").await;
    assert_eq!(t.member("bob").await.state(), MemberState::Active);
    t.run_due().await;
    assert_eq!(t.member("bob").await.state(), MemberState::Active);
}

#[tokio::test]
async fn a_member_that_calls_is_not_lost() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let lead = t.lead.clone();
    for _ in 0..4 {
        t.pass_and_run_due(29 * SECOND, &[&lead, &bob]).await;
    }
    assert_eq!(t.member("bob").await.state(), MemberState::Joined);
}

#[tokio::test]
async fn a_missing_exit_is_reported_once_and_the_member_exits_when_its_lease_ends() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let lead = t.lead.clone();
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    t.pass_and_run_due(20 * SECOND, &[&lead, &bob]).await;
    assert!(t.notices(&t.lead, NoticeKind::MemberNotExited).await.is_empty());
    for _ in 0..3 {
        t.pass_and_run_due(11 * SECOND, &[&lead, &bob]).await;
        assert_eq!(t.notices(&t.lead, NoticeKind::MemberNotExited).await.len(), 1);
    }
    assert_eq!(t.member("bob").await.state(), MemberState::Stopping, "as long as it calls");
    t.pass_and_run_due(46 * SECOND, &[&lead]).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Exited);
    let told = t.notices(&t.lead, NoticeKind::MemberExited).await;
    assert_eq!((told.len(), told[0].exit.as_ref().unwrap().code), (1, None), "how is not known");
    // The report that comes after all is news.
    t.try_leave(&bob, 0).await.unwrap();
    assert_eq!(t.member("bob").await.exit.unwrap().code, Some(0));
    assert_eq!(t.notices(&t.lead, NoticeKind::MemberNotExited).await.len(), 1);
}

#[tokio::test]
async fn a_member_that_leaves_under_a_runner_is_stopping_until_its_exit_is_reported() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut session = t.open(&bob).await;
    let exit = Some(v1::ExitReport { detail: "I am done".to_owned(), ..Default::default() });
    let leaving = v1::LeaveRequest { exit, exit_follows: true };
    for _ in 0..2 {
        t.coordinator.leave(&bob.who, &leaving).await.unwrap();
    }
    assert_eq!(t.member("bob").await.state(), MemberState::Stopping);
    let closing = session.closing().await;
    assert_eq!((closing.reason(), closing.request_id.as_str()), (v1::CloseReason::ShutdownApproved, ""));
    let stopped = (Code::FailedPrecondition, Reason::MemberStopped);
    t.refused(t.try_send(&bob, message("lead", "x")), stopped.0, stopped.1, "").await;
    assert!(t.notices(&t.lead, NoticeKind::MemberExited).await.is_empty());
    t.try_leave(&bob, 4).await.unwrap();
    let events = t.history().await.into_iter().filter_map(|entry| match entry.event {
        Some(Event::Member(event)) if event.member == "bob" => Some((event.state(), event.detail)),
        _ => None,
    });
    let ended: Vec<_> = events.skip_while(|(state, _)| *state != MemberState::Stopping).collect();
    let expected = [(MemberState::Stopping, "I am done"), (MemberState::Exited, "exit code 4")];
    assert_eq!(ended, expected.map(|(state, detail)| (state, detail.to_owned())));
    assert_eq!(t.notices(&t.lead, NoticeKind::MemberExited).await.len(), 1);
    t.coordinator.leave(&bob.who, &leaving).await.unwrap();
    assert_eq!(t.member("bob").await.state(), MemberState::Exited);
    // It was not asked to leave, so it may come back.
    t.rejoin(&bob).await;
    assert_eq!(t.member("bob").await.incarnation, 2);
}

#[tokio::test]
async fn a_member_leaves_while_the_store_is_full() {
    for exit_follows in [false, true] {
        let full = Fillable::new();
        let t = Team::on(full.clone(), |_| {}).await;
        let bob = t.join("bob").await;
        full.fill();
        t.refused(t.try_send(&bob, message("lead", "x")), Code::ResourceExhausted, Reason::StoreFull, "").await;
        t.coordinator.leave(&bob.who, &v1::LeaveRequest { exit_follows, ..Default::default() }).await.unwrap();
        let state = if exit_follows { MemberState::Stopping } else { MemberState::Exited };
        assert_eq!(t.member("bob").await.state(), state);
        t.try_leave(&bob, 0).await.unwrap();
        assert_eq!(t.member("bob").await.state(), MemberState::Exited);
    }
}

#[tokio::test]
async fn a_forced_stop_cuts_off_the_member_at_once_is_recorded_and_may_be_repeated() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut session = t.open(&bob).await;
    assert_eq!(t.try_force(&t.lead, "Bob").await.unwrap().state(), MemberState::Stopping);
    let stopped = (Code::FailedPrecondition, Reason::MemberStopped);
    for request in [message("lead", "x"), broadcast("x"), plan("x"), approve(&unknown_request())] {
        t.refused(t.try_send(&bob, request), stopped.0, stopped.1, "").await;
    }
    t.refused(t.coordinator.open_session(&bob.who, &Default::default()), stopped.0, stopped.1, "").await;
    t.refused(t.ack(&bob, &[]), stopped.0, stopped.1, "").await;
    t.refused(t.coordinator.heartbeat(&bob.who, &Default::default()), stopped.0, stopped.1, "").await;
    assert_eq!(session.closing().await.reason(), v1::CloseReason::MemberStopped);
    let forced = t.history().await.into_iter().filter_map(|entry| match entry.event {
        Some(Event::Member(event)) => event.forced_by.map(|by| (by.name, event.member, event.detail)),
        _ => None,
    });
    let forced = forced.collect::<Vec<_>>();
    assert_eq!(forced, [("lead".to_owned(), "bob".to_owned(), "it does not answer".to_owned())]);
    let before = t.history().await;
    t.try_force(&t.lead, "bob").await.unwrap();
    assert_eq!(t.history().await, before, "again is fine");
    let gone = t.try_send(&t.lead, message("bob", "x"));
    t.refused(gone, Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
    t.leave(&bob).await;
    t.refused(t.try_force(&t.lead, "bob"), Code::FailedPrecondition, Reason::AgentExited, "member").await;
    t.refused(t.try_force(&t.lead, "lead"), Code::InvalidArgument, Reason::SelfRecipient, "member").await;
    t.refused(t.try_force(&t.lead, ""), Code::InvalidArgument, Reason::MissingRecipient, "member").await;
    t.refused(t.try_force(&t.lead, "zed"), Code::NotFound, Reason::AgentNotFound, "member").await;
}

#[tokio::test]
async fn the_lead_hands_over_its_role_and_both_get_a_notice() {
    let (t, [bob]) = Team::of(["bob"]).await;
    assert_eq!(t.try_set_lead(&t.lead, "bob").await.unwrap().lead, "bob");
    for member in [&t.lead, &bob] {
        assert_eq!(t.notices(member, NoticeKind::LeadChanged).await.len(), 1);
    }
    assert_eq!((t.member("bob").await.role(), t.member("lead").await.role()), (Role::Lead, Role::Teammate));
    t.refused(t.try_send(&t.lead, shutdown("bob")), Code::PermissionDenied, Reason::LeadOnly, "").await;
    t.send(&bob, shutdown("lead")).await;
    let nobody = t.try_set_lead(&bob, "zed");
    t.refused(nobody, Code::NotFound, Reason::AgentNotFound, "member").await;
}

#[tokio::test]
async fn a_new_lead_is_handed_the_plans_that_await_an_answer() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let id = t.ask(&ann, plan("dig a well")).await;
    let done = t.ask(&ann, plan("dig a deeper well")).await;
    t.try_set_lead(&t.lead, "bob").await.unwrap();
    let handed: Vec<_> = t.inbox(&bob).await.into_iter().filter(|message| !message.request_id.is_empty()).collect();
    assert_eq!(handed.len(), 1, "the older plan was cancelled: {handed:?}");
    assert_eq!(
        (handed[0].request_id.as_str(), handed[0].sender.clone().unwrap().name.as_str()),
        (done.as_str(), "ann")
    );
    let Some(Body::PlanApprovalRequest(body)) = &handed[0].body else { panic!("{handed:?}") };
    assert_eq!(body.plan, "dig a deeper well");
    t.send(&bob, answer_plan("ann", &done, Some(true), "")).await;
    assert_eq!(t.request(&done).await.state(), v1::RequestState::Approved);
    assert_eq!(t.request(&id).await.state(), v1::RequestState::Cancelled);
}

#[tokio::test]
async fn the_operator_appoints_a_lead_only_when_the_old_one_is_gone() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let by_operator = t.try_set_lead(&t.operator, "bob");
    t.refused(by_operator, Code::FailedPrecondition, Reason::LeadActive, "").await;
    t.pass_and_run_due(46 * SECOND, &[&bob]).await;
    assert_eq!(t.member("lead").await.role(), Role::Lead, "nobody is promoted by itself");
    t.try_set_lead(&t.operator, "bob").await.unwrap();
    t.send(&bob, shutdown("lead")).await;
    // The old lead comes back as a teammate.
    let old = t.rejoin(&t.lead).await;
    t.refused(t.try_send(&old, shutdown("bob")), Code::PermissionDenied, Reason::LeadOnly, "").await;
}

#[tokio::test]
async fn a_lead_that_comes_back_with_its_credential_leads_again() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.pass_and_run_due(46 * SECOND, &[&bob]).await;
    assert_eq!(t.member("lead").await.state(), MemberState::Lost);
    t.send(&bob, message("team-lead", "it waits")).await;
    let lead = t.rejoin(&t.lead).await;
    assert_eq!(t.inbox(&lead).await.len(), 1);
    t.send(&lead, shutdown("bob")).await;
    // But not with a token for any name.
    t.leave(&lead).await;
    let request = v1::InviteRequest { team: "alpha".to_owned(), ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.operator, &request).await.unwrap().join_token);
    let taken = t.try_join(&token, join_as("lead"));
    t.refused(taken, Code::AlreadyExists, Reason::MemberExists, "name").await;
}

#[tokio::test]
async fn a_full_team_refuses_a_join_until_a_member_leaves() {
    let t = Team::with_limits(|limits| limits.members_max = 2).await;
    let bob = t.join("bob").await;
    let token = presented(&t.invite("").await);
    let full = t.try_join(&token, join_as("eve"));
    t.refused(full, Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    t.leave(&bob).await;
    t.try_join(&token, join_as("bob")).await.unwrap();
}

#[tokio::test]
async fn the_name_of_a_lost_member_can_be_joined_and_its_requests_are_cancelled() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.pass_and_run_due(46 * SECOND, &[&t.lead.clone()]).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Pending, "it may still answer");
    let new = t.join("bob").await;
    assert_eq!(t.request(&id).await.state(), RequestState::Cancelled);
    t.refused(t.try_send(&bob, approve(&id)), Code::Aborted, Reason::SessionSuperseded, "").await;
    assert!(t.inbox(&new).await.is_empty());
}

#[tokio::test]
async fn a_lost_member_that_approves_its_shutdown_has_time_to_end() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let lead = t.lead.clone();
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.pass_and_run_due(60 * SECOND, &[&lead]).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Lost);
    t.send(&bob, approve(&id)).await;
    t.run_due().await;
    assert_eq!(t.member("bob").await.state(), MemberState::Stopping, "its process is still there");
}

#[tokio::test]
async fn a_repeated_join_returns_the_same_credential() {
    let t = Team::new().await;
    let token = presented(&t.invite("bob").await);
    let labels: std::collections::HashMap<_, _> = (0..8).map(|n| (format!("k{n}"), n.to_string())).collect();
    let told = |labels: &std::collections::HashMap<String, String>| {
        // A new map each time, so that the order in the encoding differs.
        let labels = labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Some(v1::MemberAttributes { labels, ..Default::default() })
    };
    let request = |labels| v1::JoinRequest { attributes: told(labels), idempotency_key: "k".to_owned(), ..join_as("") };
    let first = t.try_join(&token, request(&labels)).await.unwrap();
    for coordinator in [&t.coordinator, &t.another_coordinator().await] {
        for _ in 0..4 {
            let again = coordinator.join(&token, &request(&labels)).await.unwrap();
            assert_eq!(again.credential, first.credential);
        }
    }
    assert_eq!(t.member("bob").await.incarnation, 1);
    let mut others = labels.clone();
    others.insert("k0".to_owned(), "other".to_owned());
    let other = t.try_join(&token, request(&others));
    t.refused(other, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;
    let other = v1::JoinRequest { idempotency_key: "k".to_owned(), ..join_as("bob") };
    let other = t.try_join(&token, other);
    t.refused(other, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;

    // And so does a repeated beginning of a new life, though the credential that it presents is a former one by then.
    let bob = presented(&first.credential);
    let request = v1::JoinRequest { idempotency_key: "k2".to_owned(), ..Default::default() };
    let second = t.try_join(&bob, request.clone()).await.unwrap();
    assert_eq!(t.try_join(&bob, request).await.unwrap().credential, second.credential);
    assert_eq!(t.member("bob").await.incarnation, 2);
}

#[tokio::test]
async fn only_one_of_many_concurrent_joins_gets_the_name() {
    let t = Team::new().await;
    let other = t.another_coordinator().await;
    let request = v1::InviteRequest { uses_max: 10, ..Default::default() };
    let token = presented(&t.coordinator.invite(&t.lead.who, &request).await.unwrap().join_token);
    let bob = join_as("bob");
    let calls = (0..10).map(|n| if n % 2 == 0 { &t.coordinator } else { &other }).map(|c| c.join(&token, &bob));
    let replies = futures::future::join_all(calls).await;
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 1);
    for refusal in replies.into_iter().filter_map(Result::err) {
        assert_eq!(refusal.reason, Reason::MemberExists);
    }
    // Each of those that were refused may still use the token.
    for n in 0..9 {
        t.try_join(&token, join_as(&format!("other{n}"))).await.unwrap();
    }
    let used = t.try_join(&token, join_as("eve"));
    t.refused(used, Code::Unauthenticated, Reason::JoinTokenUsed, "").await;
}

#[tokio::test]
async fn member_that_keeps_rejoining_pushes_nothing_out_of_the_history() {
    let (mut t, [mut bob]) = Team::of(["bob"]).await;
    let joined = async |t: &Team| {
        let entries = t.history().await;
        let events = entries.into_iter().filter_map(|entry| match entry.event {
            Some(Event::Member(event)) if event.member == "bob" => Some(event),
            _ => None,
        });
        events.collect::<Vec<_>>()
    };
    for _ in 0..40 {
        bob = t.rejoin(&bob).await;
    }
    t.try_leave(&bob, 0).await.unwrap();
    assert_eq!(joined(&t).await.len(), 30, "neither the other lives nor the end of the last one");
    assert_eq!(t.member("bob").await.incarnation, 41);

    t.pass(Duration::from_secs(600)).await;
    bob = t.rejoin(&bob).await;
    let last = joined(&t).await.pop().unwrap();
    assert_eq!((last.state(), last.incarnation), (MemberState::Joined, 42));
    assert!(last.detail.contains("leaves out 11 of its lives"), "{}", last.detail);
    t.try_leave(&bob, 0).await.unwrap();
    assert_eq!(joined(&t).await.pop().unwrap().state(), MemberState::Exited);
}
