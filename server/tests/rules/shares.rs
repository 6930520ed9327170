//! What one member can fill shuts no one else out.

use teamwire_proto::{
    Reason,
    v1::{self, DeadLetterCause, ReceiptState, RequestState},
};
use tonic::Code;

use crate::{board::task_for, calls::RuleCalls as _, team::*};

/// How many messages of each sender a full inbox still takes.
const SHARE: usize = 16;

/// Fills the lead's inbox with messages of a member. Returns their ids.
async fn flood(t: &Team, from: &Member) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        match t.try_send(from, message("lead", "again")).await {
            Ok(sent) => ids.push(sent.message_id),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::InboxFull, "{refusal}");
                return ids;
            }
        }
    }
}

async fn of_two() -> (Team, [Member; 2]) {
    let t = Team::with_limits(|limits| limits.inbox_entries_max = 200).await;
    let members = t.join_all(["bob", "eve"]).await;
    (t, members)
}

#[tokio::test]
async fn a_member_that_fills_an_inbox_keeps_no_one_else_out_and_its_flood_goes_with_it() {
    let (t, [bob, eve]) = of_two().await;
    let flood = flood(&t, &eve).await;
    assert_eq!(flood.len(), 200);
    t.refused(t.try_send(&eve, message("lead", "more")), Code::ResourceExhausted, Reason::InboxFull, "").await;

    let asked = t.send(&bob, plan("1. Do it.")).await;
    t.send(&bob, permission("")).await;
    // The inbox holds messages of two senders, so each has half of it.
    for _ in 2..100 {
        t.send(&bob, message("lead", "a report")).await;
    }
    t.refused(t.try_send(&bob, message("lead", "more")), Code::ResourceExhausted, Reason::InboxFull, "").await;
    t.refused(t.try_send(&bob, broadcast("no")), Code::ResourceExhausted, Reason::InboxFull, "").await;
    assert_eq!(t.request(&asked.request_id).await.state(), RequestState::Pending);
    assert!(t.member("lead").await.inbox_full);

    t.try_force(&t.lead, "eve").await.unwrap();
    let lead = t.member("lead").await;
    assert!(!lead.inbox_full);
    let left = t.inbox(&t.lead).await.into_iter().filter(|message| message.sender.as_ref().unwrap().name == "eve");
    assert_eq!(left.count(), SHARE, "its latest messages stay");
    let receipt = t.receipts(&flood[0]).await.remove(0);
    assert_eq!(
        (receipt.state(), receipt.dead_letter_cause()),
        (ReceiptState::DeadLettered, DeadLetterCause::SenderStopped)
    );
    assert_eq!(t.receipts(flood.last().unwrap()).await[0].state(), ReceiptState::Queued);
}

#[tokio::test]
async fn what_stays_of_a_stopped_member_takes_no_room() {
    let (t, [bob, eve]) = of_two().await;
    // Less than a flood, so none of it is lost.
    for _ in 0..100 {
        t.send(&eve, message("lead", "a report")).await;
    }
    t.try_force(&t.lead, "eve").await.unwrap();
    let took = flood(&t, &bob).await.len();
    assert_eq!(took, 200, "the whole inbox is bob's");
    assert!(t.member("lead").await.inbox_full);
    assert_eq!(t.inbox(&t.lead).await.len(), 300);
}

#[tokio::test]
async fn a_flood_of_notices_of_one_kind_pushes_out_only_its_own() {
    let t = Team::with_limits(|limits| limits.inbox_notices_max = 10).await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    t.try_leave(&bob, 1).await.unwrap();
    for _ in 0..30 {
        t.try_add(&eve, task_for("lead")).await.unwrap();
    }
    let notices = async |kind| t.notices(&t.lead, kind).await.len();
    assert_eq!(notices(v1::NoticeKind::MemberExited).await, 1);
    assert_eq!(notices(v1::NoticeKind::TaskAssignment).await, 9);
}

#[tokio::test]
async fn a_session_delivers_nothing_of_a_flood_that_is_gone_and_everything_else() {
    let (t, [bob, eve]) = of_two().await;
    let mut session = t.open(&t.lead).await;
    flood(&t, &eve).await;
    let after = t.send(&bob, message("lead", "a report")).await.message_id;
    t.try_force(&t.lead, "eve").await.unwrap();
    let (mut of_eve, mut found) = (0, false);
    while !found {
        let delivered = session.delivery().await.message.unwrap();
        of_eve += usize::from(delivered.sender.as_ref().unwrap().name == "eve");
        found = delivered.id == after;
    }
    assert!(of_eve < 200, "{of_eve} messages of the flood were delivered");
}

#[tokio::test]
async fn a_request_that_is_over_leaves_the_inbox() {
    let (t, [bob, _]) = of_two().await;
    let before = t.member("lead").await.inbox_depth;
    for _ in 0..30 {
        let asked = t.send(&bob, permission("")).await;
        let withdraw = v1::WithdrawRequest { team: String::new(), request_id: asked.request_id.clone() };
        t.coordinator.withdraw(&bob.who, &withdraw).await.unwrap();
        assert_eq!(t.request(&asked.request_id).await.state(), RequestState::Cancelled);
        let receipt = t.receipts(&asked.message_id).await.remove(0);
        assert_eq!(receipt.dead_letter_cause(), DeadLetterCause::RequestOver);
    }
    let first = t.send(&bob, plan("1. Do it.")).await;
    let second = t.send(&bob, plan("1. Do it well.")).await;
    assert_eq!(t.receipts(&first.message_id).await[0].state(), ReceiptState::DeadLettered);
    assert_eq!(t.receipts(&second.message_id).await[0].state(), ReceiptState::Queued);
    assert_eq!(t.member("lead").await.inbox_depth, before + 1);
}
