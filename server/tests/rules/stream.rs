//! Sessions, deliveries, acknowledgements.

use teamwire_proto::{
    Reason,
    id::MessageId,
    name::Name,
    v1::{self, CloseReason, NoticeKind, ReceiptState, history_entry::Event, message::Body},
};
use teamwire_server::{
    domain::{
        dead_letters::Undeliverable,
        inbox::Leaving,
        records::{RecordType as _, SessionRecord},
        secret::SessionId,
    },
    store::{Key, Record, Store as _, Txn, Write},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

#[tokio::test]
async fn a_session_delivers_the_backlog_in_order_and_then_what_comes() {
    let (t, [bob]) = Team::of(["bob"]).await;
    for n in 0..3 {
        t.send(&t.lead, message("bob", &n.to_string())).await;
    }
    let mut session = t.open(&bob).await;
    let opened = &session.opened;
    assert_eq!((opened.epoch, opened.incarnation, opened.backlog), (1, 1, 3));
    assert_eq!((opened.member.as_str(), opened.team.as_str()), ("bob", "alpha"));
    t.send(&t.lead, message("bob", "3")).await;
    for n in 1..=4 {
        let delivery = session.delivery().await;
        assert_eq!((delivery.sequence, delivery.delivery_count), (n, 1));
    }
    assert_eq!(t.member("bob").await.state(), v1::MemberState::Active);
    assert!(t.member("bob").await.connected);
}

#[tokio::test]
async fn an_acknowledged_message_leaves_the_inbox_and_is_processed() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "x")).await.message_id;
    assert_eq!(t.receipts(&id).await[0].state(), ReceiptState::Queued);
    let mut session = t.open(&bob).await;
    session.delivery().await;
    assert_eq!(t.ack(&session.member, &[&id]).await, Ok(1));
    assert_eq!(t.ack(&session.member, &[&id]).await, Ok(0), "again is fine");
    assert!(t.inbox(&bob).await.is_empty());
    let receipt = t.receipts(&id).await.remove(0);
    assert_eq!((receipt.state(), receipt.delivery_count, receipt.sequence), (ReceiptState::Processed, 1, 1));
    assert!(receipt.delivered_at.is_some() && receipt.finished_at.is_some());
}

#[tokio::test]
async fn an_empty_acknowledgement_is_refused() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.refused(t.ack(&bob, &[]), Code::InvalidArgument, Reason::InvalidField, "message_ids").await;
}

#[tokio::test]
async fn a_session_id_that_was_never_issued_is_unknown_and_not_superseded() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let id = t.send(&t.lead, message("bob", "x")).await.message_id;
    let foreign = t.open(&eve).await;
    let first = t.open(&bob).await;
    let second = t.open(&bob).await;
    let first_id = &first.opened.session_id;
    for invented in
        ["x", "1-", "1-0123456789abcdef01234567", "9-0123456789abcdef0123456789abcdef", &foreign.opened.session_id]
    {
        let (presents, ids) = (bob.in_session(invented), [id.as_str()]);
        let call = t.ack(&presents, &ids);
        let refusal = t.refused(call, Code::InvalidArgument, Reason::InvalidField, "session_id").await;
        assert!(refusal.message.starts_with("The session is not known"), "{refusal}");
    }
    t.refused(t.ack(&bob.in_session(first_id), &[&id]), Code::Aborted, Reason::SessionSuperseded, "").await;
    t.ack(&second.member, &[&id]).await.unwrap();
}

#[tokio::test]
async fn unacknowledged_messages_come_again_in_the_next_session_with_their_count() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(t.send(&t.lead, message("bob", &n.to_string())).await.message_id);
    }
    for count in 1..=3 {
        let mut session = t.open(&bob).await;
        assert_eq!(session.opened.epoch, u64::from(count));
        for sequence in [1, 3] {
            if count == 1 && sequence == 3 {
                let middle = session.delivery().await;
                assert_eq!(middle.sequence, 2);
                t.ack(&session.member, &[&ids[1]]).await.unwrap();
            }
            let delivery = session.delivery().await;
            assert_eq!((delivery.sequence, delivery.delivery_count), (sequence, count));
        }
        session.close(&t).await;
    }
    assert_eq!(t.receipts(&ids[0]).await[0].delivery_count, 3);
    assert_eq!(t.receipts(&ids[0]).await[0].state(), ReceiptState::Delivered);
    assert_eq!(t.deliveries(&bob).await[0].delivery_count, 3, "looking at the inbox delivers nothing");
}

