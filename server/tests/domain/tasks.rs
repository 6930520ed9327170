//! The task board: claims, dependencies, and the plan gate.

use teamwire_proto::{Reason, Refusal, v1};
use teamwire_server::{
    domain::{
        records::Pending,
        secret::ClaimToken,
        task::{
            board::{BoardRecord, Place, Release, Status, TaskRecord},
            claim, edit,
        },
    },
    store::Txn,
};

use crate::world::*;

fn claim_task(world: &World, member: &str, task_id: u64) -> Result<(v1::Claim, Txn), Refusal> {
    let request = v1::ClaimTaskRequest { task_id, ..Default::default() };
    world.run(|tx| claim::claim(tx, &caller(member), &request))
}

fn complete(
    world: &World,
    member: &str,
    task_id: u64,
    token: &str,
) -> Result<(v1::CompleteTaskResponse, Txn), Refusal> {
    let request = v1::CompleteTaskRequest { task_id, claim_token: token.to_owned(), ..Default::default() };
    world.run(|tx| claim::complete(tx, &caller(member), &request))
}

fn depend(world: &World, task_id: u64, on: &[u64]) -> Result<(v1::Task, Txn), Refusal> {
    let request = v1::UpdateTaskRequest { task_id, add_blocked_by: on.to_vec(), ..Default::default() };
    world.run(|tx| edit::update(tx, &caller("lead"), &request))
}

/// A board whose task 1 is claimed by `ann`.
fn claimed() -> World {
    let world = World::with(&["lead", "ann", "bob"]).tasks(&[(1, &[])]);
    let mut board = BoardRecord { last_id: 1, ..Default::default() };
    board.place(1, Place::Claimed(name("ann")));
    let task = TaskRecord {
        status: Status::InProgress,
        owner: Some(name("ann")),
        claim: ClaimToken::presented("token"),
        attempts: 1,
        ..pending(1)
    };
    world.record("1", &task).record("", &board)
}

#[test]
fn claim_takes_the_task_off_the_board() {
    let world = World::with(&["lead", "ann"]).tasks(&[(1, &[])]);
    let (claim, txn) = claim_task(&world, "ann", 1).unwrap();
    let task: TaskRecord = put(&txn, "1").unwrap();
    assert_eq!(
        (task.status, task.owner, task.claim),
        (Status::InProgress, Some(name("ann")), ClaimToken::presented(claim.token))
    );
    let board: BoardRecord = put(&txn, "").unwrap();
    assert_eq!((board.claimed_by(&name("ann")), board.next_for(&name("ann"))), (vec![1], None));
}

#[test]
fn blocked_task_cannot_be_claimed() {
    let world = World::with(&["lead", "ann"]).tasks(&[(1, &[]), (2, &[1])]);
    let refusal = claim_task(&world, "ann", 2).unwrap_err();
    assert_eq!(refusal.reason, Reason::TaskBlocked);
    assert_eq!(refusal.metadata.get("waiting_for").map(String::as_str), Some("1"));
}

#[test]
fn claimed_task_cannot_be_claimed_by_anyone() {
    for member in ["ann", "bob"] {
        let refusal = claim_task(&claimed(), member, 1).unwrap_err();
        assert_eq!(refusal.reason, Reason::TaskClaimed, "{member}");
    }
}

#[test]
fn member_without_an_approved_plan_cannot_work() {
    let world = World::with(&["lead", "ann"]).tasks(&[(1, &[])]).member("ann", |ann| ann.plan_mode_required = true);
    assert_eq!(claim_task(&world, "ann", 1).unwrap_err().reason, Reason::PlanRequired);
    assert_eq!(complete(&world, "ann", 1, "").unwrap_err().reason, Reason::PlanRequired);
    let world = world.member("ann", |ann| {
        ann.pending_plan = Some(Pending { expires_ms: 0, ..Pending::new(request_id(), NOW_MS, 0) })
    });
    let refusal = claim_task(&world, "ann", 1).unwrap_err();
    assert_eq!(refusal.metadata.get("request_id").map(String::as_str), Some(request_id().as_str()));
    let world = world.member("ann", |ann| ann.plan_approved = true);
    claim_task(&world, "ann", 1).unwrap();
}

