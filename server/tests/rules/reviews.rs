//! Reviews of tasks: who answers, what an answer changes, and what makes one void.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, CancelCause, NoticeKind, RequestState, TaskStatus, message::Body, send_request},
};

use crate::{board::*, calls::RuleCalls as _, team::*};

/// Returns the id of a commit.
fn commit_id(short: &str) -> String {
    short.repeat(20)
}

fn work(head: &str) -> v1::Work {
    v1::Work {
        repository: "example.com/shop".to_owned(),
        branch: "teamwire/ann".to_owned(),
        head: commit_id(head),
        ahead: 1,
        ..Default::default()
    }
}

fn reviewed_by(reviewer: &str) -> v1::CreateTaskRequest {
    v1::CreateTaskRequest { reviewer: reviewer.to_owned(), ..task("log in") }
}

async fn submit(t: &Team, who: &Member, id: u64, token: &str, head: &str) -> v1::Task {
    let request = v1::CompleteTaskRequest {
        team: named(who),
        task_id: id,
        claim_token: token.to_owned(),
        result: "done".to_owned(),
        work: Some(work(head)),
    };
    t.coordinator.complete_task(&who.who, &request).await.unwrap().task.unwrap()
}

fn decide(request_id: &str, approve: bool, commit: &str) -> v1::SendRequest {
    let body = v1::ReviewResponse {
        request_id: request_id.to_owned(),
        approve: Some(approve),
        reason: "seen".to_owned(),
        commit: commit_id(commit),
        ..Default::default()
    };
    v1::SendRequest { body: Some(send_request::Body::ReviewResponse(body)), ..Default::default() }
}

/// Reports what the runner began to see this many seconds ago.
async fn report(t: &Team, who: &Member, head: &str, seconds: i64) {
    let work_age = Some(prost_types::Duration { seconds, nanos: 0 });
    let request = v1::ReportActivityRequest { work: Some(work(head)), work_age, ..Default::default() };
    t.coordinator.report_activity(&who.who, &request).await.unwrap();
}

#[tokio::test]
async fn a_task_with_a_reviewer_is_completed_by_its_approval_and_not_before() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    t.add(v1::CreateTaskRequest { merge_on_approval: true, ..reviewed_by("bob") }).await;
    t.add(after(&[1])).await;
    let token = t.claim(&ann, 1).await;
    let submitted = submit(&t, &ann, 1, &token, "c1").await;
    assert_eq!((submitted.status(), submitted.commit), (TaskStatus::InReview, commit_id("c1")));
    assert_eq!(t.task(2).await.waiting_for, [1], "what waits for it still waits");
    assert_eq!(t.next(&ann).await, None, "no other task while its branch must not change");
    let again = submit(&t, &ann, 1, &token, "c1").await;
    assert_eq!(again.review_request_id, submitted.review_request_id, "repeating the call is harmless");
    let asked = t.inbox(&bob).await.pop().unwrap();
    assert_eq!(
        (asked.request_id.as_str(), asked.sender.unwrap().name.as_str()),
        (submitted.review_request_id.as_str(), "ann")
    );
    let Some(Body::ReviewRequest(body)) = asked.body else { panic!("no review request") };
    assert_eq!(
        (body.task_id, body.work.unwrap().head.as_str(), body.merge_on_approval),
        (1, commit_id("c1").as_str(), true)
    );
    assert!(t.request(&asked.request_id).await.expires_at.is_none());

    let id = &submitted.review_request_id;
    t.refused(
        t.try_send(&ann, decide(id, true, "")),
        Reason::NotRequestTarget.code(),
        Reason::NotRequestTarget,
        "request_id",
    )
    .await;
    t.refused(
        t.try_send(&eve, decide(id, true, "")),
        Reason::RequestNotFound.code(),
        Reason::RequestNotFound,
        "request_id",
    )
    .await;
    let other = t
        .refused(t.try_send(&bob, decide(id, true, "c0")), Reason::ReviewVoid.code(), Reason::ReviewVoid, "commit")
        .await;
    assert_eq!(other.metadata["commit"], commit_id("c1"));
    t.send(&bob, decide(id, true, "c1")).await;
    let done = t.task(1).await;
    assert_eq!(
        (done.status(), done.commit.as_str(), done.result.as_str()),
        (TaskStatus::Completed, commit_id("c1").as_str(), "done")
    );
    assert!(t.task(2).await.waiting_for.is_empty());
    let told = t.inbox(&ann).await.pop().unwrap().body;
    let Some(Body::ReviewResponse(body)) = told else { panic!("{told:?}") };
    assert_eq!(
        (body.approve, body.task_id, body.commit.as_str(), body.merge),
        (Some(true), 1, commit_id("c1").as_str(), true)
    );
    t.refused(
        t.try_send(&t.lead, decide(id, false, "")),
        Reason::AlreadyDecided.code(),
        Reason::AlreadyDecided,
        "request_id",
    )
    .await;
    assert_eq!(t.next(&ann).await, Some(2));
}