#[tokio::test]
async fn a_message_delivered_by_five_sessions_is_dead_lettered_and_sender_and_lead_get_a_notice() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let id = t.send(&eve, message("bob", "poison")).await.message_id;
    for count in 1..=5 {
        let mut session = t.open(&bob).await;
        assert_eq!(session.delivery().await.delivery_count, count);
        session.close(&t).await;
    }
    t.send(&eve, message("bob", "fine")).await;
    let mut session = t.open(&bob).await;
    assert_eq!(session.delivery().await.sequence, 2);
    let receipt = t.receipts(&id).await.remove(0);
    assert_eq!(
        (receipt.state(), receipt.dead_letter_cause()),
        (ReceiptState::DeadLettered, v1::DeadLetterCause::DeliveryLimit)
    );
    assert_eq!(receipt.delivery_count, 5);
    for member in [&eve, &t.lead] {
        let told = t.notices(member, NoticeKind::DeadLetter).await;
        assert_eq!((told.len(), &told[0].message_id, told[0].member.as_str()), (1, &id, "bob"));
    }
    let history = t.history().await;
    let letters =
        history.iter().filter(|entry| matches!(&entry.event, Some(Event::DeadLetter(it)) if it.message_id == id));
    assert_eq!(letters.count(), 1);
}

#[tokio::test]
async fn the_newest_session_wins_and_the_lead_gets_a_notice() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut old = t.open(&bob).await;
    let id = t.send(&t.lead, message("bob", "x")).await.message_id;
    old.delivery().await;
    let mut new = t.open(&bob).await;
    assert_eq!(old.closing().await.reason(), CloseReason::Superseded);
    assert_eq!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.len(), 1);

    // Everything that the old one tries is refused.
    let aborted = (Code::Aborted, Reason::SessionSuperseded);
    t.refused(t.ack(&old.member, &[&id]), aborted.0, aborted.1, "").await;
    t.refused(t.try_send(&old.member, message("lead", "x")), aborted.0, aborted.1, "").await;
    let heartbeat = v1::HeartbeatRequest::default();
    t.refused(t.coordinator.heartbeat(&old.member.who, &heartbeat), aborted.0, aborted.1, "").await;
    t.refused(t.coordinator.list_inbox(&old.member.who, &Default::default()), aborted.0, aborted.1, "").await;
    // The new one holds.
    assert_eq!(new.delivery().await.delivery_count, 2);
    assert_eq!(t.ack(&new.member, &[&id]).await, Ok(1));
}

#[tokio::test]
async fn the_lead_gets_no_notice_when_the_same_process_reconnects() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let request = v1::StreamRequest { instance_id: "p1".to_owned(), ..Default::default() };
    for _ in 0..2 {
        t.coordinator.open_session(&bob.who, &request).await.unwrap();
    }
    assert!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.is_empty());
    let request = v1::StreamRequest { instance_id: "p2".to_owned(), ..Default::default() };
    t.coordinator.open_session(&bob.who, &request).await.unwrap();
    assert_eq!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.len(), 1);
}

#[tokio::test]
async fn a_process_that_reconnects_counts_once_toward_the_delivery_limit() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "an hour of work")).await.message_id;
    for process in ["p1", "p2", "p3", "p4", "p5"] {
        for _ in 0..4 {
            let mut session = t.open_as(&bob, process).await;
            assert_eq!(session.delivery().await.sequence, 1, "{process}");
            session.close(&t).await;
        }
        let receipt = t.receipts(&id).await.remove(0);
        assert_eq!(receipt.state(), ReceiptState::Delivered, "{process}");
    }
    // The fifth process still has it, even before it is delivered again.
    t.coordinator
        .open_session(&bob.who, &v1::StreamRequest { instance_id: "p5".into(), ..Default::default() })
        .await
        .unwrap();
    assert_eq!(t.receipts(&id).await[0].state(), ReceiptState::Delivered);
    let mut sixth = t.open_as(&bob, "p6").await;
    t.send(&t.lead, message("bob", "fine")).await;
    assert_eq!(sixth.delivery().await.sequence, 2);
    assert_eq!(t.receipts(&id).await[0].dead_letter_cause(), v1::DeadLetterCause::DeliveryLimit);
}

