//! Sending: who receives a message, which sends the rule refuses, and what a repeated call returns.

use teamwire_proto::{
    Reason,
    v1::{self, send_request::Body},
};
use teamwire_server::{
    domain::{
        records::{EndCause, Exit, Life, TeamRecord},
        tx::{RuleError, Snapshot, Tx},
    },
    store::{Bound, Check, Key, WhenFull, Write},
};

use crate::world::*;

fn message(to: &str) -> v1::SendRequest {
    let body =
        v1::DirectMessage { recipient: to.to_owned(), summary: "a summary".to_owned(), content: "content".to_owned() };
    v1::SendRequest { body: Some(Body::Message(body)), ..Default::default() }
}

fn broadcast() -> v1::SendRequest {
    let body = v1::Broadcast { summary: "a summary".to_owned(), content: "content".to_owned(), ..Default::default() };
    v1::SendRequest { body: Some(Body::Broadcast(body)), ..Default::default() }
}

fn keyed(request: v1::SendRequest) -> v1::SendRequest {
    v1::SendRequest { idempotency_key: "00000000-0000-4000-8000-000000000001".to_owned(), ..request }
}

fn exited() -> Life {
    Life::Exited { exit: Exit::default(), cause: EndCause::ProcessEnded }
}

#[test]
fn message_goes_to_the_recipients_inbox_and_to_the_history() {
    let (reply, txn) = World::with(&["lead", "ann"]).send(&caller("lead"), &message("ann")).unwrap();
    assert_eq!(reply.recipients, ["ann"]);
    assert_eq!(appended(&txn), ["inbox/ann", "history"]);
    let stored: v1::Message = put(&txn, &reply.message_id).unwrap();
    assert_eq!(stored.sender.unwrap().name, "lead");
}

#[test]
fn commit_checks_every_record_that_the_rule_read() {
    let (_, txn) = World::with(&["lead", "ann"]).send(&caller("lead"), &message("ann")).unwrap();
    assert_eq!(txn.checks, [Check::Version { key: Key::new("team", ""), version: Some(1) }]);
}

#[test]
fn rule_names_the_records_it_needs() {
    let world = World::with(&["lead"]);
    let snapshot = Snapshot::default();
    let outcome = Tx::new(&world.ctx, &snapshot).read::<TeamRecord>("");
    assert!(matches!(outcome, Err(RuleError::NeedsRecords(keys)) if keys == [Key::new("team", "")]));
}

#[test]
fn rerun_of_a_rule_builds_the_same_transaction() {
    let world = World::with(&["lead", "ann"]);
    let request = keyed(message("ann"));
    assert_eq!(world.send(&caller("lead"), &request).unwrap(), world.send(&caller("lead"), &request).unwrap());
}

#[test]
fn send_to_an_exited_member_is_refused() {
    let world = World::with(&["lead", "ann"]).life("ann", exited());
    let refusal = world.send(&caller("lead"), &message("ann")).unwrap_err();
    assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::AgentExited, Some("recipient")));
}

#[test]
fn send_to_a_lost_member_is_queued_with_a_warning() {
    let world = World::with(&["lead", "ann"]).life("ann", Life::Lost);
    let (reply, txn) = world.send(&caller("lead"), &message("ann")).unwrap();
    assert_eq!((reply.warnings.len(), appended(&txn)), (1, vec!["inbox/ann", "history"]));
}

#[test]
fn misspelled_recipient_is_refused_with_the_closest_name() {
    let refusal = World::with(&["lead", "annabel"]).send(&caller("lead"), &message("anabel")).unwrap_err();
    assert_eq!(refusal.reason, Reason::AgentNotFound);
    assert_eq!(refusal.metadata.get("closest").map(String::as_str), Some("annabel"));
}

#[test]
fn message_to_oneself_is_refused() {
    let refusal = World::with(&["lead", "ann"]).send(&caller("ann"), &message("Ann")).unwrap_err();
    assert_eq!(refusal.reason, Reason::SelfRecipient);
}

