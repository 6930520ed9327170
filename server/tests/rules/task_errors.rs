//! What the calls of the task board are refused for: code, reason and field, and that nothing was changed.

use teamwire_proto::{Reason, v1};
use tonic::Code;

use crate::{board::*, calls::RuleCalls as _, team::*};

const BAD: Code = Code::InvalidArgument;
const BEFORE: Code = Code::FailedPrecondition;

/// Texts that are not one line of up to 200 characters.
fn bad_lines() -> [String; 4] {
    ["two\nlines".to_owned(), "a\u{2028}b".to_owned(), "tab\tbed".to_owned(), "x".repeat(201)]
}

/// Metadata that is out of its bounds.
fn bad_metadata() -> [Vec<(String, String)>; 5] {
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let many = (0..33).map(|number| (number.to_string(), String::new())).collect();
    [pair("", "x"), pair(&"k".repeat(64), "x"), pair("a\nb", "x"), pair("k", &"x".repeat(1_025)), many]
}

#[tokio::test]
async fn a_new_task_is_checked_for_presence_and_bounds() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let add = |request: v1::CreateTaskRequest| t.try_add(&bob, request);
    for subject in bad_lines().iter().map(String::as_str).chain(["", "   "]) {
        t.refused(add(task(subject)), BAD, Reason::InvalidField, "subject").await;
    }
    for active_form in bad_lines() {
        let request = v1::CreateTaskRequest { active_form, ..task("x") };
        t.refused(add(request), BAD, Reason::InvalidField, "active_form").await;
    }
    for metadata in bad_metadata() {
        let request = v1::CreateTaskRequest { metadata: metadata.into_iter().collect(), ..task("x") };
        t.refused(add(request), BAD, Reason::InvalidField, "metadata").await;
    }
    let large = "x".repeat(64 * 1024 + 1);
    let request = v1::CreateTaskRequest { description: large.clone(), ..task("x") };
    let refusal = t.refused(add(request), BAD, Reason::ContentTooLarge, "description").await;
    assert_eq!(refusal.metadata["bytes_max"], "65536");

    // And just within the bounds.
    let metadata = (0..32).map(|number| (format!("{number:063}"), "ä".repeat(1_024))).collect();
    let request = v1::CreateTaskRequest {
        description: large[1..].to_owned(),
        active_form: "ä".repeat(200),
        metadata,
        ..task(&"ä".repeat(200))
    };
    add(request).await.unwrap();
}

#[tokio::test]
async fn the_owner_of_a_task_must_be_a_present_member() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let id = t.add(task("x")).await;
    t.leave(&eve).await;
    let rows = [
        ("nobody", Code::NotFound, Reason::AgentNotFound),
        ("back end", BAD, Reason::InvalidName),
        ("bob@beta", BAD, Reason::TeamMismatch),
        ("eve", BEFORE, Reason::AgentExited),
    ];
    for (owner, code, reason) in rows {
        t.refused(t.try_add(&bob, task_for(owner)), code, reason, "owner").await;
        t.refused(t.try_update(&bob, assign(id, owner)), code, reason, "owner").await;
        // A list may well be of one that has gone.
        if reason != Reason::AgentExited {
            let list = v1::ListTasksRequest { owner: owner.to_owned(), ..Default::default() };
            t.refused(t.try_list(&bob, list), code, reason, "owner").await;
        }
    }
    let request = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&request)).await;
    t.refused(t.try_add(&t.lead, task_for("bob")), BEFORE, Reason::AgentExited, "owner").await;
}

#[tokio::test]
async fn no_call_finds_a_nonexistent_deleted_or_foreign_task() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.add(task("x")).await;
    let beta = t.coordinator.create_team(&t.operator, &create("beta")).await.unwrap();
    let stranger = Member::new("lead", &beta.credential);
    let (none, reason) = (Code::NotFound, Reason::TaskNotFound);
    for (who, id) in [(&bob, 0), (&bob, 2), (&bob, u64::MAX), (&stranger, id)] {
        t.refused(t.coordinator.get_task(&who.who, "", id), none, reason, "task_id").await;
        t.refused(t.try_claim(who, id), none, reason, "task_id").await;
        t.refused(t.try_complete(who, id, ""), none, reason, "task_id").await;
        t.refused(t.try_release(who, id, ""), none, reason, "task_id").await;
        t.refused(t.try_update(who, change(id)), none, reason, "task_id").await;
        t.refused(t.try_remove(who, id), none, reason, "task_id").await;
    }
    t.add(task("deleted")).await;
    t.try_remove(&bob, 2).await.unwrap();
    for blocker in [0, 2, 77] {
        t.refused(t.try_add(&bob, after(&[blocker])), none, reason, "blocked_by").await;
        t.refused(t.try_update(&bob, wait_for(id, &[blocker])), none, reason, "add_blocked_by").await;
    }
}