#[test]
fn task_cannot_depend_on_itself() {
    let refusal = depend(&World::with(&["lead"]).tasks(&[(1, &[])]), 1, &[1]).unwrap_err();
    assert_eq!(refusal.reason, Reason::TaskCycle);
}

#[test]
fn dependencies_cannot_form_a_cycle() {
    let world = World::with(&["lead"]).tasks(&[(1, &[]), (2, &[1]), (3, &[2])]);
    let refusal = depend(&world, 1, &[3]).unwrap_err();
    assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::TaskCycle, Some("add_blocked_by")));
    assert!(refusal.message.contains("1 -> 3 -> 2 -> 1"), "{}", refusal.message);
}

#[test]
fn completion_unblocks_the_tasks_that_waited_for_it() {
    let mut world = World::with(&["lead", "ann"]).tasks(&[(1, &[]), (2, &[1]), (3, &[1, 2])]);
    let (claim, txn) = claim_task(&world, "ann", 1).unwrap();
    world.apply(&txn);
    let (reply, txn) = complete(&world, "ann", 1, &claim.token).unwrap();
    assert_eq!(reply.unblocked, [2]);
    let board: BoardRecord = put(&txn, "").unwrap();
    assert_eq!(board.next_for(&name("ann")), Some(2));
}

#[test]
fn wrong_claim_token_cannot_complete_a_task() {
    let refusal = complete(&claimed(), "ann", 1, "another token").unwrap_err();
    assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::StaleClaim, Some("claim_token")));
    complete(&claimed(), "ann", 1, "token").unwrap();
}

#[test]
fn completion_without_a_token_after_the_claim_has_lapsed_says_when_and_why() {
    let released = Some(Release { because: "its claim expired after 24 h".to_owned(), at_ms: NOW_MS });
    let lapsed = TaskRecord { released, ..pending(1) };
    let world = World::with(&["lead", "ann", "bob"]).tasks(&[(1, &[])]).record("1", &lapsed);
    let refusal = complete(&world, "ann", 1, "").unwrap_err();
    assert_eq!(refusal.reason, Reason::StaleClaim);
    assert!(refusal.message.contains(": its claim expired after 24 h. Stop working on it"), "{}", refusal.message);

    // Another member has claimed it since.
    let claimed_since = TaskRecord {
        status: Status::InProgress,
        owner: Some(name("bob")),
        claim: ClaimToken::presented("token"),
        ..lapsed
    };
    let refusal = complete(&world.record("1", &claimed_since), "ann", 1, "").unwrap_err();
    assert_eq!(refusal.reason, Reason::TaskClaimed);
    assert_eq!(refusal.metadata["released_because"], "its claim expired after 24 h");
    let text = ": its claim expired after 24 h. Task 1 is in progress with bob.";
    assert!(refusal.message.contains(text), "{}", refusal.message);

    let never_claimed = World::with(&["lead", "ann"]).tasks(&[(1, &[])]);
    let refusal = complete(&never_claimed, "ann", 1, "").unwrap_err();
    assert_eq!(refusal.message, "Task 1 is not claimed. Claim it first.");
}

#[test]
fn repeated_completion_changes_nothing() {
    let mut world = claimed();
    let (_, txn) = complete(&world, "ann", 1, "token").unwrap();
    world.apply(&txn);
    let (_, txn) = complete(&world, "ann", 1, "token").unwrap();
    assert_eq!(txn.writes, []);
}

#[test]
fn new_task_cannot_wait_for_a_task_that_does_not_exist_yet() {
    let world = World::with(&["lead"]);
    for blocker in [1, 2] {
        let request =
            v1::CreateTaskRequest { subject: "x".to_owned(), blocked_by: vec![blocker], ..Default::default() };
        let refusal = world.run(|tx| edit::create(tx, &caller("lead"), &request)).map(drop).unwrap_err();
        assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::TaskNotFound, Some("blocked_by")));
        assert!(refusal.message.contains("the board is empty"), "{refusal}");
    }
}
