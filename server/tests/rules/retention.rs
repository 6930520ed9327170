//! What retention deletes and keeps, and its notices to the lead.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, NoticeKind, RequestState, history_entry::Event},
};
use teamwire_server::{
    domain::{
        records::{JoinTokenRecord, ReceiptRecord, RecordType, TeamRecord},
        streams::LEFTOVERS,
    },
    store::Store,
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Team {
    async fn tidy_after(&mut self, time: Duration) {
        self.pass(time).await;
        self.coordinator.delete_old(&self.namespace).await.unwrap();
    }

    async fn count<T: RecordType>(&self) -> usize {
        self.clock.scan(&self.namespace, T::KIND, "", 10_000).await.unwrap().len()
    }

    async fn leftovers(&self) -> u64 {
        self.clock.extents(&self.namespace, &[LEFTOVERS.to_owned()]).await.unwrap()[0].entries
    }
}

#[tokio::test]
async fn old_history_is_deleted_with_its_processed_messages_and_their_receipts() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let done = t.send(&t.lead, message("bob", "done")).await.message_id;
    t.ack(&bob, &[&done]).await.unwrap();
    let waits = t.send(&t.lead, message("bob", "waits")).await.message_id;
    t.tidy_after(29 * DAY).await;
    assert!(!t.history().await.is_empty(), "too young to go");
    let kept = t.inbox(&bob).await.len();

    t.tidy_after(2 * DAY).await;
    let left: Vec<_> =
        t.history().await.into_iter().filter(|entry| matches!(entry.event, Some(Event::Message(_)))).collect();
    assert!(left.iter().all(|entry| !matches!(&entry.event, Some(Event::Message(m)) if m.id == done || m.id == waits)));
    assert_eq!(t.count::<ReceiptRecord>().await, 0);
    // What nobody has processed is still there, and still has a receipt to come.
    assert_eq!(t.inbox(&bob).await.len(), kept);
    assert_eq!(t.receipts(&waits).await[0].state(), v1::ReceiptState::Queued);
    assert!(t.leftovers().await >= 1);

    t.ack(&bob, &[&waits]).await.unwrap();
    assert_eq!(t.receipts(&waits).await[0].state(), v1::ReceiptState::Processed);
    for message in t.inbox(&bob).await.into_iter().chain(t.inbox(&t.lead).await) {
        for member in [&bob, &t.lead] {
            t.ack(member, &[&message.id]).await.unwrap();
        }
    }
    t.tidy_after(31 * DAY).await;
    assert_eq!((t.leftovers().await, t.count::<ReceiptRecord>().await), (0, 0));
    assert_eq!(t.count::<v1::Message>().await, 0);
}

#[tokio::test]
async fn old_decided_requests_are_deleted_and_pending_ones_stay() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let old = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, reject(&old, "no")).await;
    let lead = t.lead.clone();
    t.pass_and_run_due(29 * DAY, &[&lead, &ann, &bob]).await;
    let open = t.ask(&ann, plan("build")).await;
    t.coordinator.delete_old(&t.namespace).await.unwrap();
    assert_eq!(t.count::<v1::Request>().await, 2, "thirty days are not over");
    t.tidy_after(DAY + Duration::from_secs(60)).await;
    assert_eq!(t.count::<v1::Request>().await, 1);
    assert_eq!(t.request(&open).await.state(), RequestState::Pending);
    let gone = t.coordinator.get_request(&t.operator, "alpha", &old).await;
    assert_eq!(gone.unwrap_err().reason, Reason::RequestNotFound);
}

#[tokio::test]
async fn a_member_that_left_long_ago_leaves_the_roster_and_its_name_is_free() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let unread = t.send(&t.lead, message("bob", "unread")).await.message_id;
    t.leave(&bob).await;
    t.tidy_after(6 * DAY).await;
    assert_eq!(t.member("bob").await.state(), v1::MemberState::Exited);
    t.tidy_after(2 * DAY).await;
    let members = t.coordinator.list_members(&t.operator, &all_members("alpha")).await.unwrap().members;
    assert_eq!(members.len(), 1, "{members:?}");
    let receipt = t.receipts(&unread).await.remove(0);
    assert_eq!(
        (receipt.state(), receipt.dead_letter_cause()),
        (v1::ReceiptState::DeadLettered, v1::DeadLetterCause::MemberRemoved)
    );
    let call = t.try_send(&t.lead, message("bob", "x"));
    t.refused(call, Code::NotFound, Reason::AgentNotFound, "recipient").await;
    let call = t.try_send(&bob, message("lead", "x"));
    t.refused(call, Code::Unauthenticated, Reason::CredentialInvalid, "").await;

    let again = t.join("bob").await;
    assert!(t.inbox(&again).await.is_empty());
    assert_eq!(t.member("bob").await.incarnation, 1);
    // The lead stays, however long it is gone.
    t.leave(&t.lead.clone()).await;
    t.tidy_after(30 * DAY).await;
    assert_eq!(t.member("lead").await.state(), v1::MemberState::Exited);
}

