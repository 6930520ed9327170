//! Shutdowns and plans: one state machine, bound to one life of a member.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, CancelCause, NoticeKind, RequestKind, RequestState, message::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn an_approved_shutdown_stops_the_member_and_tells_the_requester_in_one_step() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let asked = t.send(&t.lead, shutdown("bob")).await;
    assert_eq!(asked.recipients, ["bob"]);
    assert_eq!(t.member("bob").await.pending_shutdown, asked.request_id);
    let pending = t.request(&asked.request_id).await;
    assert_eq!((pending.state(), pending.kind()), (RequestState::Pending, RequestKind::Shutdown));
    assert_eq!((pending.member.as_str(), pending.incarnation), ("bob", 1));

    let before = t.history().await.len();
    let reply = t.send(&bob, answer(&asked.request_id, Some(true), "all done")).await;
    assert_eq!(
        (reply.request_id.as_str(), reply.recipients.as_slice()),
        (&*asked.request_id, &["lead".to_owned()][..])
    );
    assert!(reply.warnings.is_empty() && !reply.replayed);
    let told = t.inbox(&t.lead).await.pop().unwrap();
    assert_eq!(told.request_id, asked.request_id);
    assert!(matches!(told.body, Some(Body::ShutdownResponse(answer)) if answer.approve == Some(true)));
    let decided = t.request(&asked.request_id).await;
    assert_eq!((decided.state(), decided.reason.as_str()), (RequestState::Approved, "all done"));
    assert_eq!(decided.decided_by.unwrap().name, "bob");
    let member = t.member("bob").await;
    assert_eq!((member.state(), member.pending_shutdown.as_str()), (v1::MemberState::Stopping, ""));
    assert_eq!(t.history().await.len(), before + 3, "the message, the decision, the member's state");
}

#[tokio::test]
async fn a_rejected_shutdown_changes_nothing_but_the_request() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let reply = t.send(&bob, reject(&id, "tests still run")).await;
    assert!(reply.warnings.is_empty());
    let told = t.inbox(&t.lead).await.pop().unwrap();
    assert!(matches!(told.body, Some(Body::ShutdownResponse(answer)) if answer.reason == "tests still run"));
    let member = t.member("bob").await;
    assert_eq!((member.state(), member.pending_shutdown.as_str()), (v1::MemberState::Joined, ""));
    t.send(&bob, message("lead", "still here")).await;
    t.send(&t.lead, shutdown("bob")).await;
}

#[tokio::test]
async fn rejecting_without_a_reason_is_accepted_with_a_warning() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    assert_eq!(t.send(&bob, reject(&id, "")).await.warnings.len(), 1);
    let id = t.ask(&bob, plan("p")).await;
    assert_eq!(t.send(&t.lead, answer_plan("bob", &id, Some(false), "")).await.warnings.len(), 1);
}

#[tokio::test]
async fn the_same_answer_again_is_replayed_and_changes_nothing() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let first = t.send(&bob, reject(&id, "busy")).await;
    let before = t.history().await;
    let again = t.send(&bob, reject(&id, "busy, as I said")).await;
    assert!(again.replayed);
    assert_eq!((&again.request_id, &again.message_id), (&id, &first.message_id));
    assert_eq!(again.recipients, first.recipients);
    assert_eq!(t.history().await, before);
    // Also from a member that is stopping because of it.
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    assert!(t.send(&bob, approve(&id)).await.replayed);
}

#[tokio::test]
async fn one_shutdown_request_is_pending_at_a_time_and_the_refusal_names_it() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let again = t.try_send(&t.lead, shutdown("BOB@alpha"));
    let refusal = t.refused(again, Code::AlreadyExists, Reason::ShutdownPending, "").await;
    assert_eq!(refusal.metadata["request_id"], id);
    let by_operator = t.try_send(&t.operator, in_alpha(shutdown("bob")));
    t.refused(by_operator, Code::AlreadyExists, Reason::ShutdownPending, "").await;
}

