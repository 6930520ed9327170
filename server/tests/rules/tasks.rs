//! Tasks: adding, changing, assigning, deleting and listing them; what waits for what.

use prost::Message as _;
use teamwire_proto::{
    Reason,
    v1::{self, NoticeKind, TaskEventKind, TaskStatus, history_entry::Event},
};
use teamwire_server::domain::page;
use tonic::Code;

use crate::{board::*, calls::RuleCalls as _, team::*};

fn unblock(id: u64, blocked_by: &[u64]) -> v1::UpdateTaskRequest {
    v1::UpdateTaskRequest { remove_blocked_by: blocked_by.to_vec(), ..change(id) }
}

#[tokio::test]
async fn a_task_reads_back_as_it_was_added() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    let metadata = [("k".to_owned(), "v".to_owned())];
    let request = v1::CreateTaskRequest {
        subject: " Test it ".to_owned(),
        description: "All\nof it".to_owned(),
        active_form: "Testing it".to_owned(),
        owner: "team-lead".to_owned(),
        blocked_by: vec![1, 1],
        metadata: metadata.clone().into(),
        ..Default::default()
    };
    let added = t.try_add(&bob, request).await.unwrap().task.unwrap();
    assert_eq!(added, t.task(2).await);
    assert_eq!((added.id, added.subject.as_str(), added.description.as_str()), (2, "Test it", "All\nof it"));
    assert_eq!((added.active_form.as_str(), added.owner.as_str()), ("Testing it", "lead"));
    assert_eq!((&added.blocked_by[..], &added.waiting_for[..], &added.blocks[..]), (&[1][..], &[1][..], &[][..]));
    assert_eq!((added.status(), added.attempts, added.version), (TaskStatus::Pending, 0, 1));
    assert_eq!(added.metadata, metadata.into());
    assert_eq!(added.created_by.unwrap().name, "bob");
    assert!(added.created_at.is_some() && added.updated_at == added.created_at);
    assert!(added.claimed_at.is_none() && added.closed_at.is_none());
    let blocker = t.task(1).await;
    assert_eq!((&blocker.blocks[..], blocker.version), (&[2][..], 2));
}

#[tokio::test]
async fn a_task_added_twice_with_one_key_exists_once_whatever_has_changed_since() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let metadata = (0..20).map(|number| (number.to_string(), "x".to_owned())).collect();
    let request = v1::CreateTaskRequest { idempotency_key: "k".to_owned(), metadata, ..task_for("bob") };
    let first = t.try_add(&t.lead, request.clone()).await.unwrap();
    t.claim(&bob, 1).await;
    t.leave(&bob).await;
    for coordinator in [t.coordinator.clone(), t.another_coordinator().await] {
        let again = coordinator.create_task(&t.lead.who, &request).await.unwrap();
        assert!(!first.replayed && again.replayed);
        assert_eq!(again.task, first.task);
    }
    assert_eq!(t.listed(Default::default()).await, [1]);
    // Another caller's key is another key.
    let operators = v1::CreateTaskRequest { owner: String::new(), ..request };
    assert!(!t.try_add(&t.operator, operators).await.unwrap().replayed);
}

