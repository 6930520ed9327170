//! Claims: one task has one owner, for as long as that lives.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, MemberState, NoticeKind, TaskStatus},
};
use tonic::Code;

use crate::{board::*, calls::RuleCalls as _, team::*};

/// Beyond the lease and the grace.
const LONG: Duration = Duration::from_secs(60);

/// Checks that a claim has ended, and that its token is useless to the name's present life.
async fn has_lapsed(t: &Team, id: u64, attempts: u32, former: &Member, token: &str, because: &str) {
    let task = t.task(id).await;
    assert_eq!((task.status(), task.owner.as_str(), task.attempts), (TaskStatus::Pending, "", attempts));
    assert_eq!(task.released_because, because);
    let held = t.listed(v1::ListTasksRequest { status: TaskStatus::InProgress.into(), ..Default::default() }).await;
    assert!(!held.contains(&id), "the board says that the task is claimed");
    let before = t.everything().await;
    for refused in [t.try_complete(former, id, token).await.map(drop), t.try_release(former, id, token).await.map(drop)]
    {
        let reason = refused.unwrap_err().reason;
        let stale = [Reason::StaleClaim, Reason::MemberStopped, Reason::SessionSuperseded];
        assert!(stale.contains(&reason), "{reason}");
    }
    assert_eq!(format!("{before:?}"), format!("{:?}", t.everything().await));
}

/// Checks that a member's old token is refused, and that the member may claim the task again.
async fn is_refused_and_claims_again(t: &Team, member: &Member, id: u64, token: &str) {
    let (code, reason, field) = (Code::Aborted, Reason::StaleClaim, "claim_token");
    t.refused(t.try_complete(member, id, token), code, reason, field).await;
    t.refused(t.try_release(member, id, token), code, reason, field).await;
    let fresh = t.claim(member, id).await;
    assert_ne!(fresh, token);
    t.refused(t.try_complete(member, id, token), code, reason, field).await;
    t.refused(t.try_release(member, id, token), code, reason, field).await;
    t.try_complete(member, id, &fresh).await.unwrap();
}

#[tokio::test]
async fn a_claim_reserves_a_task_for_its_member_until_completion() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(1).await;
    let claim = t.try_claim(&bob, 1).await.unwrap();
    let task = claim.task.unwrap();
    assert_eq!((task.status(), task.owner.as_str(), task.attempts), (TaskStatus::InProgress, "bob", 1));
    assert!(task.claimed_at.is_some());
    assert_eq!(t.coordinator.get_task(&bob.who, "", 1).await.unwrap().claim_token, claim.token);
    assert_eq!(t.coordinator.get_task(&eve.who, "", 1).await.unwrap().claim_token, "");
    assert_eq!(t.next(&eve).await, None);
    let done = t.try_complete(&bob, 1, &claim.token).await.unwrap().task.unwrap();
    assert_eq!((done.status(), done.owner.as_str(), done.result.as_str()), (TaskStatus::Completed, "bob", "done"));
    assert!(done.closed_at.is_some() && done.claimed_at.is_none());
    assert_eq!(done, t.task(1).await);
}

#[tokio::test]
async fn the_next_task_is_the_members_oldest_and_then_the_oldest_without_an_owner() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(2).await;
    t.add(task_for("eve")).await;
    t.add(after(&[1])).await;
    t.add(task_for("bob")).await;
    t.add(task_for("bob")).await;
    let mut taken = Vec::new();
    while let Some(id) = t.next(&bob).await {
        taken.push(id);
    }
    assert_eq!(taken, [5, 6, 1, 2]);
    assert_eq!((t.next(&eve).await, t.next(&eve).await), (Some(3), None));
    t.complete(1).await;
    assert_eq!(t.next(&eve).await, Some(4));
}