#[test]
fn broadcast_reaches_live_and_lost_members_but_not_the_sender_or_the_exited() {
    let world = World::with(&["lead", "ann", "bob", "cid"]).life("bob", Life::Lost).life("cid", exited());
    let (reply, txn) = world.send(&caller("ann"), &broadcast()).unwrap();
    assert_eq!(reply.recipients, ["lead", "bob"]);
    assert_eq!(appended(&txn), ["inbox/lead", "inbox/bob", "history"]);
}

#[test]
fn repeated_send_returns_the_first_reply_and_changes_nothing() {
    let mut world = World::with(&["lead", "ann"]);
    let request = keyed(message("ann"));
    let (first, txn) = world.send(&caller("lead"), &request).unwrap();
    assert!(matches!(&txn.checks[0], Check::KeyUnused { .. }), "the key is checked before anything else");
    world.apply(&txn);
    // What changed since does not matter.
    let world = world.life("ann", exited());
    let (second, txn) = world.send(&caller("lead"), &request).unwrap();
    assert_eq!((second.message_id, second.replayed), (first.message_id, true));
    assert_eq!(txn.writes, []);
}

#[test]
fn idempotency_key_cannot_be_reused_for_another_message() {
    let mut world = World::with(&["lead", "ann"]);
    let (_, txn) = world.send(&caller("lead"), &keyed(message("ann"))).unwrap();
    world.apply(&txn);
    let refusal = world.send(&caller("lead"), &keyed(broadcast())).unwrap_err();
    assert_eq!(refusal.reason, Reason::IdempotencyKeyReused);
}

#[test]
fn ordinary_messages_are_bounded_by_the_inbox_limit() {
    let world = World::with(&["lead", "ann"]);
    let (_, txn) = world.send(&caller("lead"), &message("ann")).unwrap();
    let bounds: Vec<_> = txn
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Append { stream, bound, .. } if stream == "inbox/ann" => *bound,
            _ => None,
        })
        .collect();
    let (entries_max, weight_max) = (world.ctx.limits.inbox_entries_max, world.ctx.limits.inbox_bytes_max);
    assert_eq!(bounds, [Bound { entries_max, weight_max, when_full: WhenFull::Refuse }]);
}

#[test]
fn stopping_member_cannot_send_anything_new() {
    let stopping = stopping(EndCause::Approved(request_id()));
    let refusal =
        World::with(&["lead", "ann"]).life("ann", stopping).send(&caller("ann"), &message("lead")).unwrap_err();
    assert_eq!(refusal.reason, Reason::MemberStopped);
}

#[test]
fn missing_content_is_reported_before_the_summary_that_clients_take_from_it() {
    let world = World::with(&["lead", "ann"]);
    let empty = v1::DirectMessage { recipient: "ann".to_owned(), ..Default::default() };
    let direct = v1::SendRequest { body: Some(Body::Message(empty)), ..Default::default() };
    let to_all = v1::SendRequest { body: Some(Body::Broadcast(v1::Broadcast::default())), ..Default::default() };
    for request in [direct, to_all] {
        let refusal = world.send(&caller("lead"), &request).unwrap_err();
        assert_eq!((refusal.reason, refusal.field.as_deref()), (Reason::MissingContent, Some("content")));
    }
}

#[test]
fn shutdown_request_to_oneself_advises_to_leave() {
    let ask = v1::ShutdownRequest { recipient: "lead".to_owned(), ..Default::default() };
    let request = v1::SendRequest { body: Some(Body::ShutdownRequest(ask)), ..Default::default() };
    let refusal = World::with(&["lead", "ann"]).send(&caller("lead"), &request).unwrap_err();
    assert_eq!(refusal.reason, Reason::SelfRecipient);
    assert!(refusal.message.contains("leave the team") && !refusal.message.contains("broadcast"), "{refusal}");
}