#[tokio::test]
async fn a_task_update_changes_only_the_fields_it_names() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let metadata = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
    t.add(v1::CreateTaskRequest { description: "all".to_owned(), metadata, ..task("x") }).await;
    let before = t.task(1).await;
    let request = v1::UpdateTaskRequest {
        subject: Some(" y ".to_owned()),
        active_form: Some("Doing y".to_owned()),
        set_metadata: [("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())].into(),
        remove_metadata: vec!["a".to_owned(), "none".to_owned()],
        ..change(1)
    };
    let changed = t.try_update(&bob, request).await.unwrap();
    let expected = v1::Task {
        subject: "y".to_owned(),
        active_form: "Doing y".to_owned(),
        metadata: [("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())].into(),
        version: before.version + 1,
        updated_at: changed.updated_at,
        ..before
    };
    assert_eq!(changed, expected);
    assert_eq!(t.task(1).await, expected);
    // An empty text is a text.
    let request = v1::UpdateTaskRequest { description: Some(String::new()), ..change(1) };
    assert_eq!(t.update(request).await.description, "");
}

#[tokio::test]
async fn a_new_owner_gets_a_notice_unless_it_assigned_the_task_itself() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.try_add(&bob, task_for("bob")).await.unwrap();
    assert!(t.notices(&bob, NoticeKind::TaskAssignment).await.is_empty());
    let description = "short".to_owned();
    t.add(v1::CreateTaskRequest { description, ..task_for("bob") }).await;
    let told = t.notices(&bob, NoticeKind::TaskAssignment).await.pop().unwrap();
    assert!(told.text.contains("Task 2 is assigned to you"), "{told:?}");
    let about = told.task.unwrap();
    assert_eq!((about.id, about.description.as_str(), about.assigned_by.unwrap().name.as_str()), (2, "short", "lead"));

    t.try_update(&bob, assign(2, "Eve")).await.unwrap();
    assert_eq!(t.notices(&eve, NoticeKind::TaskAssignment).await.len(), 1);
    t.try_update(&eve, assign(2, "eve")).await.unwrap();
    assert_eq!(t.notices(&eve, NoticeKind::TaskAssignment).await.len(), 1, "nothing is new");
    assert_eq!((t.next(&bob).await, t.next(&eve).await, t.next(&t.lead).await), (Some(1), Some(2), None));
    let waiting = v1::CreateTaskRequest { blocked_by: vec![1], ..task_for("eve") };
    t.add(waiting).await;
    let told = t.notices(&eve, NoticeKind::TaskAssignment).await.pop().unwrap();
    assert!(told.text.ends_with(" It is blocked by 1."), "{told:?}");
    assert_eq!(told.task.unwrap().waiting_for, [1]);
    // What does not go with a notice is left out of it.
    let description = "x".repeat(4 * 1024 + 1);
    t.add(v1::CreateTaskRequest { description, ..task_for("bob") }).await;
    let told = t.notices(&bob, NoticeKind::TaskAssignment).await.pop().unwrap();
    assert_eq!((told.task.as_ref().unwrap().id, told.task.unwrap().description.as_str()), (4, ""));
}

#[tokio::test]
async fn assigning_a_task_in_progress_ends_the_claim_and_tells_both() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(1).await;
    let token = t.claim(&bob, 1).await;
    let given = t.update(assign(1, "eve")).await;
    assert_eq!((given.status(), given.owner.as_str(), given.attempts), (TaskStatus::Pending, "eve", 1));
    assert!(given.claimed_at.is_none());
    assert_eq!(t.notices(&bob, NoticeKind::TaskRevoked).await.pop().unwrap().task.unwrap().id, 1);
    assert_eq!(t.notices(&eve, NoticeKind::TaskAssignment).await.len(), 1);
    let stale = (Code::Aborted, Reason::StaleClaim, "claim_token");
    t.refused(t.try_complete(&bob, 1, &token), stale.0, stale.1, stale.2).await;
    t.refused(t.try_release(&bob, 1, &token), stale.0, stale.1, stale.2).await;
    assert_eq!((t.next(&bob).await, t.next(&eve).await), (None, Some(1)));
    t.try_update(&t.operator, assign(1, "")).await.unwrap();
    assert_eq!(t.next(&bob).await, Some(1));
    assert_eq!(t.task(1).await.attempts, 3);
}

#[tokio::test]
async fn a_long_cycle_is_named_by_its_beginning_and_end() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    for blocker in 1..100 {
        t.add(after(&[blocker])).await;
    }
    let call = t.try_update(&bob, wait_for(1, &[100]));
    let refusal = t.refused(call, Code::InvalidArgument, Reason::TaskCycle, "add_blocked_by").await;
    let circle = &refusal.metadata["cycle"];
    assert!(circle.starts_with("1 -> 100 -> 99 -> ") && circle.ends_with(" -> 3 -> 2 -> 1"), "{circle}");
    assert!(circle.contains(" -> 69 more -> "), "{circle}");
}

#[tokio::test]
async fn a_cycle_of_any_length_is_refused_and_named() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    for blocker in 1..30 {
        t.add(after(&[blocker])).await;
    }
    let (code, reason) = (Code::InvalidArgument, Reason::TaskCycle);
    let circles = [
        (wait_for(1, &[1]), "1 -> 1"),
        (wait_for(1, &[2]), "1 -> 2 -> 1"),
        (wait_for(1, &[3]), "1 -> 3 -> 2 -> 1"),
        (
            wait_for(7, &[30, 6]),
            "7 -> 30 -> 29 -> 28 -> 27 -> 26 -> 25 -> 24 -> 23 -> 22 -> 21 -> 20 -> 19 -> 18 -> 17 \
          -> 16 -> 15 -> 14 -> 13 -> 12 -> 11 -> 10 -> 9 -> 8 -> 7",
        ),
    ];
    for (request, circle) in circles {
        let refusal = t.refused(t.try_update(&bob, request), code, reason, "add_blocked_by").await;
        assert_eq!(refusal.metadata["cycle"], circle);
        assert!(refusal.message.contains(circle), "{refusal}");
    }
    // A task that is about to be added has no number yet.
    t.refused(t.try_add(&bob, after(&[1, 31])), Code::NotFound, Reason::TaskNotFound, "blocked_by").await;
    // What was done closes no circle.
    t.complete(1).await;
    let later = t.update(wait_for(30, &[1])).await;
    assert_eq!((&later.blocked_by[..], &later.waiting_for[..]), (&[1, 29][..], &[29][..]));
}