#[tokio::test]
async fn a_message_that_one_process_keeps_failing_on_is_dead_lettered_but_the_next_one_is_not() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "poison")).await.message_id;
    t.send(&t.lead, message("bob", "fine")).await;
    let mut failed_sequences = Vec::new();
    for count in 1..=5 {
        let request = v1::StreamRequest { instance_id: "p1".to_owned(), failed_sequences, ..Default::default() };
        let mut session = t.open_with(&t.coordinator, &bob, &request).await;
        let delivery = session.delivery().await;
        assert_eq!((delivery.sequence, delivery.delivery_count), (1, count));
        assert_eq!(session.delivery().await.sequence, 2);
        failed_sequences = vec![delivery.sequence];
    }
    let request = v1::StreamRequest { instance_id: "p1".to_owned(), failed_sequences, ..Default::default() };
    let mut session = t.open_with(&t.coordinator, &bob, &request).await;
    assert_eq!(session.delivery().await.sequence, 2);
    let receipt = t.receipts(&id).await.remove(0);
    assert_eq!((receipt.dead_letter_cause(), receipt.delivery_count), (v1::DeadLetterCause::DeliveryLimit, 5));
    assert!(t.notices(&t.lead, NoticeKind::SessionSuperseded).await.is_empty());
    let many = v1::StreamRequest { failed_sequences: vec![1; 65], ..Default::default() };
    let opened = t.coordinator.open_session(&bob.who, &many);
    t.refused(opened, Code::InvalidArgument, Reason::InvalidField, "failed_sequences").await;
}

#[tokio::test]
async fn a_session_on_another_coordinator_supersedes_as_well() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let old = t.open(&bob).await;
    let other = t.another_coordinator().await;
    other.open_session(&bob.who, &v1::StreamRequest::default()).await.unwrap();
    let late = t.try_send(&old.member, message("lead", "x"));
    t.refused(late, Code::Aborted, Reason::SessionSuperseded, "").await;
}

/// The sessions of members that had opened another one shortly before a store failed over were taken for superseded.
#[tokio::test]
async fn a_session_that_the_store_has_lost_must_reconnect_and_is_not_superseded() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let name = Name::parse("bob", "name").unwrap();
    let key = Key::new(SessionRecord::KIND, name.folded());
    let lose = async |before: Option<Record>| {
        let write = match before {
            Some(record) => Write::Put { key: key.clone(), data: record.data },
            None => Write::Delete { key: key.clone() },
        };
        t.clock.commit(&t.namespace, &Txn { checks: Vec::new(), writes: vec![write], ..Txn::default() }).await.unwrap();
    };
    let latest = async || t.clock.read(&t.namespace, std::slice::from_ref(&key)).await.unwrap().remove(0);

    // The first that there was, and one after another.
    for _ in 0..2 {
        let before = latest().await;
        let mut session = t.open(&bob).await;
        lose(before).await;
        t.send(&session.member, message("lead", "x")).await;
        t.coordinator.list_inbox(&session.member.who, &Default::default()).await.unwrap();
        t.send(&t.lead, message("bob", "x")).await;
        session.delivery().await;
        assert_eq!(session.closing().await.reason(), CloseReason::Draining);
        t.open(&bob).await;
        // A session opened by another process since then does supersede it.
        t.open(&bob).await;
        let late = t.try_send(&session.member, message("lead", "x")).await.unwrap_err();
        assert_eq!(late.reason, Reason::SessionSuperseded);
    }
}

#[tokio::test]
async fn an_approval_ends_the_stream_and_says_which_request() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut session = t.open(&bob).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let delivery = session.delivery().await.message.unwrap();
    assert!(matches!(delivery.body, Some(Body::ShutdownRequest(_))));
    t.send(&session.member, approve(&id)).await;
    let closing = session.closing().await;
    assert_eq!((closing.reason(), closing.request_id.as_str()), (CloseReason::ShutdownApproved, &*id));
    // What is left to do is still done: the same process acknowledges, repeats its answer, asks again why it ended.
    assert_eq!(t.ack(&session.member, &[&delivery.id]).await, Ok(1));
    assert!(t.send(&session.member, approve(&id)).await.replayed);
    let mut again = t.open(&bob).await;
    assert_eq!(again.closing().await.reason(), CloseReason::ShutdownApproved);
    t.try_leave(&session.member, 0).await.unwrap();
    assert_eq!(t.member("bob").await.state(), v1::MemberState::Exited);
}

#[tokio::test]
async fn force_and_deletion_end_the_stream() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut of_lead = t.open(&t.lead).await;
    let mut session = t.open(&bob).await;
    t.try_force(&t.lead, "bob").await.unwrap();
    assert_eq!(session.closing().await.reason(), CloseReason::MemberStopped);
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    assert_eq!(of_lead.closing().await.reason(), CloseReason::TeamDeleted);
}

#[tokio::test]
async fn acknowledgements_are_checked() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.send(&t.lead, message("bob", "x")).await;
    let bad = Code::InvalidArgument;
    t.refused(t.ack(&bob, &["7"]), bad, Reason::InvalidMessageId, "message_ids").await;
    let id = uuid::Uuid::nil().to_string();
    t.refused(t.ack(&bob, &vec![&*id; 1_001]), bad, Reason::InvalidField, "message_ids").await;
    assert_eq!(t.ack(&bob, &[&id]).await, Ok(0), "what is not in the inbox was acknowledged before");
    let instance = v1::StreamRequest { instance_id: "a b".to_owned(), ..Default::default() };
    let opened = t.coordinator.open_session(&bob.who, &instance);
    t.refused(opened, bad, Reason::InvalidField, "instance_id").await;
}