#[tokio::test]
async fn a_change_of_a_task_is_checked_for_bounds() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.add(task("x")).await;
    let update = |request: v1::UpdateTaskRequest| t.try_update(&bob, request);
    for line in bad_lines() {
        let request = v1::UpdateTaskRequest { subject: Some(line.clone()), ..change(id) };
        t.refused(update(request), BAD, Reason::InvalidField, "subject").await;
        let request = v1::UpdateTaskRequest { active_form: Some(line), ..change(id) };
        t.refused(update(request), BAD, Reason::InvalidField, "active_form").await;
    }
    let request = v1::UpdateTaskRequest { subject: Some(String::new()), ..change(id) };
    t.refused(update(request), BAD, Reason::InvalidField, "subject").await;
    let request = v1::UpdateTaskRequest { description: Some("x".repeat(64 * 1024 + 1)), ..change(id) };
    t.refused(update(request), BAD, Reason::ContentTooLarge, "description").await;
    for metadata in bad_metadata() {
        let request = v1::UpdateTaskRequest { set_metadata: metadata.into_iter().collect(), ..change(id) };
        t.refused(update(request), BAD, Reason::InvalidField, "set_metadata").await;
    }
}

#[tokio::test]
async fn a_change_is_refused_when_the_task_has_changed_since() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.add(task("x")).await;
    let seen = t.task(id).await.version;
    let rename = |subject: &str| v1::UpdateTaskRequest {
        subject: Some(subject.to_owned()),
        expected_version: seen,
        ..change(id)
    };
    let changed = t.try_update(&bob, rename("y")).await.unwrap();
    assert!(changed.version > seen);
    let refusal = t.try_update(&t.lead, rename("z"));
    let refusal = t.refused(refusal, Code::Aborted, Reason::TaskChanged, "expected_version").await;
    assert_eq!(refusal.metadata["version"], changed.version.to_string());
    assert_eq!(t.task(id).await.subject, "y");
}

#[tokio::test]
async fn a_closed_task_stays_closed_but_a_completed_one_can_be_deleted() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    let token = t.claim(&bob, 1).await;
    t.try_complete(&bob, 1, &token).await.unwrap();
    t.try_remove(&bob, 2).await.unwrap();
    for (id, status) in [(1, "completed"), (2, "deleted")] {
        let (reason, field) = (Reason::TaskClosed, "task_id");
        let refusal = t.refused(t.try_claim(&bob, id), BEFORE, reason, field).await;
        assert_eq!(refusal.metadata["status"], status);
        t.refused(t.try_complete(&bob, id, "another"), BEFORE, reason, field).await;
        t.refused(t.try_complete(&t.lead, id, ""), BEFORE, reason, field).await;
        t.refused(t.try_release(&bob, id, &token), BEFORE, reason, field).await;
        t.refused(t.try_release(&t.lead, id, ""), BEFORE, reason, field).await;
        t.refused(t.try_update(&t.lead, assign(id, "bob")), BEFORE, reason, field).await;
    }
    // What is completed may be deleted, and both are remembered.
    assert!(t.try_remove(&bob, 1).await.unwrap().is_empty());
    assert_eq!(t.task(1).await.status(), v1::TaskStatus::Deleted);
}