#[tokio::test]
async fn claims_and_completions_and_releases_may_be_repeated() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(3).await;
    let key = |key: &str| key.to_owned();
    let one = v1::ClaimTaskRequest { idempotency_key: key("k"), task_id: 1 };
    let next = v1::ClaimNextTaskRequest { idempotency_key: key("k"), wait: None };
    let first = t.coordinator.claim_task(&bob.who, &one).await.unwrap();
    let second = t.coordinator.claim_next_task(&bob.who, &next).await.unwrap().unwrap();
    for coordinator in [t.coordinator.clone(), t.another_coordinator().await] {
        assert_eq!(coordinator.claim_task(&bob.who, &one).await.unwrap(), first);
        // A repeated call may be willing to wait shorter than the first.
        let again = v1::ClaimNextTaskRequest { wait: Some(prost_types::Duration::default()), ..next.clone() };
        assert_eq!(coordinator.claim_next_task(&bob.who, &again).await.unwrap().as_ref(), Some(&second));
    }
    let of_eve = t.coordinator.claim_next_task(&eve.who, &next).await.unwrap().unwrap();
    assert_eq!(of_eve.task.unwrap().id, 3, "another member's key is another key");

    let done = t.try_complete(&bob, 1, &first.token).await.unwrap();
    let back = t.try_release(&bob, 2, &second.token).await.unwrap();
    let before = t.everything().await;
    assert_eq!(t.try_complete(&bob, 1, &first.token).await.unwrap().task, done.task);
    assert_eq!(t.try_release(&bob, 2, &second.token).await.unwrap(), back);
    assert_eq!(format!("{before:?}"), format!("{:?}", t.everything().await), "nothing happens twice");
    // A claim that came after it is not given back by it.
    t.claim(&eve, 2).await;
    t.refused(t.try_release(&bob, 2, &second.token), Code::Aborted, Reason::StaleClaim, "claim_token").await;
}

#[tokio::test]
async fn a_released_task_records_the_reason_and_goes_to_the_next_claimer() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add(task_for("bob")).await;
    let token = t.claim(&bob, 1).await;
    let back = t.try_release(&bob, 1, &token).await.unwrap();
    assert_eq!((back.status(), back.owner.as_str(), back.attempts), (TaskStatus::Pending, "", 1));
    assert_eq!(back.released_because, "too hard");
    assert!(t.notices(&bob, NoticeKind::TaskRevoked).await.is_empty(), "bob knows");
    t.refused(t.try_complete(&bob, 1, &token), Code::Aborted, Reason::StaleClaim, "claim_token").await;
    assert_eq!(t.next(&eve).await, Some(1));
    assert_eq!(t.task(1).await.attempts, 2);
}

#[tokio::test]
async fn the_lead_and_the_operator_complete_and_release_without_a_token() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.add_some(4).await;
    let stale = (Code::Aborted, Reason::StaleClaim, "claim_token");
    for (id, caller) in [(1, &t.lead.who), (2, &t.operator)] {
        let token = t.claim(&bob, id).await;
        t.try_release(caller, id, "").await.unwrap();
        t.refused(t.try_complete(&bob, id, &token), stale.0, stale.1, stale.2).await;
        t.refused(t.try_release(&bob, id, &token), stale.0, stale.1, stale.2).await;
        t.try_release(caller, id, "").await.unwrap();
        let token = t.claim(&bob, id).await;
        let done = t.try_complete(caller, id, "").await.unwrap().task.unwrap();
        assert_eq!((done.owner.as_str(), done.attempts), ("bob", 2));
        // Another member completed it, and bob gets a notice.
        let closed = (Code::FailedPrecondition, Reason::TaskClosed);
        t.refused(t.try_complete(&bob, id, &token), closed.0, closed.1, "task_id").await;
        let before = t.everything().await;
        assert_eq!(t.try_complete(caller, id, "").await.unwrap().task, Some(done), "repeated");
        assert_eq!(format!("{before:?}"), format!("{:?}", t.everything().await));
    }
    t.pass_and_run_due(Duration::from_secs(11), &[&bob, &t.lead.clone()]).await;
    let told = t.notices(&bob, NoticeKind::TaskRevoked).await;
    assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [2, 2], "one for each task");
    // What nobody has claimed, too.
    assert_eq!(t.try_complete(&t.lead, 3, "").await.unwrap().task.unwrap().owner, "lead");
    assert_eq!(t.try_complete(&t.operator, 4, "").await.unwrap().task.unwrap().owner, "");
}