#[tokio::test]
async fn an_unanswered_shutdown_request_expires_and_the_requester_gets_a_notice() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.pass_and_run_due(9 * MINUTE, &[&t.lead.clone(), &bob]).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Pending);
    t.pass(MINUTE).await;
    // Too late already, whether or not anybody has swept.
    let late = t.try_send(&bob, approve(&id));
    t.refused(late, Code::FailedPrecondition, Reason::RequestExpired, "request_id").await;
    t.run_due().await;
    assert_eq!(t.request(&id).await.state(), RequestState::Expired);
    let told = t.notices(&t.lead, NoticeKind::RequestExpired).await;
    assert_eq!((told.len(), told[0].request_id.as_str(), told[0].member.as_str()), (1, &*id, "bob"));
    t.run_due().await;
    assert_eq!(t.notices(&t.lead, NoticeKind::RequestExpired).await.len(), 1, "once");
    let late = t.try_send(&bob, approve(&id));
    t.refused(late, Code::FailedPrecondition, Reason::RequestExpired, "request_id").await;
    assert_ne!(t.ask(&t.lead, shutdown("bob")).await, id);
}

#[tokio::test]
async fn a_new_shutdown_request_takes_the_place_of_one_that_is_overdue() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let old = t.ask(&t.lead, shutdown("bob")).await;
    t.pass(10 * MINUTE).await;
    let new = t.ask(&t.lead, shutdown("bob")).await;
    assert_eq!(t.request(&old).await.state(), RequestState::Expired);
    assert_eq!(t.notices(&t.lead, NoticeKind::RequestExpired).await.len(), 1);
    t.send(&bob, approve(&new)).await;
}

#[tokio::test]
async fn a_plan_expires_after_a_day_and_its_author_gets_a_notice() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, plan("p")).await;
    t.pass_and_run_due(24 * 60 * MINUTE, &[&t.lead.clone(), &bob]).await;
    assert_eq!(t.request(&id).await.state(), RequestState::Expired);
    assert_eq!(t.notices(&bob, NoticeKind::RequestExpired).await[0].request_id, id);
    let late = answer_plan("bob", &id, Some(true), "");
    t.refused(t.try_send(&t.lead, late), Code::FailedPrecondition, Reason::RequestExpired, "request_id").await;
}

#[tokio::test]
async fn a_request_is_cancelled_when_the_member_exits_or_is_stopped_by_force() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let (for_bob, for_eve) = (t.ask(&t.lead, shutdown("bob")).await, t.ask(&t.lead, shutdown("eve")).await);
    let plan_of_bob = t.ask(&bob, plan("p")).await;
    t.leave(&bob).await;
    t.try_force(&t.lead, "eve").await.unwrap();
    for (id, cause) in [
        (&for_bob, CancelCause::TargetExited),
        (&plan_of_bob, CancelCause::TargetExited),
        (&for_eve, CancelCause::Forced),
    ] {
        let request = t.request(id).await;
        assert_eq!((request.state(), request.cancel_cause()), (RequestState::Cancelled, cause));
    }
    assert_eq!(t.notices(&t.lead, NoticeKind::RequestCancelled).await.len(), 2);
    let too_late = answer_plan("bob", &plan_of_bob, Some(true), "");
    let cancelled = (Code::FailedPrecondition, Reason::RequestCancelled);
    t.refused(t.try_send(&t.lead, too_late), cancelled.0, cancelled.1, "request_id").await;
    let _ = eve;
}

#[tokio::test]
async fn a_plan_goes_to_the_lead_and_its_answer_to_the_author() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let asked = t.send(&bob, plan("rewrite it")).await;
    assert_eq!(asked.recipients, ["lead"]);
    assert_eq!(t.member("bob").await.pending_plan, asked.request_id);
    let reply = t.send(&t.lead, answer_plan("BOB@Alpha", &asked.request_id, Some(false), "too bold")).await;
    assert_eq!(reply.recipients, ["bob"]);
    let told = t.inbox(&bob).await.pop().unwrap();
    assert!(matches!(told.body, Some(Body::PlanApprovalResponse(answer))
        if answer.recipient == "bob" && answer.feedback == "too bold"));
    assert_eq!(t.member("bob").await.pending_plan, "");
}

