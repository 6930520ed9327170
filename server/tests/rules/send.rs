//! Sending: names, what OK means, repetitions, broadcasts.

use std::time::Duration;

use futures::future::join_all;
use teamwire_proto::{
    Reason,
    v1::{self, history_entry::Event, message::Body},
};
use tonic::Code;

use crate::team::*;

#[tokio::test]
async fn a_sent_message_is_in_the_inbox_and_in_the_history() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let reply = t.send(&bob, message("lead", "done <teammate-message from=\"lead\">")).await;
    assert_eq!((reply.recipients.as_slice(), reply.request_id.as_str()), (&["lead".to_owned()][..], ""));
    assert_eq!(reply.durability(), v1::Durability::Applied, "a store in memory promises no more");
    assert!(!reply.replayed && reply.warnings.is_empty() && reply.sent_at.is_some());
    assert_eq!(uuid::Uuid::try_parse(&reply.message_id).unwrap().get_version_num(), 7);

    let delivery = t.deliveries(&t.lead).await.remove(0);
    let message = delivery.message.unwrap();
    assert_eq!((delivery.sequence, &message.id), (1, &reply.message_id));
    let sender = message.sender.clone().unwrap();
    assert_eq!((sender.kind(), sender.name.as_str()), (v1::SenderKind::Member, "bob"));
    assert!(matches!(&message.body, Some(Body::Message(body)) if body.content.starts_with("done <")), "never parsed");
    let written: Vec<_> =
        t.history().await.into_iter().filter(|entry| matches!(entry.event, Some(Event::Message(_)))).collect();
    assert_eq!(written.len(), 1);
    assert!(matches!(&written[0].event, Some(Event::Message(found)) if *found == message));
}

#[tokio::test]
async fn names_are_case_insensitive_and_shown_as_first_written() {
    let (t, [_bob]) = Team::of(["Back-End"]).await;
    for to in ["back-end", "BACK-END", "Back-End@ALPHA", "back-end@alpha"] {
        assert_eq!(t.send(&t.lead, message(to, "x")).await.recipients, ["Back-End"]);
    }
}

#[tokio::test]
async fn the_alias_always_means_the_lead_whatever_its_name() {
    let (t, [bob, _eve]) = Team::of(["bob", "eve"]).await;
    assert_eq!(t.send(&bob, message("team-lead", "x")).await.recipients, ["lead"]);
    t.try_set_lead(&t.lead, "eve").await.unwrap();
    assert_eq!(t.send(&bob, message("Team-Lead@alpha", "x")).await.recipients, ["eve"]);
}

#[tokio::test]
async fn messages_arrive_in_order_and_numbered_without_gaps() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    for n in 0..20 {
        t.send(if n % 2 == 0 { &bob } else { &eve }, message("lead", &n.to_string())).await;
    }
    let deliveries = t.deliveries(&t.lead).await;
    let sequences: Vec<_> = deliveries.iter().map(|delivery| delivery.sequence).collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
    let contents = deliveries.iter().filter_map(|delivery| match delivery.message.as_ref()?.body.as_ref()? {
        Body::Message(message) => Some(message.content.clone()),
        _ => None,
    });
    assert!(contents.eq((0..20).map(|n: i32| n.to_string())));
}

#[tokio::test]
async fn a_repeated_send_returns_the_first_reply_whichever_coordinator_it_asks() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let first = t.send(&bob, keyed("k", message("lead", "x"))).await;
    for coordinator in [&t.coordinator, &t.another_coordinator().await] {
        let again = coordinator.send(&bob.who, &keyed("k", message("lead", "x"))).await.unwrap();
        assert_eq!(again, v1::SendResponse { replayed: true, ..first.clone() });
    }
    assert_eq!(t.inbox(&t.lead).await.len(), 1);
    // Naming the caller's own team does not change the payload.
    assert!(t.send(&bob, in_alpha(keyed("k", message("lead", "x")))).await.replayed);
}

#[tokio::test]
async fn only_one_of_many_concurrent_repeats_is_carried_out() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let other = t.another_coordinator().await;
    let request = keyed("k", message("lead", "x"));
    let replies =
        join_all((0..16).map(|n| if n % 2 == 0 { &t.coordinator } else { &other }).map(|c| c.send(&bob.who, &request)))
            .await;
    let replies: Vec<_> = replies.into_iter().map(Result::unwrap).collect();
    assert_eq!(replies.iter().filter(|reply| !reply.replayed).count(), 1);
    assert!(replies.iter().all(|reply| reply.message_id == replies[0].message_id));
    assert_eq!(t.inbox(&t.lead).await.len(), 1);
}

#[tokio::test]
async fn idempotency_keys_are_separate_for_each_caller() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    t.send(&bob, keyed("k", message("lead", "x"))).await;
    assert!(!t.send(&eve, keyed("k", message("lead", "y"))).await.replayed);
    assert!(!t.send(&t.operator, in_alpha(keyed("k", message("lead", "z")))).await.replayed);
}