#[tokio::test]
async fn a_rejection_returns_the_task_to_its_owner_or_to_the_board_if_that_life_has_ended() {
    let (t, [ann]) = Team::of(["ann"]).await;
    t.add(reviewed_by("team-lead")).await;
    let token = t.claim(&ann, 1).await;
    let first = submit(&t, &ann, 1, &token, "c1").await.review_request_id;
    t.send(&t.lead, decide(&first, false, "")).await;
    let back = t.task(1).await;
    assert_eq!((back.status(), back.owner.as_str(), back.commit.as_str()), (TaskStatus::InProgress, "ann", ""));
    let second = submit(&t, &ann, 1, &token, "c2").await.review_request_id;
    assert_ne!(first, second);
    t.leave(&ann).await;
    assert_eq!(t.task(1).await.status(), TaskStatus::InReview, "a review outlives the life of the owner");
    t.send(&t.lead, decide(&second, false, "")).await;
    let back = t.task(1).await;
    assert_eq!((back.status(), back.owner.as_str()), (TaskStatus::Pending, ""));
    assert!(back.released_because.contains("rejected its review"), "{}", back.released_because);
}

#[tokio::test]
async fn a_newer_commit_voids_the_review_and_nothing_else_does() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.add(reviewed_by("bob")).await;
    let token = t.claim(&ann, 1).await;
    let first = submit(&t, &ann, 1, &token, "c1").await.review_request_id;
    t.pass(Duration::from_secs(2)).await;
    report(&t, &ann, "c1", 0).await;
    // What a slow runner saw before the commit.
    report(&t, &ann, "c0", 5).await;
    assert_eq!(t.task(1).await.status(), TaskStatus::InReview);
    report(&t, &ann, "c2", 1).await;
    assert_eq!(t.task(1).await.status(), TaskStatus::InProgress);
    let void = t.request(&first).await;
    assert_eq!((void.state(), void.cancel_cause()), (RequestState::Cancelled, CancelCause::NewerCommit));
    t.refused(
        t.try_send(&bob, decide(&first, true, "c1")),
        Reason::RequestCancelled.code(),
        Reason::RequestCancelled,
        "request_id",
    )
    .await;
    assert_eq!(t.notices(&ann, NoticeKind::ReviewVoid).await.len(), 1);
    let is_about_it = |message: &v1::Message| message.request_id == first;
    assert!(!t.inbox(&bob).await.iter().any(is_about_it), "the reviewer need not look at it any more");
    // Completing it again with a newer commit replaces a review, too.
    let second = submit(&t, &ann, 1, &token, "c2").await.review_request_id;
    let third = submit(&t, &ann, 1, &token, "c3").await.review_request_id;
    assert_eq!(t.request(&second).await.cancel_cause(), CancelCause::NewerCommit);
    t.send(&bob, decide(&third, true, "")).await;
    assert_eq!(t.task(1).await.commit, commit_id("c3"));
}

#[tokio::test]
async fn what_ends_a_task_ends_its_review() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    for id in 1..=4 {
        t.add(reviewed_by("bob")).await;
        let token = t.claim(&ann, id).await;
        let asked = submit(&t, &ann, id, &token, "c1").await.review_request_id;
        match id {
            1 => drop(t.complete(id).await),
            2 => drop(t.try_remove(&t.lead, id).await.unwrap()),
            3 => drop(t.update(assign(id, "bob")).await),
            _ => drop(t.try_release(&ann, id, &token).await.unwrap()),
        }
        let ended = t.request(&asked).await;
        assert_eq!((ended.state(), ended.cancel_cause()), (RequestState::Cancelled, CancelCause::TaskChanged), "{id}");
        assert_ne!(t.task(id).await.status(), TaskStatus::InReview);
    }
    assert_eq!(t.next(&bob).await, Some(3));
}

#[tokio::test]
async fn the_lead_reviews_for_a_reviewer_that_is_the_owner_or_has_exited_and_needs_none_for_its_own() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.add(reviewed_by("ann")).await;
    let token = t.claim(&ann, 1).await;
    let asked = submit(&t, &ann, 1, &token, "c1").await.review_request_id;
    assert_eq!(t.request(&asked).await.approver, "");
    t.send(&t.lead, decide(&asked, true, "")).await;
    t.add(reviewed_by("bob")).await;
    let token = t.claim(&ann, 2).await;
    let asked = submit(&t, &ann, 2, &token, "c1").await.review_request_id;
    t.leave(&bob).await;
    assert_eq!(t.request(&asked).await.approver, "", "the lead answers for it");
    assert_eq!(t.inbox(&t.lead).await.iter().filter(|message| message.request_id == asked).count(), 1);
    t.add(reviewed_by("team-lead")).await;
    let token = t.claim(&t.lead, 3).await;
    assert_eq!(submit(&t, &t.lead, 3, &token, "c1").await.status(), TaskStatus::Completed);
}