#[tokio::test]
async fn an_exit_returns_claims_and_its_notice_names_them_and_the_tasks_still_assigned() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(3).await;
    t.add(task_for("bob")).await;
    let told = async |member: &Member| {
        t.leave(member).await;
        t.notices(&t.lead, NoticeKind::MemberExited).await.pop().unwrap().text
    };
    let tokens = [t.claim(&bob, 1).await, t.claim(&bob, 2).await];
    let text = told(&bob).await;
    let expected = "Its tasks 1, 2 are back on the board. Task 4 is still assigned to it: reassign it.";
    assert!(text.ends_with(expected), "{text}");
    for (id, token) in [1, 2].into_iter().zip(&tokens) {
        has_lapsed(&t, id, 1, &bob, token, "its owner has exited").await;
    }
    assert_eq!(t.task(4).await.owner, "bob");

    // Also those that wait; and nothing is said of what there is not.
    let eve = t.join("eve").await;
    t.add(v1::CreateTaskRequest { owner: "eve".to_owned(), ..after(&[1]) }).await;
    t.add(task_for("eve")).await;
    let text = told(&eve).await;
    assert!(text.ends_with("exit code 0. Tasks 5, 6 are still assigned to it: reassign them."), "{text}");
    let cid = t.join("cid").await;
    assert!(told(&cid).await.ends_with("exit code 0."));
}

#[tokio::test]
async fn an_exit_notice_lists_a_bounded_number_of_tasks_and_counts_the_rest() {
    let t = Team::with_limits(|limits| limits.claims_max = 100).await;
    let bob = t.join("bob").await;
    for _ in 0..40 {
        t.add(task_for("bob")).await;
    }
    t.leave(&bob).await;
    let text = t.notices(&t.lead, NoticeKind::MemberExited).await.pop().unwrap().text;
    assert!(text.ends_with("31, 32 and 8 more are still assigned to it: reassign them."), "{text}");
}

#[tokio::test]
async fn a_member_stopped_by_force_loses_its_claims_at_once() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(1).await;
    t.add(task_for("bob")).await;
    let token = t.claim(&bob, 1).await;
    t.try_force(&t.lead, "bob").await.unwrap();
    has_lapsed(&t, 1, 1, &bob, &token, "its owner was stopped by force").await;
    assert_eq!(t.next(&eve).await, Some(1));
    t.leave(&bob).await;
    let text = t.notices(&t.lead, NoticeKind::MemberExited).await.pop().unwrap().text;
    assert!(text.ends_with("Task 2 is still assigned to it: reassign it."), "{text}");
    assert_eq!(t.task(1).await.owner, "eve", "the exit takes nothing from others");
}

#[tokio::test]
async fn a_new_life_begins_without_the_claims_of_the_old_one() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    let token = t.claim(&bob, 1).await;
    let again = t.rejoin(&bob).await;
    has_lapsed(&t, 1, 1, &bob, &token, "its owner has begun a new life").await;
    is_refused_and_claims_again(&t, &again, 1, &token).await;
    assert_eq!(t.task(1).await.attempts, 2);
    // What was completed before stays so.
    t.rejoin(&again).await;
    assert_eq!(t.task(1).await.status(), TaskStatus::Completed);
}