#[tokio::test]
async fn a_change_removes_dependencies_before_adding_and_a_removed_one_can_be_reversed() {
    let t = Team::new().await;
    t.add_some(2).await;
    t.add(after(&[1])).await;
    let swap = v1::UpdateTaskRequest { add_blocked_by: vec![1, 2], remove_blocked_by: vec![1], ..change(3) };
    assert_eq!(t.update(swap).await.blocked_by, [1, 2]);
    assert_eq!((t.task(1).await.blocks, t.task(2).await.blocks), (vec![3], vec![3]));
    t.update(unblock(3, &[1, 2])).await;
    assert!(t.task(1).await.blocks.is_empty());
    t.update(wait_for(1, &[3])).await;
}

#[tokio::test]
async fn a_task_becomes_ready_once_nothing_blocks_it_for_whatever_reason() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(3).await;
    t.add(after(&[1, 2, 3])).await;
    t.add(v1::CreateTaskRequest { owner: "bob".to_owned(), ..after(&[3]) }).await;
    assert_eq!(t.update(unblock(4, &[1, 99])).await.waiting_for, [2, 3]);
    assert!(t.try_remove(&bob, 2).await.unwrap().is_empty());
    assert_eq!(t.task(4).await.blocked_by, [3], "what is deleted is not listed");
    let token = t.claim(&eve, 3).await;
    let reply = t.try_complete(&eve, 3, &token).await.unwrap();
    assert_eq!(reply.unblocked, [4, 5]);
    let freed = t.task(4).await;
    assert_eq!((&freed.blocked_by[..], &freed.waiting_for[..]), (&[3][..], &[][..]), "what is done stays listed");
    t.complete(1).await;
    assert_eq!((t.next(&bob).await, t.next(&eve).await), (Some(5), Some(4)), "5 waited for bob");

    // Deleting the last blocker, and removing the last dependency.
    t.add_some(2).await;
    t.add(after(&[6])).await;
    t.add(after(&[7])).await;
    assert_eq!(t.listed(v1::ListTasksRequest { ready_only: true, ..Default::default() }).await, [6, 7]);
    assert_eq!(t.try_remove(&eve, 6).await.unwrap(), [8]);
    t.update(unblock(9, &[7])).await;
    assert_eq!(t.listed(v1::ListTasksRequest { ready_only: true, ..Default::default() }).await, [7, 8, 9]);
    // A task that is itself blocked may be deleted, and is in nobody's way any more.
    t.add(after(&[7])).await;
    t.add(after(&[10])).await;
    assert_eq!(t.try_remove(&eve, 10).await.unwrap(), [11]);
    assert!(t.complete(7).await.is_empty());
}

#[tokio::test]
async fn a_blocked_task_goes_to_its_latest_owner_once_unblocked() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.add_some(1).await;
    t.add(v1::CreateTaskRequest { owner: "bob".to_owned(), ..after(&[1]) }).await;
    t.update(assign(2, "eve")).await;
    assert_eq!(t.complete(1).await, [2]);
    assert_eq!((t.next(&bob).await, t.next(&eve).await), (None, Some(2)));
}

#[tokio::test]
async fn deleting_a_task_in_progress_tells_its_owner_and_ends_the_claim() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    let token = t.claim(&bob, 1).await;
    t.claim(&bob, 2).await;
    t.try_remove(&t.lead, 1).await.unwrap();
    assert_eq!(t.notices(&bob, NoticeKind::TaskRevoked).await.pop().unwrap().task.unwrap().id, 1);
    t.refused(t.try_complete(&bob, 1, &token), Code::FailedPrecondition, Reason::TaskClosed, "task_id").await;
    let entries = t.history().await.len();
    assert!(t.try_remove(&t.lead, 1).await.unwrap().is_empty(), "deleting twice is fine");
    assert_eq!(t.history().await.len(), entries);
    // Its owner needs no notice.
    t.try_remove(&bob, 2).await.unwrap();
    assert_eq!(t.notices(&bob, NoticeKind::TaskRevoked).await.len(), 1);
    assert!(t.task(2).await.closed_at.is_some());
}