#[tokio::test]
async fn pages_of_members_leave_none_out_while_others_are_removed() {
    let (mut t, [ann, bob, _]) = Team::of(["ann", "bob", "eve"]).await;
    t.leave(&ann).await;
    let first = v1::ListMembersRequest { page_size: 3, ..all_members("alpha") };
    let page = t.coordinator.list_members(&t.operator, &first).await.unwrap();
    let next = v1::ListMembersRequest { page_token: page.next_page_token, ..all_members("alpha") };
    t.tidy_after(8 * DAY).await;
    let names = async |t: &Team| {
        let page = t.coordinator.list_members(&t.operator, &next).await.unwrap();
        assert_eq!(page.next_page_token, "");
        page.members.into_iter().map(|member| member.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&t).await, ["eve"], "ann, who was on the first page, is gone");
    t.leave(&bob).await;
    t.tidy_after(8 * DAY).await;
    assert_eq!(names(&t).await, ["lead", "eve"], "the page's last member is gone: the list starts over");
}

#[tokio::test]
async fn tokens_are_remembered_for_a_day_after_their_end() {
    let mut t = Team::new().await;
    let token = presented(&t.invite("bob").await);
    t.tidy_after(DAY).await;
    let expired = t.try_join(&token, v1::JoinRequest::default());
    t.refused(expired, Code::Unauthenticated, Reason::JoinTokenExpired, "").await;
    t.tidy_after(Duration::from_secs(16 * 60)).await;
    assert_eq!(t.count::<JoinTokenRecord>().await, 0);
    let unknown = t.try_join(&token, v1::JoinRequest::default());
    t.refused(unknown, Code::Unauthenticated, Reason::CredentialInvalid, "").await;
}

#[tokio::test]
async fn old_closed_tasks_are_deleted_and_open_ones_stay() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let create = |subject: &str| v1::CreateTaskRequest { subject: subject.to_owned(), ..Default::default() };
    for subject in ["completed", "deleted", "open"] {
        t.coordinator.create_task(&t.lead.who, &create(subject)).await.unwrap();
    }
    let claim = v1::ClaimTaskRequest { task_id: 1, ..Default::default() };
    let claim_token = t.coordinator.claim_task(&bob.who, &claim).await.unwrap().token;
    let complete = v1::CompleteTaskRequest { task_id: 1, claim_token, ..Default::default() };
    t.coordinator.complete_task(&bob.who, &complete).await.unwrap();
    t.coordinator.delete_task(&t.lead.who, "", 2).await.unwrap();
    let operator = t.operator.clone();
    t.tidy_after(DAY / 2).await;
    assert!(t.coordinator.get_task(&operator, "alpha", 2).await.is_ok());
    t.tidy_after(DAY).await;
    let gone = t.coordinator.get_task(&operator, "alpha", 2).await;
    assert_eq!(gone.unwrap_err().reason, Reason::TaskNotFound);
    assert!(t.coordinator.get_task(&operator, "alpha", 1).await.is_ok());
    t.tidy_after(30 * DAY).await;
    let list = v1::ListTasksRequest { team: "alpha".to_owned(), ..Default::default() };
    let left = t.coordinator.list_tasks(&operator, &list).await.unwrap().tasks;
    assert_eq!(left.iter().map(|task| task.id).collect::<Vec<_>>(), [3]);
    let next = t.coordinator.create_task(&t.lead.who, &create("next")).await.unwrap();
    assert_eq!(next.task.unwrap().id, 4, "no number is given twice");
}

#[tokio::test]
async fn the_lead_gets_one_notice_about_unprocessed_messages() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "first")).await.message_id;
    t.send(&bob, message("lead", "the lead's own")).await;
    t.tidy_after(Duration::from_secs(9 * 60)).await;
    assert!(t.notices(&t.lead, NoticeKind::Unprocessed).await.is_empty());
    for _ in 0..3 {
        t.tidy_after(Duration::from_secs(4 * 60)).await;
    }
    let told = t.notices(&t.lead, NoticeKind::Unprocessed).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].member.as_str(), told[0].message_id.as_str()), ("bob", id.as_str()));
    assert!(told[0].text.starts_with("bob has a message unprocessed, the oldest for "), "{}", told[0].text);

    // Another message that waits too long gets a notice, too, which replaces the first one.
    t.ack(&bob, &[&id]).await.unwrap();
    let second = t.send(&t.lead, message("bob", "second")).await.message_id;
    t.tidy_after(Duration::from_secs(11 * 60)).await;
    let told = t.notices(&t.lead, NoticeKind::Unprocessed).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].message_id.as_str(), told[0].count), (second.as_str(), 2));
    // There is no notice about members that exited.
    t.leave(&bob).await;
    t.tidy_after(Duration::from_secs(60 * 60)).await;
    let told = t.notices(&t.lead, NoticeKind::Unprocessed).await;
    assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn another_team_of_the_same_name_is_not_touched() {
    let (t, []) = Team::of([]).await;
    let before =
        t.clock.read(&t.namespace, &[teamwire_server::coordinator::keys::team_key()]).await.unwrap().remove(0).unwrap();
    let old = TeamRecord::decode(&before.data).unwrap().id;
    t.try_delete(&t.lead).await.unwrap();
    t.coordinator.create_team(&t.operator, &create("alpha")).await.unwrap();
    let history = t.history().await.len();
    let sequences = [1, 2];
    let trimmed = t
        .coordinator
        .decide(&t.namespace, &[], |tx| teamwire_server::domain::retention::trim_history(tx, old, &sequences, &[]))
        .await;
    trimmed.unwrap();
    assert_eq!(t.history().await.len(), history);
}