#[tokio::test]
async fn two_members_lost_in_one_sweep_both_give_their_claims_back() {
    let (mut t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(4).await;
    let mut tokens = Vec::new();
    for (id, member) in [(1, &bob), (2, &eve), (3, &bob), (4, &eve)] {
        tokens.push((id, member, t.claim(member, id).await));
    }
    let lead = t.lead.clone();
    t.pass_and_run_due(LONG, &[&lead]).await;
    assert_eq!((t.member("bob").await.state(), t.member("eve").await.state()), (MemberState::Lost, MemberState::Lost));
    for (id, member, token) in &tokens {
        has_lapsed(&t, *id, 1, member, token, "its owner was lost").await;
    }
    let ready = t.listed(v1::ListTasksRequest { ready_only: true, ..Default::default() }).await;
    assert_eq!(ready, [1, 2, 3, 4]);
    let notices = t.notices(&t.lead, NoticeKind::MemberLost).await;
    assert!(notices[0].text.ends_with("Its tasks 1, 3 are back on the board."), "{notices:?}");
    assert!(notices[1].text.ends_with("Its tasks 2, 4 are back on the board."), "{notices:?}");
    is_refused_and_claims_again(&t, &bob, 1, &tokens[0].2).await;
}

#[tokio::test]
async fn a_stale_token_is_refused_with_when_and_why_the_task_went_back() {
    let (mut t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(2).await;
    let (token, other) = (t.claim(&bob, 1).await, t.claim(&bob, 2).await);
    let lead = t.lead.clone();
    t.pass_and_run_due(LONG, &[&lead, &eve]).await;
    let at = t.task(1).await.released_at.unwrap();
    let lost =
        format!("Task 1 went back to the board at {}: its owner was lost. ", prost_types::Timestamp { nanos: 0, ..at });
    let stale = async |id: u64, token: &str| {
        t.refused(t.try_complete(&bob, id, token), Code::Aborted, Reason::StaleClaim, "claim_token").await
    };
    let refusal = stale(1, &token).await;
    assert_eq!(refusal.message, format!("{lost}Stop working on it, or claim it again."));
    assert_eq!(refusal.metadata["released_at"], at.to_string());
    t.claim(&eve, 1).await;
    assert_eq!(stale(1, &token).await.message, format!("{lost}eve has claimed it since. Stop working on it."));
    // The lead took it away, and gave it to another.
    t.claim(&eve, 2).await;
    t.update(v1::UpdateTaskRequest { task_id: 2, owner: Some("bob".to_owned()), ..Default::default() }).await;
    assert_eq!(t.task(2).await.released_because, "lead reassigned it");
    assert!(stale(2, &other).await.message.contains(": lead reassigned it. "));
    let fresh = t.claim(&bob, 2).await;
    assert!(stale(2, &other).await.message.contains("your present claim of task 2"));
    t.try_complete(&bob, 2, &fresh).await.unwrap();
}

/// Once, a member that was lost could hold a claim and stay lost: nothing would have ended that claim.
#[tokio::test]
async fn a_lost_member_that_claims_a_task_is_live_again() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    let lead = t.lead.clone();
    t.pass_and_run_due(LONG, &[&lead]).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Lost);
    let token = t.claim(&bob, 1).await;
    assert_ne!(t.member("bob").await.state(), MemberState::Lost);
    t.run_due().await;
    assert_eq!(t.task(1).await.owner, "bob", "it has a whole lease");
    t.pass_and_run_due(LONG, &[&lead]).await;
    has_lapsed(&t, 1, 1, &bob, &token, "its owner was lost").await;
}