#[tokio::test]
async fn the_history_tells_what_happened_to_a_task() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    t.update(assign(1, "bob")).await;
    t.claim(&bob, 1).await;
    t.try_release(&t.lead, 1, "").await.unwrap();
    t.update(v1::UpdateTaskRequest { subject: Some("y".to_owned()), ..change(1) }).await;
    t.claim(&bob, 1).await;
    t.rejoin(&bob).await;
    t.complete(1).await;
    t.try_remove(&t.lead, 1).await.unwrap();
    let told = t.history().await.into_iter().filter_map(|entry| match entry.event {
        Some(Event::Task(event)) => Some((event.kind(), event.actor.unwrap().name, event.owner, event.attempts)),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let told: Vec<_> =
        told.iter().map(|(kind, actor, owner, attempts)| (*kind, actor.as_str(), owner.as_str(), *attempts)).collect();
    use TaskEventKind::*;
    let expected = [
        (Created, "lead", "", 0),
        (Assigned, "lead", "bob", 0),
        (Claimed, "bob", "bob", 1),
        (Released, "lead", "", 1),
        (Updated, "lead", "", 1),
        (Claimed, "bob", "bob", 2),
        (Lapsed, "coordinator", "bob", 2),
        (Completed, "operator", "", 2),
        (Deleted, "lead", "", 2),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_list_returns_the_tasks_that_match_its_filters_page_by_page() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(130).await;
    t.add(task_for("bob")).await;
    t.add(after(&[1])).await;
    t.claim(&bob, 2).await;
    t.complete(3).await;
    t.try_remove(&bob, 4).await.unwrap();
    let with = |status: TaskStatus| v1::ListTasksRequest { status: status.into(), ..Default::default() };
    assert_eq!(t.listed(with(TaskStatus::InProgress)).await, [2]);
    assert_eq!(t.listed(with(TaskStatus::Completed)).await, [3]);
    assert_eq!(t.listed(with(TaskStatus::Deleted)).await, [4]);
    let of_bob = v1::ListTasksRequest { owner: "Bob@alpha".to_owned(), ..Default::default() };
    assert_eq!(t.listed(of_bob).await, [2, 131]);
    let ready = v1::ListTasksRequest { ready_only: true, page_token: page::token(129), ..Default::default() };
    assert_eq!(t.listed(ready).await, [130, 131]);
    let none = v1::ListTasksRequest { ready_only: true, ..with(TaskStatus::InProgress) };
    assert!(t.listed(none).await.is_empty());

    let all: Vec<u64> = (1..=132).filter(|id| *id != 4).collect();
    let (mut request, mut pages) = (v1::ListTasksRequest { page_size: 64, ..Default::default() }, Vec::new());
    loop {
        let page = t.try_list(&bob, request.clone()).await.unwrap();
        pages.push(ids(&page));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [64, 64, 3]);
    assert_eq!(pages.concat(), all);
    assert_eq!(t.listed(Default::default()).await.len(), 100, "the default");
}

#[tokio::test]
async fn pages_of_long_tasks_stay_below_the_size_limit_and_leave_nothing_out() {
    let t = Team::new().await;
    let description = "x".repeat(64 * 1024);
    for _ in 0..70 {
        t.add(v1::CreateTaskRequest { description: description.clone(), ..task("long") }).await;
    }
    let mut request = v1::ListTasksRequest { page_size: 1_000, ..Default::default() };
    let mut listed = Vec::new();
    loop {
        let page = t.try_list(&t.lead, request.clone()).await.unwrap();
        assert!(page.tasks.len() < 70 && page.encoded_len() <= page::PAGE_BYTES_MAX + 100);
        listed.extend(ids(&page));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, (1..=70).collect::<Vec<u64>>());
}

#[tokio::test]
async fn the_board_is_deleted_with_its_team() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(2).await;
    t.add(after(&[1])).await;
    t.claim(&bob, 2).await;
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    assert!(t.is_gone(&["lead", "bob"]).await);
    let after = t.coordinator.create_team(&t.operator, &create("alpha")).await.unwrap();
    let lead = Member::new("lead", &after.credential);
    assert!(t.listed(Default::default()).await.is_empty());
    let first = t.try_add(&lead, task("the first again")).await.unwrap().task.unwrap();
    assert_eq!(first.id, 1);
}