#[tokio::test]
async fn a_session_delivers_no_more_than_the_unacknowledged_limit() {
    let t = Team::with_limits(|limits| limits.unacked_messages_max = 2).await;
    let [bob] = t.join_all(["bob"]).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(t.send(&t.lead, message("bob", &n.to_string())).await.message_id);
    }
    let mut session = t.open(&bob).await;
    assert_eq!((session.delivery().await.sequence, session.delivery().await.sequence), (1, 2));
    assert_eq!(t.receipts(&ids[2]).await[0].state(), ReceiptState::Queued);
    t.ack(&session.member, &[&ids[0]]).await.unwrap();
    assert_eq!(session.delivery().await.sequence, 3);
}

#[tokio::test]
async fn a_superseded_process_cannot_report_the_exit_of_its_member() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let mut old = t.open(&bob).await;
    let new = t.open(&bob).await;
    old.closing().await;
    t.refused(t.try_leave(&old.member, 1), Code::Aborted, Reason::SessionSuperseded, "").await;
    assert_eq!(t.member("bob").await.state(), v1::MemberState::Active);
    // The one that holds may report, and so may a runner that has no session.
    t.try_leave(&new.member, 0).await.unwrap();
    t.try_leave(&bob, 2).await.unwrap();
    assert_eq!(t.member("bob").await.exit.unwrap().code, Some(2));
}

#[tokio::test]
async fn a_message_that_was_acknowledged_meanwhile_does_not_become_a_dead_letter() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "x")).await.message_id;
    let session = t.open(&bob).await;
    let message = t.inbox(&bob).await.remove(0);
    // The command line acknowledges while a session is about to give the message up.
    assert_eq!(t.ack(&bob, &[&id]).await, Ok(1));
    let before = t.history().await;
    let leaving =
        Leaving { sequence: 1, message_id: MessageId::known(&id).unwrap(), delivered_ms: None, delivery_count: 5 };
    let name = Name::parse("bob", "name").unwrap();
    let session_id = &SessionId::presented(session.opened.session_id.as_str()).unwrap();
    t.coordinator
        .dead_letter(&t.namespace, &name, session_id, &leaving, &message, Undeliverable::DeliveryLimit)
        .await
        .unwrap();
    assert_eq!(t.receipts(&id).await[0].state(), ReceiptState::Processed);
    assert_eq!(t.history().await, before, "and there is no notice");
}

#[tokio::test]
async fn a_subscriber_that_reads_nothing_is_cut_with_its_reason_and_keeps_its_messages() {
    // More than the frames that wait for a client, and less than may be unacknowledged.
    cut_with_waiting(60).await;
}

#[tokio::test]
async fn a_subscriber_that_reads_nothing_is_cut_even_if_few_messages_wait() {
    cut_with_waiting(3).await;
}

async fn cut_with_waiting(messages: usize) {
    let (t, [bob]) = Team::of(["bob"]).await;
    for n in 0..messages {
        t.send(&t.lead, message("bob", &n.to_string())).await;
    }
    let mut session = t.open(&bob).await;
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    while t.member("bob").await.connected {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    // The time for which nothing may be read, and until it is looked at. A paused clock also advances while the store
    // works.
    assert!(began.elapsed() < std::time::Duration::from_secs(120), "{:?}", began.elapsed());
    tokio::time::resume();
    let mut last = None;
    while let Some(frame) = session.frames.recv().await {
        last = Some(frame);
    }
    let refusal = last.expect("a last frame").expect_err("a reason");
    assert_eq!(refusal.reason, Reason::SlowConsumer);
    let mut again = t.open(&bob).await;
    let first = again.delivery().await;
    assert_eq!((first.sequence, first.delivery_count), (1, 2));
}

/// The store learns how far a session got only now and then. A session that opens before that asks the earlier one.
#[tokio::test]
async fn deliveries_are_counted_even_if_the_next_session_opens_at_once() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.send(&t.lead, message("bob", "poison")).await.message_id;
    let mut sessions = Vec::new();
    for count in 1..=5 {
        let mut session = t.open(&bob).await;
        assert_eq!(session.delivery().await.delivery_count, count);
        sessions.push(session);
    }
    let mut last = t.open(&bob).await;
    t.send(&t.lead, message("bob", "honey")).await;
    assert_ne!(last.delivery().await.message.unwrap().id, id);
    assert_eq!(t.receipts(&id).await[0].state(), ReceiptState::DeadLettered);
}