#[tokio::test]
async fn a_member_that_has_approved_its_shutdown_may_finish_its_work_and_take_no_more() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.add_some(3).await;
    let tokens = [t.claim(&bob, 1).await, t.claim(&bob, 2).await];
    let request = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&request)).await;
    let stopped = (Code::FailedPrecondition, Reason::MemberStopped);
    t.refused(t.try_next(&bob), stopped.0, stopped.1, "").await;
    t.refused(t.try_claim(&bob, 3), stopped.0, stopped.1, "").await;
    assert_eq!(t.task(2).await.owner, "bob");
    t.try_complete(&bob, 1, &tokens[0]).await.unwrap();
    // It never reports its exit.
    let lead = t.lead.clone();
    t.pass_and_run_due(LONG, &[&lead]).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Exited);
    has_lapsed(&t, 2, 1, &bob, &tokens[1], "its owner has exited").await;
    assert_eq!(t.task(1).await.status(), TaskStatus::Completed);
}

#[tokio::test]
async fn two_coordinators_that_claim_in_turn_never_give_one_task_twice() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(20).await;
    let other = t.another_coordinator().await;
    let mut taken = Vec::new();
    for _ in 0..10 {
        taken.push(t.next(&bob).await.unwrap());
        let claim = other.claim_next_task(&eve.who, &Default::default()).await.unwrap().unwrap();
        taken.push(claim.task.unwrap().id);
    }
    assert_eq!(taken, (1..=20).collect::<Vec<u64>>());
    assert!(other.claim_next_task(&eve.who, &Default::default()).await.unwrap().is_none());
    // What the one has added is there for the other, whatever it has seen before.
    t.add_some(1).await;
    assert!(other.claim_next_task(&eve.who, &Default::default()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_waiting_claim_gets_a_task_as_soon_as_there_is_one() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(1).await;
    t.add(after(&[1])).await;
    let token = t.claim(&eve, 1).await;
    let patient =
        v1::ClaimNextTaskRequest { wait: Some(prost_types::Duration { seconds: 60, nanos: 0 }), ..Default::default() };
    let waiting = {
        let (coordinator, who) = (t.coordinator.clone(), bob.who.clone());
        tokio::spawn(async move { coordinator.claim_next_task(&who, &patient).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    t.try_complete(&eve, 1, &token).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().unwrap().task.unwrap().id, 2);
}

#[tokio::test]
async fn a_member_that_must_plan_works_only_when_its_plan_is_approved_in_this_life() {
    let t = Team::new().await;
    let bob = t.join_with_plan_required("bob").await;
    t.add_some(2).await;
    t.add(task_for("bob")).await;
    let (code, reason) = (Code::FailedPrecondition, Reason::PlanRequired);
    let is_refused = async |member: &Member| {
        t.refused(t.try_claim(member, 1), code, reason, "").await;
        t.refused(t.try_complete(member, 1, ""), code, reason, "").await;
        t.refused(t.try_next(member), code, reason, "").await
    };
    assert!(is_refused(&bob).await.message.contains("teamwire plan submit"));
    let pending = t.ask(&bob, plan("one")).await;
    assert_eq!(is_refused(&bob).await.metadata["request_id"], pending);
    t.send(&t.lead, answer_plan("bob", &pending, Some(false), "mend it")).await;
    assert!(!is_refused(&bob).await.metadata.contains_key("request_id"));
    t.plan_and_answer(&bob, true).await;
    let token = t.claim(&bob, 1).await;
    t.try_complete(&bob, 1, &token).await.unwrap();
    let token = t.claim(&bob, 2).await;
    // A later plan that is rejected takes nothing back.
    t.plan_and_answer(&bob, false).await;

    let again = t.rejoin(&bob).await;
    is_back(&t, 2).await;
    is_refused(&again).await;
    t.refused(t.try_complete(&again, 2, &token), code, reason, "").await;
    t.plan_and_answer(&again, true).await;
    t.refused(t.try_complete(&again, 2, &token), Code::Aborted, Reason::StaleClaim, "claim_token").await;
    assert_eq!((t.next(&again).await, t.next(&again).await), (Some(3), Some(2)));
}

async fn is_back(t: &Team, id: u64) {
    assert_eq!((t.task(id).await.status(), t.task(id).await.owner.as_str()), (TaskStatus::Pending, ""));
}