#[tokio::test]
async fn a_task_claimed_by_another_member_cannot_be_taken_changed_or_deleted() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let (mine, field, reason) = (t.add(task("x")).await, "task_id", Reason::TaskClaimed);
    t.claim(&bob, mine).await;
    let refusal = t.refused(t.try_claim(&eve, mine), BEFORE, reason, field).await;
    assert_eq!(refusal.metadata["owner"], "bob");
    t.refused(t.try_claim(&t.lead, mine), BEFORE, reason, field).await;
    t.refused(t.try_complete(&eve, mine, ""), BEFORE, reason, field).await;
    t.refused(t.try_release(&eve, mine, ""), BEFORE, reason, field).await;
    t.refused(t.try_update(&eve, change(mine)), BEFORE, reason, field).await;
    t.refused(t.try_update(&eve, assign(mine, "eve")), BEFORE, reason, field).await;
    t.refused(t.try_remove(&eve, mine), BEFORE, reason, field).await;
    // Its owner may change it, but not give it to another behind the lead's back, nor change what it waits for.
    let refusal = t.refused(t.try_claim(&bob, mine), BEFORE, reason, field).await;
    assert!(refusal.message.contains("already"), "{refusal}");
    t.refused(t.try_update(&bob, assign(mine, "eve")), BEFORE, reason, field).await;
    let other = t.add(task("y")).await;
    t.refused(t.try_update(&bob, wait_for(mine, &[other])), BEFORE, reason, field).await;
    t.refused(t.try_update(&t.lead, wait_for(mine, &[other])), BEFORE, reason, field).await;

    let assigned = t.add(task_for("bob")).await;
    for caller in [&eve, &t.lead] {
        let refusal = t.refused(t.try_claim(caller, assigned), BEFORE, reason, field).await;
        assert!(refusal.message.contains("assigned to bob"), "{refusal}");
    }
    t.refused(t.try_update(&eve, assign(assigned, "eve")), BEFORE, reason, field).await;
    t.refused(t.try_update(&eve, assign(assigned, "")), BEFORE, reason, field).await;
}

#[tokio::test]
async fn a_blocked_task_is_neither_claimed_nor_completed() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    let blocked = t.add(after(&[1, 2])).await;
    t.complete(1).await;
    let (reason, field) = (Reason::TaskBlocked, "task_id");
    let refusal = t.refused(t.try_claim(&bob, blocked), BEFORE, reason, field).await;
    assert_eq!(refusal.metadata["waiting_for"], "2");
    t.refused(t.try_complete(&t.lead, blocked, ""), BEFORE, reason, field).await;
    t.refused(t.try_complete(&t.operator, blocked, ""), BEFORE, reason, field).await;
}

#[tokio::test]
async fn a_wrong_claim_token_is_refused() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let id = t.add(task("x")).await;
    let (code, reason, field) = (Code::Aborted, Reason::StaleClaim, "claim_token");
    t.refused(t.try_complete(&bob, id, ""), code, reason, field).await;
    t.refused(t.try_release(&bob, id, ""), code, reason, field).await;
    let token = t.claim(&bob, id).await;
    for wrong in ["", "x", &token[1..], &token.to_uppercase()] {
        t.refused(t.try_complete(&bob, id, wrong), code, reason, field).await;
        t.refused(t.try_release(&bob, id, wrong), code, reason, field).await;
    }
    // Not even the right one is worth anything in other hands; and who gives one must mean it.
    for caller in [&eve, &t.lead] {
        t.refused(t.try_complete(caller, id, &token), code, reason, field).await;
    }
    t.refused(t.try_complete(&t.operator, id, "x"), code, reason, field).await;
    t.try_complete(&bob, id, &token).await.unwrap();
}

#[tokio::test]
async fn limits_bound_the_tasks_and_dependencies_of_a_board_and_the_claims_of_a_member() {
    let t = Team::with_limits(|limits| {
        (limits.open_tasks_max, limits.claims_max) = (5, 2);
        (limits.task_dependencies_max, limits.board_dependencies_max) = (2, 3);
    })
    .await;
    let bob = t.join("bob").await;
    let (code, reason) = (Code::ResourceExhausted, Reason::QuotaExceeded);
    t.add_some(3).await;
    t.refused(t.try_add(&bob, after(&[1, 2, 3])), code, reason, "blocked_by").await;
    let first = t.add(after(&[1, 2])).await;
    t.refused(t.try_update(&bob, wait_for(first, &[3])), code, reason, "add_blocked_by").await;
    t.refused(t.try_update(&bob, wait_for(3, &[1, 2])), code, reason, "add_blocked_by").await;
    let second = t.add(after(&[1])).await;
    t.refused(t.try_update(&bob, wait_for(second, &[2])), code, reason, "add_blocked_by").await;
    t.refused(t.try_add(&bob, task("one too many")), code, reason, "").await;

    assert_eq!((t.next(&bob).await, t.next(&bob).await), (Some(1), Some(2)));
    t.refused(t.try_claim(&bob, 3), code, reason, "").await;
    t.refused(t.try_next(&bob), code, reason, "").await;
    // What is done makes room in all of them.
    let token = t.coordinator.get_task(&bob.who, "", 1).await.unwrap().claim_token;
    t.try_complete(&bob, 1, &token).await.unwrap();
    assert_eq!(t.next(&bob).await, Some(3));
    assert_eq!(t.add(after(&[2])).await, 6);
}

