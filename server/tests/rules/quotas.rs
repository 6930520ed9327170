//! Quotas: what a full team refuses, what still works, who is notified, and what gives space back.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use teamwire_proto::{
    Reason, Refusal,
    v1::{self, NoticeKind, TaskStatus, history_entry::Event},
};
use teamwire_server::{
    domain::{
        Limits,
        records::RecordType as _,
        task::board::{BoardRecord, TaskRecord},
    },
    store::{Key, Store, embedded::EmbeddedStore, redis::RedisStore},
};
use tonic::Code;

use crate::{board::*, calls::RuleCalls as _, team::*, test_redis::TestRedis};

const KIB: u64 = 1_024;
const QUOTA: u64 = 256 * KIB;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn small(limits: &mut Limits) {
    limits.team_bytes_max = QUOTA;
}

/// A message of about 4 KiB.
fn long(to: &str, n: usize) -> v1::SendRequest {
    message(to, &format!("{n}{}", "x".repeat(4_000)))
}

impl Team {
    async fn usage(&self) -> u64 {
        self.clock.usage(&self.namespace).await.unwrap()
    }

    async fn storage(&self) -> v1::TeamStorage {
        self.coordinator.get_team(&self.operator, "alpha").await.unwrap().storage.unwrap()
    }

    /// Has a member send messages until one is refused. Returns the ids of the others, and the refusal.
    async fn fill(&self, from: &impl Calls, to: &str) -> (Vec<String>, Refusal) {
        let mut sent = Vec::new();
        for n in 0..1_000 {
            match self.try_send(from, long(to, n)).await {
                Ok(reply) => sent.push(reply.message_id),
                Err(refusal) => return (sent, refusal),
            }
        }
        panic!("a thousand messages fit");
    }

    /// Has a member change a task until that is refused. Returns how many changes were made, and the refusal.
    async fn churn(&self, from: &impl Calls, id: u64) -> (usize, Refusal) {
        for n in 0..10_000 {
            let request = v1::UpdateTaskRequest { subject: Some(format!("x {n}")), ..change(id) };
            if let Err(refusal) = self.try_update(from, request).await {
                return (n, refusal);
            }
        }
        panic!("ten thousand changes fit");
    }

    async fn messages_in_history(&self) -> Vec<String> {
        let message = |entry: v1::HistoryEntry| match entry.event {
            Some(Event::Message(message)) => Some(message.id),
            _ => None,
        };
        self.history().await.into_iter().filter_map(message).collect()
    }
}

fn refused_for(refusal: &Refusal, quota: &str) {
    assert_eq!((refusal.reason, refusal.reason.code()), (Reason::QuotaExceeded, Code::ResourceExhausted), "{refusal}");
    assert_eq!(refusal.metadata.get("quota").map(String::as_str), Some(quota), "{refusal}");
    assert!(refusal.message.contains("limits.team_bytes_max"), "{refusal}");
}

#[tokio::test]
async fn a_full_team_refuses_additions_but_its_lead_can_still_act_on_either_store() {
    let server = TestRedis::start();
    let mut stores: Vec<Arc<dyn Store>> = vec![EmbeddedStore::in_memory().unwrap()];
    if let Some(server) = &server {
        stores.push(RedisStore::connect(&server.url(), "test").await.unwrap());
    }
    for store in stores {
        full_team(store).await;
    }
}