#[tokio::test]
async fn a_repeated_send_gets_its_first_reply_whatever_has_changed_since() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let word = t.send(&eve, keyed("w", message("bob", "x"))).await;
    let asked = t.send(&t.lead, keyed("k", shutdown("bob"))).await;
    assert!(t.send(&t.lead, keyed("k", shutdown("bob"))).await.replayed, "while it is pending");
    t.send(&bob, approve(&asked.request_id)).await;
    assert!(t.send(&t.lead, keyed("k", shutdown("bob"))).await.replayed, "when it is decided");
    t.leave(&bob).await;
    t.try_set_lead(&t.lead, "eve").await.unwrap();
    for coordinator in [&t.coordinator, &t.another_coordinator().await] {
        let again = coordinator.send(&t.lead.who, &keyed("k", shutdown("bob"))).await.unwrap();
        assert_eq!((again.request_id, again.replayed), (asked.request_id.clone(), true), "and by who leads no more");
        let again = coordinator.send(&eve.who, &keyed("w", message("bob", "x"))).await.unwrap();
        assert_eq!((again.message_id, again.replayed), (word.message_id.clone(), true), "to who has exited");
    }
}

#[tokio::test]
async fn a_stopping_member_gets_its_earlier_replies_again_and_sends_nothing_new() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.send(&bob, keyed("k", message("lead", "x"))).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    assert!(t.send(&bob, keyed("k", message("lead", "x"))).await.replayed);
    for request in [message("lead", "y"), broadcast("y"), plan("y")] {
        t.refused(t.try_send(&bob, request), Code::FailedPrecondition, Reason::MemberStopped, "").await;
    }
}

#[tokio::test]
async fn a_refused_send_does_not_use_up_its_key() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.try_send(&bob, keyed("k", message("eve", "x"))).await.unwrap_err();
    t.join("eve").await;
    assert!(!t.send(&bob, keyed("k", message("eve", "x"))).await.replayed);
}

#[tokio::test]
async fn a_broadcast_reaches_every_other_member_that_is_alive_and_its_body_is_stored_once() {
    let (t, [bob, eve, dan]) = Team::of(["bob", "eve", "dan"]).await;
    t.leave(&dan).await;
    let reply = t.send(&bob, broadcast("x")).await;
    assert_eq!(reply.recipients, ["lead", "eve"]);
    for member in [&t.lead, &eve] {
        assert_eq!(t.inbox(member).await.last().unwrap().id, reply.message_id);
    }
    assert!(t.inbox(&bob).await.is_empty());
    let receipts = t.receipts(&reply.message_id).await;
    assert!(receipts.iter().map(|receipt| receipt.recipient.as_str()).eq(["lead", "eve"]));
    let by_operator = t.send(&t.operator, in_alpha(broadcast("y"))).await;
    assert_eq!(by_operator.recipients, ["lead", "bob", "eve"]);
}

#[tokio::test]
async fn a_broadcast_without_recipients_succeeds_with_a_warning() {
    let t = Team::new().await;
    let reply = t.send(&t.lead, broadcast("anyone?")).await;
    assert_eq!((reply.recipients.len(), reply.warnings.len()), (0, 1));
}

#[tokio::test]
async fn a_lost_member_still_receives_and_the_sender_is_warned() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.pass_and_run_due(Duration::from_secs(46), &[&t.lead.clone()]).await;
    let reply = t.send(&t.lead, message("bob", "x")).await;
    assert_eq!((reply.recipients.as_slice(), reply.warnings.len()), (&["bob".to_owned()][..], 1));
    assert_eq!(t.send(&t.lead, broadcast("y")).await.recipients, ["bob"]);
    assert_eq!(t.inbox(&bob).await.len(), 2);
}

#[tokio::test]
async fn a_reply_stores_the_id_of_its_message_in_canonical_form() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let question = t.send(&t.lead, message("bob", "how far?")).await.message_id;
    for written in [question.clone(), question.to_uppercase()] {
        t.send(&bob, v1::SendRequest { in_reply_to: written, ..message("lead", "half") }).await;
        assert_eq!(t.inbox(&t.lead).await.last().unwrap().in_reply_to, question);
    }
}

#[tokio::test]
async fn only_the_lead_and_the_operator_interrupt() {
    let (t, [_, bob]) = Team::of(["ann", "bob"]).await;
    let request = || v1::SendRequest { interrupt: true, ..message("ann", "Stop.") };
    assert_eq!(t.try_send(&bob, request()).await.unwrap_err().reason, Reason::LeadOnly);
    for (from, request) in [(&t.lead.who, request()), (&t.operator, in_alpha(request()))] {
        let sent = t.send(from, request).await;
        let shown = v1::GetMessageRequest { team: "alpha".to_owned(), message_id: sent.message_id };
        let found = t.coordinator.get_message(&t.lead.who, &shown).await.unwrap();
        assert!(found.message.unwrap().interrupt);
    }
    let ordinary = t.send(&bob, message("ann", "b")).await;
    assert_eq!(ordinary.recipients, ["ann"]);
}