#[tokio::test]
async fn a_member_cannot_rid_a_task_of_its_review() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.add(reviewed_by("bob")).await;
    let none = v1::UpdateTaskRequest { reviewer: Some(String::new()), ..change(1) };
    t.refused(t.try_update(&ann, none.clone()), Reason::LeadOnly.code(), Reason::LeadOnly, "reviewer").await;
    let token = t.claim(&ann, 1).await;
    t.refused(t.try_update(&ann, none.clone()), Reason::LeadOnly.code(), Reason::LeadOnly, "reviewer").await;
    assert_eq!(submit(&t, &ann, 1, &token, "c1").await.status(), TaskStatus::InReview);
    t.refused(t.try_update(&ann, none.clone()), Reason::LeadOnly.code(), Reason::LeadOnly, "reviewer").await;
    assert_eq!(t.update(none).await.reviewer, "");
    let alone = v1::CreateTaskRequest { merge_on_approval: true, ..task("x") };
    t.refused(t.try_add(&bob, alone), Reason::InvalidField.code(), Reason::InvalidField, "merge_on_approval").await;
}

#[tokio::test]
async fn a_reviewer_reads_the_work_that_it_was_asked_about_and_no_salvage() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let ask = async |part: v1::WorkPart| {
        let request = v1::ReadWorkRequest {
            team: "alpha".to_owned(),
            member: "ann".to_owned(),
            part: part.into(),
            ..Default::default()
        };
        let asking = t.coordinator.read_work(&bob.who, &request);
        // Nobody answers, so what is not refused waits.
        match tokio::time::timeout(Duration::from_millis(200), asking).await {
            Ok(answer) => answer.unwrap_err().reason,
            Err(_) => Reason::RunnerSilent,
        }
    };
    assert_eq!(ask(v1::WorkPart::Diff).await, Reason::LeadOnly);
    t.add(reviewed_by("bob")).await;
    let token = t.claim(&ann, 1).await;
    let asked = submit(&t, &ann, 1, &token, "c1").await.review_request_id;
    assert_eq!(ask(v1::WorkPart::Diff).await, Reason::RunnerSilent);
    assert_eq!(ask(v1::WorkPart::Salvages).await, Reason::LeadOnly);
    t.send(&bob, decide(&asked, true, "")).await;
    assert_eq!(ask(v1::WorkPart::Diff).await, Reason::LeadOnly);
}

#[tokio::test]
async fn a_review_is_of_the_id_of_a_commit_and_a_member_waits_for_a_few() {
    let (t, [ann]) = Team::of(["ann"]).await;
    t.add(reviewed_by("team-lead")).await;
    let token = t.claim(&ann, 1).await;
    let branch = v1::CompleteTaskRequest {
        team: named(&ann),
        task_id: 1,
        claim_token: token.clone(),
        work: Some(v1::Work { head: "teamwire/ann".to_owned(), ..work("c1") }),
        ..Default::default()
    };
    let call = t.coordinator.complete_task(&ann.who, &branch);
    t.refused(call, Reason::InvalidField.code(), Reason::InvalidField, "work").await;
    submit(&t, &ann, 1, &token, "c1").await;
    for id in 2..=16 {
        t.add(reviewed_by("team-lead")).await;
        let token = t.claim(&ann, id).await;
        submit(&t, &ann, id, &token, "c1").await;
    }
    t.add(reviewed_by("team-lead")).await;
    let further =
        v1::CompleteTaskRequest { task_id: 17, claim_token: t.claim(&ann, 17).await, work: Some(work("c1")), ..branch };
    let call = t.coordinator.complete_task(&ann.who, &further);
    t.refused(call, Reason::QuotaExceeded.code(), Reason::QuotaExceeded, "").await;
}

#[tokio::test]
async fn only_the_lead_has_work_merged_on_approval() {
    let (t, [ann, _bob]) = Team::of(["ann", "bob"]).await;
    let merged = v1::CreateTaskRequest { merge_on_approval: true, ..reviewed_by("bob") };
    t.refused(t.try_add(&ann, merged), Reason::LeadOnly.code(), Reason::LeadOnly, "merge_on_approval").await;
    t.try_add(&ann, reviewed_by("bob")).await.unwrap();
    let merged = v1::UpdateTaskRequest { merge_on_approval: Some(true), ..change(1) };
    t.refused(t.try_update(&ann, merged.clone()), Reason::LeadOnly.code(), Reason::LeadOnly, "merge_on_approval").await;
    assert!(t.update(merged).await.merge_on_approval);
    // Its creator may no longer choose who approves once it would profit.
    t.claim(&ann, 1).await;
    let easy = v1::UpdateTaskRequest { reviewer: Some("team-lead".to_owned()), ..change(1) };
    t.refused(t.try_update(&ann, easy), Reason::LeadOnly.code(), Reason::LeadOnly, "reviewer").await;
}