async fn full_team(store: Arc<dyn Store>) {
    let t = Team::on(store, small).await;
    let (bob, eve) = (t.join("bob").await, t.join("eve").await);
    let asked = t.ask(&eve, plan("build")).await;
    let first = t.send(&t.lead, message("bob", "first")).await.message_id;
    let (sent, refusal) = t.fill(&bob, "eve").await;
    refused_for(&refusal, "team");
    assert!(refusal.message.contains("256 KiB") && !refusal.message.contains("tenth"), "{refusal}");
    assert!(sent.len() > 50 && t.usage().await <= QUOTA, "{} messages", sent.len());
    t.refused(t.try_send(&bob, long("eve", 0)), Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    let created = t.try_add(&bob, v1::CreateTaskRequest { description: "x".repeat(4_000), ..task("x") });
    t.refused(created, Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    // Everything that was said is there.
    let said = t.messages_in_history().await;
    assert!(said.contains(&first) && sent.iter().all(|id| said.contains(id)));

    // Another team has room.
    t.coordinator.create_team(&t.operator, &create("beta")).await.unwrap();
    let in_beta = v1::SendRequest { team: "beta".to_owned(), ..long("lead", 0) };
    t.coordinator.send(&t.operator, &in_beta).await.unwrap();

    // What ends or frees something.
    assert_eq!(t.ack(&bob, &[&first]).await, Ok(1));
    t.send(&t.lead, answer_plan("eve", &asked, Some(true), "")).await;
    let asked = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, reject(&asked, "not yet")).await;
    // The lead has a reserve.
    let (leads, refusal) = t.fill(&t.lead, "bob").await;
    refused_for(&refusal, "team");
    assert!(leads.len() > 2, "{}", leads.len());
    assert!(refusal.message.contains("The tenth more") && refusal.message.contains("281.6 KiB"), "{refusal}");
    let asked = t.ask(&t.lead, shutdown("eve")).await;
    t.send(&eve, approve(&asked)).await;
    t.leave(&eve).await;
    let stop = v1::ForceStopRequest { member: "bob".to_owned(), ..Default::default() };
    t.coordinator.force_stop(&t.lead.who, &stop).await.unwrap();
    assert!(t.usage().await < QUOTA * 12 / 10);
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    assert_eq!(t.usage().await, 0);
}

#[tokio::test]
async fn space_comes_back_when_old_history_is_deleted() {
    let mut t = Team::with_limits(small).await;
    let bob = t.join("bob").await;
    let (sent, _) = t.fill(&bob, "lead").await;
    let ids: Vec<&str> = sent.iter().map(String::as_str).collect();
    t.ack(&t.lead, &ids).await.unwrap();
    t.fill(&bob, "lead").await;
    t.pass(31 * DAY).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert!(t.usage().await < QUOTA / 8, "{}", t.usage().await);
    t.send(&bob, long("lead", 0)).await;
}

#[tokio::test]
async fn the_lead_is_notified_when_the_team_is_nearly_full_and_when_it_is_full() {
    let mut t = Team::with_limits(small).await;
    let bob = t.join("bob").await;
    let mut sent = Vec::new();
    async fn check_quota(t: &mut Team) -> Vec<v1::Notice> {
        t.pass(Duration::from_secs(60)).await;
        t.coordinator.delete_old(&t.namespace).await.unwrap();
        t.notices(&t.lead, NoticeKind::Quota).await
    }
    while t.usage().await < QUOTA * 79 / 100 - 6_000 {
        sent.push(t.send(&bob, long("lead", sent.len())).await.message_id);
    }
    assert!(check_quota(&mut t).await.is_empty(), "less than 80%");
    while t.usage().await < QUOTA * 80 / 100 {
        sent.push(t.send(&bob, long("lead", sent.len())).await.message_id);
    }
    for _ in 0..3 {
        let told = check_quota(&mut t).await;
        assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [1], "{told:?}");
        assert!(told[0].important && told[0].text.starts_with("The team uses 8"), "{}", told[0].text);
        assert!(told[0].text.contains("limits.team_bytes_max"), "{}", told[0].text);
    }
    t.fill(&bob, "lead").await;
    // Small messages still fit.
    while t.try_send(&bob, message("lead", "x")).await.is_ok() {}
    let told = check_quota(&mut t).await;
    assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [2], "{told:?}");
    assert!(told[0].text.contains("you and the operator have a reserve"), "{}", told[0].text);
    // Once it holds less, another alarm can follow.
    let ids: Vec<&str> = sent.iter().map(String::as_str).collect();
    t.ack(&t.lead, &ids).await.unwrap();
    t.pass(31 * DAY).await;
    for message in t.inbox(&t.lead).await {
        t.ack(&t.lead, &[&message.id]).await.unwrap();
    }
    assert!(check_quota(&mut t).await.is_empty());
    assert!(check_quota(&mut t).await.is_empty());
    while t.usage().await < QUOTA * 80 / 100 {
        sent.push(t.send(&bob, long("lead", sent.len())).await.message_id);
    }
    assert_eq!(check_quota(&mut t).await.len(), 1);
}