#[tokio::test]
async fn an_approved_plan_lets_a_member_work_that_needs_one() {
    let t = Team::new().await;
    let request = v1::InviteRequest { plan_mode_required: true, member: "bob".to_owned(), ..Default::default() };
    let token = t.coordinator.invite(&t.lead.who, &request).await.unwrap().join_token;
    let reply = t.coordinator.join(&presented(&token), &v1::JoinRequest::default()).await.unwrap();
    let bob = Member::new("bob", &reply.credential);
    assert!(t.member("bob").await.plan_required);
    let id = t.ask(&bob, plan("p")).await;
    t.send(&t.lead, answer_plan("bob", &id, Some(false), "no")).await;
    assert!(t.member("bob").await.plan_required);
    let id = t.ask(&bob, plan("q")).await;
    t.send(&t.lead, answer_plan("bob", &id, Some(true), "")).await;
    assert!(!t.member("bob").await.plan_required);
    t.rejoin(&bob).await;
    assert!(t.member("bob").await.plan_required, "each life needs its own plan");
}

#[tokio::test]
async fn a_newer_plan_cancels_the_older_one() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let (old, new) = (t.ask(&bob, plan("p")).await, t.ask(&bob, plan("q")).await);
    assert_eq!(t.request(&old).await.cancel_cause(), CancelCause::NewerPlan);
    t.send(&t.lead, answer_plan("bob", &new, Some(true), "")).await;
    assert_eq!(t.request(&old).await.state(), RequestState::Cancelled, "final");
}

#[tokio::test]
async fn the_operator_can_make_and_answer_requests_like_a_lead() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let asked = t.send(&t.operator, in_alpha(shutdown("bob"))).await;
    let reply = t.send(&bob, reject(&asked.request_id, "busy")).await;
    assert!(reply.recipients.is_empty(), "the operator has no inbox");
    let id = t.ask(&bob, plan("p")).await;
    t.send(&t.operator, in_alpha(answer_plan("bob", &id, Some(true), ""))).await;
    assert_eq!(t.request(&id).await.decided_by.unwrap().kind(), v1::SenderKind::Operator);
    // The lead can be asked by the operator alone.
    let id = t.ask(&t.operator, in_alpha(shutdown("team-lead"))).await;
    t.send(&t.lead, approve(&id)).await;
}

#[tokio::test]
async fn requests_are_visible_only_to_those_they_concern() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let (to_end, to_plan) = (t.ask(&t.lead, shutdown("bob")).await, t.ask(&eve, plan("p")).await);
    let list = async |who: &Member| {
        let found = t.coordinator.list_requests(&who.who, &v1::ListRequestsRequest::default()).await.unwrap().requests;
        found.into_iter().map(|request| request.id).collect::<Vec<_>>()
    };
    assert_eq!(list(&t.lead).await, [to_plan.clone(), to_end.clone()], "the newest first");
    assert_eq!(list(&bob).await, std::slice::from_ref(&to_end));
    assert_eq!(list(&eve).await, [to_plan]);
    let hidden = t.coordinator.get_request(&eve.who, "", &to_end);
    t.refused(hidden, Code::NotFound, Reason::RequestNotFound, "request_id").await;
}

/// Durations before now, the smallest one included, whose negation overflows.
const NEGATIVE: [prost_types::Duration; 3] = [
    prost_types::Duration { seconds: -1, nanos: 0 },
    prost_types::Duration { seconds: 0, nanos: -1 },
    prost_types::Duration { seconds: i64::MIN, nanos: -999_999_999 },
];

#[tokio::test]
async fn a_negative_wait_is_refused() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let request_id = t.ask(&t.lead, shutdown("bob")).await;
    for duration in NEGATIVE {
        let timeout = Some(duration);
        let request = v1::WaitForDecisionRequest { request_id: request_id.clone(), timeout, ..Default::default() };
        let call = t.coordinator.wait_for_decision(&t.lead.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, "timeout").await;
        let request = v1::ClaimNextTaskRequest { wait: Some(duration), ..Default::default() };
        let call = t.coordinator.claim_next_task(&bob.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, "wait").await;
    }
}