#[tokio::test]
async fn idempotency_keys_waits_page_sizes_and_reasons_are_checked() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    for key in ["a b", "ä", &"k".repeat(200)] {
        let idempotency_key = key.to_owned();
        let (reason, field) = (Reason::InvalidIdempotencyKey, "idempotency_key");
        let request = v1::CreateTaskRequest { idempotency_key: idempotency_key.clone(), ..task("x") };
        t.refused(t.try_add(&bob, request), BAD, reason, field).await;
        let request = v1::ClaimTaskRequest { idempotency_key: idempotency_key.clone(), task_id: 1 };
        t.refused(t.coordinator.claim_task(&bob.who, &request), BAD, reason, field).await;
        let request = v1::ClaimNextTaskRequest { idempotency_key, wait: None };
        t.refused(t.coordinator.claim_next_task(&bob.who, &request), BAD, reason, field).await;
    }
    let wait = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let request = v1::ClaimNextTaskRequest { wait, ..Default::default() };
    t.refused(t.coordinator.claim_next_task(&bob.who, &request), BAD, Reason::InvalidField, "wait").await;
    let list = v1::ListTasksRequest { page_size: 1_001, ..Default::default() };
    t.refused(t.try_list(&bob, list), BAD, Reason::InvalidField, "page_size").await;
    let token = t.claim(&bob, 1).await;
    for reason in bad_lines() {
        let request = v1::ReleaseTaskRequest { task_id: 1, claim_token: token.clone(), reason, ..Default::default() };
        t.refused(t.coordinator.release_task(&bob.who, &request), BAD, Reason::InvalidField, "reason").await;
    }
    let result = "x".repeat(64 * 1024 + 1);
    let request = v1::CompleteTaskRequest { task_id: 1, claim_token: token, result, ..Default::default() };
    t.refused(t.coordinator.complete_task(&bob.who, &request), BAD, Reason::ContentTooLarge, "result").await;
}

#[tokio::test]
async fn an_idempotency_key_is_valid_for_one_payload() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    let key = || "k".to_owned();
    let add = |subject: &str| v1::CreateTaskRequest { idempotency_key: key(), ..task(subject) };
    t.try_add(&bob, add("x")).await.unwrap();
    let (code, reason, field) = (Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key");
    t.refused(t.try_add(&bob, add("y")), code, reason, field).await;
    let claim = |task_id: u64| v1::ClaimTaskRequest { idempotency_key: key(), task_id };
    t.coordinator.claim_task(&bob.who, &claim(1)).await.unwrap();
    t.refused(t.coordinator.claim_task(&bob.who, &claim(2)), code, reason, field).await;
}

#[tokio::test]
async fn an_observer_sees_the_board_and_the_operator_does_not_work() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.add(task("x")).await;
    let reply = t.coordinator.create_observer(&t.lead.who, &Default::default()).await.unwrap();
    let observer = presented(&reply.credential);
    assert_eq!(ids(&t.try_list(&observer, Default::default()).await.unwrap()), [id]);
    let token = t.claim(&bob, id).await;
    let shown = t.coordinator.get_task(&observer, "", id).await.unwrap();
    assert_eq!((shown.task.unwrap().owner.as_str(), shown.claim_token.as_str()), ("bob", ""));
    for caller in [&t.lead.who, &t.operator] {
        let team = if caller.credential.team().is_none() { "alpha" } else { "" };
        assert_eq!(t.coordinator.get_task(caller, team, id).await.unwrap().claim_token, "", "it is bob's");
    }
    let (code, reason) = (Code::PermissionDenied, Reason::NotPermitted);
    t.refused(t.try_add(&observer, task("y")), code, reason, "").await;
    t.refused(t.try_update(&observer, change(id)), code, reason, "").await;
    t.refused(t.try_complete(&observer, id, &token), code, reason, "").await;
    t.refused(t.try_release(&observer, id, &token), code, reason, "").await;
    t.refused(t.try_remove(&observer, id), code, reason, "").await;
    for caller in [&observer, &t.operator] {
        t.refused(t.try_claim(caller, id), code, reason, "").await;
        t.refused(t.try_next(caller), code, reason, "").await;
    }
}