#[tokio::test]
async fn task_churn_neither_pushes_out_nor_blocks_messages() {
    let mut t = Team::with_limits(small).await;
    let bob = t.join("bob").await;
    let said = t.send(&t.lead, message("bob", "said")).await.message_id;
    t.add_some(3).await;
    let (changes, refusal) = t.churn(&bob, 1).await;
    refused_for(&refusal, "task_changes");
    assert!(changes > 50 && !refusal.message.contains("tenth"), "{changes} {refusal}");
    let storage = t.storage().await;
    assert!(storage.task_history_bytes > storage.task_history_bytes_max * 95 / 100, "{storage:?}");
    assert!(storage.bytes < storage.bytes_max / 2, "{storage:?}");
    for _ in 0..2 {
        t.coordinator.delete_old(&t.namespace).await.unwrap();
    }
    let later = t.send(&bob, message("lead", "still possible")).await.message_id;
    assert_eq!(t.messages_in_history().await.into_iter().filter(|id| *id == said || *id == later).count(), 2);
    // Claims are refused, and what ends a task is not. The lead can still change one.
    t.refused(t.try_claim(&bob, 2), Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    t.complete(2).await;
    t.try_remove(&bob, 3).await.unwrap();
    t.update(v1::UpdateTaskRequest { subject: Some("y".to_owned()), ..change(1) }).await;
    let (_, refusal) = t.churn(&t.lead, 1).await;
    refused_for(&refusal, "task_changes");
    assert!(refusal.message.contains("The tenth more"), "{refusal}");
    // The share is free again once the entries are old.
    t.pass(31 * DAY).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert!(t.storage().await.task_history_bytes < storage.task_history_bytes / 2);
    let bob = t.join("ann").await;
    t.try_update(&bob, v1::UpdateTaskRequest { subject: Some("z".to_owned()), ..change(1) }).await.unwrap();
}

#[tokio::test]
async fn tasks_have_a_share_and_deleting_one_gives_space_back() {
    let mut t = Team::with_limits(small).await;
    let bob = t.join("bob").await;
    let large = || v1::CreateTaskRequest { description: "x".repeat(10_000), ..task("large") };
    for _ in 0..6 {
        t.try_add(&bob, large()).await.unwrap();
    }
    let refusal = t.refused(t.try_add(&bob, large()), Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    refused_for(&refusal, "tasks");
    let grown = v1::UpdateTaskRequest { description: Some("y".repeat(40_000)), ..change(1) };
    for (who, has_reserve) in [(&bob, false), (&t.lead, true)] {
        let update = t.try_update(who, grown.clone());
        let refusal = t.refused(update, Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
        refused_for(&refusal, "tasks");
        assert_eq!(refusal.message.contains("The tenth more"), has_reserve, "{refusal}");
    }
    t.send(&bob, long("lead", 1)).await;
    t.try_remove(&bob, 1).await.unwrap();
    assert_eq!(t.task(1).await.description, "", "a deleted task keeps only what is short");
    assert_eq!((t.task(1).await.status(), t.task(1).await.subject.as_str()), (TaskStatus::Deleted, "large"));
    t.try_add(&bob, large()).await.unwrap();
    // A short result needs no room, and a long one does.
    let claim_token = t.claim(&bob, 2).await;
    let complete = |result: String| v1::CompleteTaskRequest {
        task_id: 2,
        claim_token: claim_token.clone(),
        result,
        ..Default::default()
    };
    let long = t.coordinator.complete_task(&bob.who, &complete("x".repeat(20_000))).await.unwrap_err();
    refused_for(&long, "tasks");
    t.coordinator.complete_task(&bob.who, &complete("done".to_owned())).await.unwrap();
    t.pass(31 * DAY).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert!(t.storage().await.task_bytes < 60_000);
    crate::board_check::check_board(&*t.clock, &t.namespace).await;
}

#[tokio::test]
async fn tasks_that_are_created_and_deleted_leave_little() {
    const ROUNDS: u64 = 200;
    let (t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    let before = t.usage().await;
    for n in 0..ROUNDS {
        let metadata = [("k".to_owned(), "v".repeat(1_000))].into();
        let request = v1::CreateTaskRequest {
            description: "x".repeat(16_000),
            idempotency_key: n.to_string(),
            blocked_by: vec![1],
            metadata,
            ..task("x")
        };
        let id = t.try_add(&bob, request).await.unwrap().task.unwrap().id;
        t.try_remove(&bob, id).await.unwrap();
    }
    let each = (t.usage().await - before) / ROUNDS;
    assert!(each < 2_000, "{each} bytes each");
    let keys = [Key::new(BoardRecord::KIND, ""), Key::new(TaskRecord::KIND, "1")];
    for record in t.clock.read(&t.namespace, &keys).await.unwrap() {
        // Both are written with every change.
        assert!(record.as_ref().unwrap().data.len() < 1_000, "{:?}", record.unwrap().data);
    }
    crate::board_check::check_board(&*t.clock, &t.namespace).await;
}

#[tokio::test]
async fn repeated_calls_return_the_whole_task_although_only_a_part_is_remembered() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let request = v1::CreateTaskRequest {
        idempotency_key: "k".to_owned(),
        description: "x".repeat(10_000),
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        ..task("x")
    };
    let before = t.usage().await;
    let first = t.try_add(&bob, request.clone()).await.unwrap();
    let record = first.task.as_ref().unwrap().encoded_len() as u64;
    assert!(t.usage().await - before < record + 3_000, "the description is stored once");
    let again = t.try_add(&bob, request.clone()).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.task, first.task);
    let claim = v1::ClaimTaskRequest { task_id: 1, idempotency_key: "c".to_owned() };
    let first = t.coordinator.claim_task(&bob.who, &claim).await.unwrap();
    assert_eq!(t.coordinator.claim_task(&bob.who, &claim).await.unwrap(), first);
    // Once the task is gone, its call is still not carried out again.
    t.try_remove(&t.lead, 1).await.unwrap();
    assert_eq!(t.try_add(&bob, request).await.unwrap().task.unwrap().id, 1);
}