#[tokio::test]
async fn an_unknown_filter_value_is_refused() {
    let t = Team::new().await;
    for value in [-1, 99, i32::MAX] {
        for (request, field) in [
            (v1::ListRequestsRequest { kind: value, ..Default::default() }, "kind"),
            (v1::ListRequestsRequest { state: value, ..Default::default() }, "state"),
        ] {
            let call = t.coordinator.list_requests(&t.lead.who, &request);
            t.refused(call, Code::InvalidArgument, Reason::InvalidField, field).await;
        }
        let request = v1::ListTasksRequest { status: value, ..Default::default() };
        let call = t.coordinator.list_tasks(&t.lead.who, &request);
        t.refused(call, Code::InvalidArgument, Reason::InvalidField, "status").await;
    }
}

#[tokio::test]
async fn a_call_can_wait_until_a_request_is_decided() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let request = v1::WaitForDecisionRequest { request_id: id.clone(), ..Default::default() };
    let (decided, _) =
        tokio::join!(t.coordinator.wait_for_decision(&t.lead.who, &request), t.try_send(&bob, reject(&id, "busy")));
    assert_eq!(decided.unwrap().state(), RequestState::Rejected);
}

#[tokio::test]
async fn every_request_has_a_unique_id_that_cannot_be_guessed() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let id = t.ask(&bob, plan("p")).await;
        assert_eq!((id.len(), &id[..4]), (30, "req_"));
        ids.insert(id[..20].to_owned());
    }
    assert_eq!(ids.len(), 20);
}

#[tokio::test]
async fn a_repeated_answer_with_its_key_returns_the_first_reply() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let first = t.send(&bob, keyed("k", approve(&id))).await;
    for coordinator in [&t.coordinator, &t.another_coordinator().await] {
        let again = coordinator.send(&bob.who, &keyed("k", approve(&id))).await.unwrap();
        assert!(again.replayed);
        assert_eq!((&again.message_id, &again.recipients), (&first.message_id, &first.recipients));
        assert_eq!(again.sent_at, first.sent_at);
    }
    // A key of another call is refused, even though the answer itself would be a repetition.
    let other = t.try_send(&bob, keyed("k", answer(&id, Some(true), "done")));
    t.refused(other, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;
}

#[tokio::test]
async fn any_number_of_requests_can_expire_at_once() {
    let t = Team::with_limits(|limits| {
        (limits.shutdown_deadline, limits.plan_deadline) = (Duration::ZERO, Duration::ZERO);
    })
    .await;
    let mut ids = Vec::new();
    for n in 0..60 {
        let name = format!("m{n}");
        let member = t.join(&name).await;
        ids.push(t.ask(&t.lead, shutdown(&name)).await);
        ids.push(t.ask(&member, plan("p")).await);
    }
    t.run_due().await;
    for id in ids {
        assert_eq!(t.request(&id).await.state(), RequestState::Expired);
    }
}

#[tokio::test]
async fn a_shutdown_request_never_reaches_the_next_life_of_the_name() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.send(&t.lead, message("bob", "work")).await;
    let asked = t.send(&t.lead, shutdown("bob")).await;
    let successor = t.rejoin(&bob).await;
    let request = t.request(&asked.request_id).await;
    assert_eq!((request.state(), request.cancel_cause()), (RequestState::Cancelled, CancelCause::TargetReplaced));
    assert_eq!(t.notices(&t.lead, NoticeKind::RequestCancelled).await[0].request_id, asked.request_id);
    assert_eq!(t.member("bob").await.pending_shutdown, "");

    let answered = t.try_send(&successor, approve(&asked.request_id));
    t.refused(answered, Code::FailedPrecondition, Reason::RequestCancelled, "request_id").await;
    let listed = t.inbox(&successor).await;
    assert!(matches!(listed[..], [v1::Message { body: Some(Body::Message(_)), .. }]), "{listed:?}");

    let mut session = t.open(&successor).await;
    t.send(&t.lead, message("bob", "more work")).await;
    for sequence in [1, 3] {
        let delivery = session.delivery().await;
        assert_eq!(delivery.sequence, sequence);
        assert!(matches!(delivery.message.unwrap().body, Some(Body::Message(_))));
    }
    let receipt = t.receipts(&asked.message_id).await.remove(0);
    assert_eq!(receipt.state(), v1::ReceiptState::DeadLettered);
    assert_eq!(receipt.dead_letter_cause(), v1::DeadLetterCause::TargetReplaced);
    // A request to the new life does reach it.
    let id = t.ask(&t.lead, shutdown("bob")).await;
    assert_eq!(session.delivery().await.message.unwrap().request_id, id);
    t.send(&successor, approve(&id)).await;
}

