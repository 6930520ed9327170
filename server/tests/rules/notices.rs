//! Notices and the inbox: they take no room from messages, and are few however often their events happen.

use std::time::Duration;

use futures::future::join_all;
use teamwire_proto::{
    Reason,
    v1::{self, Activity, NoticeKind, ReceiptState, message::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

fn is_notice(message: &v1::Message) -> bool {
    matches!(message.body, Some(Body::Notice(_)))
}

#[tokio::test]
async fn member_that_joins_in_a_loop_leaves_the_lead_its_inbox_and_the_history_its_room() {
    on_each_store(|store| async {
        let mut t = Team::on(store, |limits| {
            limits.inbox_entries_max = 3;
            limits.notice_interval = Duration::from_secs(60);
        })
        .await;
        let [mut bob, eve] = t.join_all(["bob", "eve"]).await;
        for _ in 0..100 {
            bob = t.rejoin(&bob).await;
        }
        assert_eq!(t.inbox(&t.lead).await.len(), 1);
        t.pass_and_run_due(Duration::from_secs(61), &[&bob, &eve, &t.lead.clone()]).await;
        let told = t.notices(&t.lead, NoticeKind::SessionSuperseded).await;
        assert_eq!(told.iter().map(|notice| notice.count).collect::<Vec<_>>(), [100]);
        let history = t.history().await;
        let recorded = history.iter().filter_map(|entry| match &entry.event {
            Some(v1::history_entry::Event::Message(message)) => Some(message),
            _ => None,
        });
        assert_eq!(recorded.filter(|message| is_notice(message)).count(), 2, "the first one, and the one that counts");

        // Messages fit up to their own bound.
        for text in ["1", "2", "3"] {
            assert!(!t.member("lead").await.inbox_full);
            t.send(&eve, message("lead", text)).await;
        }
        assert!(t.member("lead").await.inbox_full);
        let fourth = t.try_send(&eve, message("lead", "4"));
        t.refused(fourth, Code::ResourceExhausted, Reason::InboxFull, "").await;
        assert_eq!(t.inbox(&t.lead).await.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn notices_do_not_count_against_the_bytes_of_messages() {
    let t = Team::with_limits(|limits| limits.inbox_bytes_max = 1_000).await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    for (member, code) in [(&bob, 1), (&eve, 2)] {
        t.try_leave(member, code).await.unwrap();
    }
    assert_eq!(t.notices(&t.lead, NoticeKind::MemberExited).await.len(), 2);
    let text = "x".repeat(600);
    t.send(&t.operator, in_alpha(message("lead", &text))).await;
    let second = t.try_send(&t.operator, in_alpha(message("lead", &text)));
    t.refused(second, Code::ResourceExhausted, Reason::InboxFull, "").await;
}

#[tokio::test]
async fn members_that_go_idle_at_once_each_get_a_notice() {
    on_each_store(|store| async {
        let t = Team::on(store, |_| {}).await;
        let members = t.join_all(["a", "b", "c", "d", "e", "f", "g", "h"]).await;
        let other = t.another_coordinator().await;
        let idle = v1::HeartbeatRequest { activity: Activity::Idle.into(), ..Default::default() };
        let calls = members.iter().enumerate().map(|(at, member)| {
            let coordinator = if at % 2 == 0 { &t.coordinator } else { &other };
            coordinator.heartbeat(&member.who, &idle)
        });
        assert!(join_all(calls).await.iter().all(Result::is_ok));
        let told = t.notices(&t.lead, NoticeKind::Idle).await;
        let mut of: Vec<_> = told.iter().map(|notice| (notice.member.as_str(), notice.count)).collect();
        of.sort_unstable();
        assert_eq!(of, ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, 1)));
    })
    .await;
}

#[tokio::test]
async fn acknowledgement_of_a_replaced_notice_keeps_the_newer_one() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.heartbeat(&bob, Activity::Idle, "").await;
    let first = t.inbox(&t.lead).await.remove(0).id;
    t.pass(Duration::from_secs(11)).await;
    t.heartbeat(&bob, Activity::Active, "").await;
    t.heartbeat(&bob, Activity::Idle, "more").await;
    assert_eq!(t.ack(&t.lead, &[&first]).await, Ok(0));
    let told = t.notices(&t.lead, NoticeKind::Idle).await;
    assert_eq!((told.len(), told[0].count, told[0].text.as_str()), (1, 2, "bob is idle: more"));
    let receipt = t.receipts(&first).await.remove(0);
    assert_eq!(
        (receipt.state(), receipt.dead_letter_cause()),
        (ReceiptState::DeadLettered, v1::DeadLetterCause::Replaced)
    );
}

#[tokio::test]
async fn session_without_credit_later_gets_only_the_latest_notice() {
    let t = Team::with_limits(|limits| limits.unacked_messages_max = 1).await;
    let [bob] = t.join_all(["bob"]).await;
    let lead = t.lead.clone();
    let filler = t.send(&bob, message("lead", "first")).await.message_id;
    let mut open = t.open(&lead).await;
    assert_eq!(open.delivery().await.message.unwrap().id, filler);
    for _ in 0..3 {
        t.heartbeat(&bob, Activity::Active, "").await;
        t.heartbeat(&bob, Activity::Idle, "").await;
        t.clock.advance(Duration::from_secs(11));
    }
    t.send(&bob, message("lead", "last")).await;
    let mut acked = filler;
    let mut seen = Vec::new();
    loop {
        t.ack(&open.member, &[&acked]).await.unwrap();
        let message = open.delivery().await.message.unwrap();
        acked = message.id;
        match message.body.unwrap() {
            Body::Notice(notice) => seen.push(notice.count),
            _ => break,
        }
    }
    assert_eq!(seen, [3]);
}

#[tokio::test]
async fn level_outlives_the_life_that_set_it() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let request = v1::SetNoticeLevelRequest { level: v1::NoticeLevel::Important.into(), ..Default::default() };
    t.coordinator.set_notice_level(&bob.who, &request).await.unwrap();
    t.rejoin(&bob).await;
    assert_eq!(t.member("bob").await.notice_level(), v1::NoticeLevel::Important);
    assert_eq!(t.member("lead").await.notice_level(), v1::NoticeLevel::All);
}

#[tokio::test]
async fn crash_is_important_and_a_normal_exit_is_not() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let request = v1::SetNoticeLevelRequest { level: v1::NoticeLevel::Important.into(), ..Default::default() };
    t.coordinator.set_notice_level(&t.lead.who, &request).await.unwrap();
    t.try_leave(&bob, 0).await.unwrap();
    t.try_leave(&eve, 3).await.unwrap();
    let told = t.notices(&t.lead, NoticeKind::MemberExited).await;
    assert_eq!(told.iter().map(|notice| notice.member.as_str()).collect::<Vec<_>>(), ["eve"]);
}

#[tokio::test]
async fn pending_idle_notice_is_dropped_when_its_member_exits_or_is_lost() {
    on_each_store(|store| async {
        let mut t = Team::on(store, |limits| limits.notice_interval = Duration::from_secs(60)).await;
        let [bob, eve, ann] = t.join_all(["bob", "eve", "ann"]).await;
        for member in [&bob, &eve, &ann] {
            for activity in [Activity::Idle, Activity::Active, Activity::Idle] {
                t.heartbeat(member, activity, "").await;
            }
        }
        let first = ["bob", "eve", "ann"].map(|name| (name.to_owned(), 1));
        assert_eq!(idle_notices(&t).await, first, "the second notice of each waits");
        t.leave(&bob).await;
        // Longer than a lease and its grace: eve is lost before her notice is due.
        t.pass_and_run_due(Duration::from_secs(59), &[&ann, &t.lead.clone()]).await;
        t.pass_and_run_due(Duration::from_secs(2), &[&ann, &t.lead.clone()]).await;
        assert_eq!(t.notices(&t.lead, NoticeKind::MemberExited).await.len(), 1);
        assert_eq!(t.notices(&t.lead, NoticeKind::MemberLost).await.len(), 1);
        let expected = [("bob", 1), ("eve", 1), ("ann", 2)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(idle_notices(&t).await, expected, "only the notice of the one that lives on has come");
    })
    .await;
}

/// Returns the members of the lead's notices of idleness, each with the number of its events.
async fn idle_notices(t: &Team) -> Vec<(String, u32)> {
    let told = t.notices(&t.lead, NoticeKind::Idle).await;
    told.into_iter().map(|notice| (notice.member, notice.count)).collect()
}