#[tokio::test]
async fn a_plan_for_an_exited_lead_is_refused_and_for_a_lost_lead_waits() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.pass_and_run_due(MINUTE, &[&bob]).await;
    assert_eq!(t.member("lead").await.state(), v1::MemberState::Lost);
    t.send(&bob, plan("p")).await;
    t.leave(&t.lead).await;
    t.refused(t.try_send(&bob, plan("q")), Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
}

#[tokio::test]
async fn only_one_of_two_opposite_concurrent_answers_decides() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let other = t.another_coordinator().await;
    for _ in 0..8 {
        let id = t.ask(&bob, plan("p")).await;
        let (yes, no) = (answer_plan("bob", &id, Some(true), ""), answer_plan("bob", &id, Some(false), "no"));
        let by_operator = in_alpha(no);
        let (yes, no) = tokio::join!(t.coordinator.send(&t.lead.who, &yes), other.send(&t.operator, &by_operator));
        let (decided, refused) = if yes.is_ok() { (yes, no) } else { (no, yes) };
        assert!(!decided.unwrap().replayed);
        assert_eq!(refused.unwrap_err().reason, Reason::AlreadyDecided);
    }
}

#[tokio::test]
async fn only_one_of_many_concurrent_shutdown_requests_is_made() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let other = t.another_coordinator().await;
    let (by_lead, by_operator) = (shutdown("bob"), in_alpha(shutdown("bob")));
    let calls = (0..10).map(|n| match n % 2 {
        0 => t.coordinator.send(&t.lead.who, &by_lead),
        _ => other.send(&t.operator, &by_operator),
    });
    let replies = futures::future::join_all(calls).await;
    let made: Vec<_> = replies.iter().flatten().collect();
    assert_eq!(made.len(), 1);
    for refusal in replies.iter().filter_map(|reply| reply.as_ref().err()) {
        assert_eq!((refusal.reason, &refusal.metadata["request_id"]), (Reason::ShutdownPending, &made[0].request_id));
    }
    assert_eq!(t.inbox(&bob).await.len(), 1);
}

#[tokio::test]
async fn a_concurrent_approval_does_not_stop_a_new_life() {
    let t = Team::new().await;
    let other = t.another_coordinator().await;
    for n in 0..8 {
        let bob = t.join(&format!("bob{n}")).await;
        let id = t.ask(&t.lead, shutdown(&bob.name)).await;
        let (yes, again) = (approve(&id), v1::JoinRequest::default());
        let (approved, rejoined) = tokio::join!(t.coordinator.send(&bob.who, &yes), other.join(&bob.who, &again));
        let (member, request) = (t.member(&bob.name).await, t.request(&id).await);
        match (approved, rejoined) {
            (Ok(_), Err(refusal)) => {
                assert_eq!(refusal.reason, Reason::MemberStopped);
                assert_eq!((member.incarnation, member.state()), (1, v1::MemberState::Stopping));
                assert_eq!(request.state(), RequestState::Approved);
            }
            (Err(refusal), Ok(_)) => {
                assert_eq!(refusal.reason, Reason::SessionSuperseded);
                assert_eq!((member.incarnation, member.state()), (2, v1::MemberState::Joined));
                assert_eq!(request.state(), RequestState::Cancelled);
            }
            both => panic!("{both:?}"),
        }
    }
}
