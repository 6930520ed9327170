//! The error table of messages: each row with its code, reason and field, and that nothing was changed.

use teamwire_proto::{
    Reason,
    v1::{self, send_request::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

#[tokio::test]
async fn a_message_without_a_type_is_refused() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let nothing = v1::SendRequest::default();
    t.refused(t.try_send(&bob, nothing), Code::InvalidArgument, Reason::InvalidType, "type").await;
}

#[tokio::test]
async fn a_recipient_must_be_another_live_member_of_the_same_team() {
    let (t, [bob]) = Team::of(["backend"]).await;
    let to = |to: &str| t.try_send(&t.lead, message(to, "x"));
    let (bad, field) = (Code::InvalidArgument, "recipient");
    t.refused(to(""), bad, Reason::MissingRecipient, field).await;
    t.refused(to("lead"), bad, Reason::SelfRecipient, field).await;
    t.refused(to("Team-Lead"), bad, Reason::SelfRecipient, field).await;
    t.refused(to("lead@ALPHA"), bad, Reason::SelfRecipient, field).await;
    t.refused(to("backend@beta"), bad, Reason::TeamMismatch, field).await;
    t.refused(to("back end"), bad, Reason::InvalidName, field).await;
    t.refused(to("backend@"), bad, Reason::InvalidName, field).await;
    let refusal = t.refused(to("backnd"), Code::NotFound, Reason::AgentNotFound, field).await;
    assert_eq!(refusal.metadata["closest"], "backend");
    assert!(refusal.message.contains("backend"), "{refusal}");
    let refusal = t.refused(to("zzz"), Code::NotFound, Reason::AgentNotFound, field).await;
    assert!(refusal.message.contains("lead, backend"), "it names whom there is: {refusal}");
    t.leave(&bob).await;
    t.refused(to("backend"), Code::FailedPrecondition, Reason::AgentExited, field).await;
    t.refused(t.try_send(&t.lead, shutdown("")), bad, Reason::MissingRecipient, field).await;
    t.refused(t.try_send(&t.lead, shutdown("team-lead")), bad, Reason::SelfRecipient, field).await;
    t.refused(t.try_send(&t.lead, shutdown("nobody")), Code::NotFound, Reason::AgentNotFound, field).await;
    t.refused(t.try_send(&t.lead, shutdown("backend")), Code::FailedPrecondition, Reason::AgentExited, field).await;
}

#[tokio::test]
async fn summary_and_content_are_checked_for_presence_and_bounds() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let with = |summary: &str, content: &str| {
        let message = v1::DirectMessage {
            recipient: "lead".to_owned(),
            summary: summary.to_owned(),
            content: content.to_owned(),
        };
        t.try_send(&bob, v1::SendRequest { body: Some(Body::Message(message)), ..Default::default() })
    };
    let to_all = |summary: &str, content: &str| {
        let (summary, content) = (summary.to_owned(), content.to_owned());
        let body = Some(Body::Broadcast(v1::Broadcast { summary, content, ..Default::default() }));
        t.try_send(&bob, v1::SendRequest { body, ..Default::default() })
    };
    let bad = Code::InvalidArgument;
    for summary in ["", "   "] {
        t.refused(with(summary, "x"), bad, Reason::MissingSummary, "summary").await;
        t.refused(to_all(summary, "x"), bad, Reason::MissingSummary, "summary").await;
    }
    for summary in ["two\nlines", "a\rb", "a\u{2028}b", "tab\tbed", &"x".repeat(201)] {
        t.refused(with(summary, "x"), bad, Reason::InvalidSummary, "summary").await;
        t.refused(to_all(summary, "x"), bad, Reason::InvalidSummary, "summary").await;
    }
    t.refused(with("s", ""), bad, Reason::MissingContent, "content").await;
    t.refused(to_all("s", ""), bad, Reason::MissingContent, "content").await;
    let large = "x".repeat(64 * 1024 + 1);
    let refusal = t.refused(with("s", &large), bad, Reason::ContentTooLarge, "content").await;
    assert_eq!(refusal.metadata["bytes_max"], "65536");
    t.refused(to_all("s", &large), bad, Reason::ContentTooLarge, "content").await;
    t.refused(t.try_send(&bob, plan("")), bad, Reason::MissingContent, "content").await;
    t.refused(t.try_send(&bob, plan(&large)), bad, Reason::ContentTooLarge, "content").await;

    // And just within the bounds; in characters where characters count, in bytes where bytes do.
    with(&"ä".repeat(200), &large[1..]).await.unwrap();
    with("one", "x").await.unwrap();
}

#[tokio::test]
async fn an_answer_needs_the_id_of_a_request_and_a_decision() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let (bad, field) = (Code::InvalidArgument, "request_id");
    let malformed = [String::new(), "7".to_owned(), "req_".to_owned(), unknown_request().to_uppercase()];
    for id in malformed.iter().map(String::as_str) {
        t.refused(t.try_send(&bob, approve(id)), bad, Reason::InvalidRequestId, field).await;
        let to_plan = answer_plan("bob", id, Some(true), "");
        t.refused(t.try_send(&t.lead, to_plan), bad, Reason::InvalidRequestId, field).await;
    }
    let unknown = unknown_request();
    t.refused(t.try_send(&bob, approve(&unknown)), Code::NotFound, Reason::RequestNotFound, field).await;
    let to_plan = answer_plan("bob", &unknown, Some(true), "");
    t.refused(t.try_send(&t.lead, to_plan), Code::NotFound, Reason::RequestNotFound, field).await;

    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.refused(t.try_send(&bob, answer(&id, None, "")), bad, Reason::ApproveMissing, "approve").await;
    let id = t.ask(&bob, plan("p")).await;
    let undecided = answer_plan("bob", &id, None, "");
    t.refused(t.try_send(&t.lead, undecided), bad, Reason::ApproveMissing, "approve").await;
}

#[tokio::test]
async fn a_request_of_another_team_looks_unknown() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let beta = t.coordinator.create_team(&t.operator, &create("beta")).await.unwrap();
    let other = Member::new("lead", &beta.credential);
    let id = t.ask(&t.lead, shutdown("bob")).await;
    let foreign = t.refused(t.try_send(&other, approve(&id)), Code::NotFound, Reason::RequestNotFound, "request_id");
    let foreign = foreign.await;
    let unknown = t.try_send(&other, approve(&unknown_request())).await.unwrap_err();
    assert_eq!(foreign, unknown);
    t.send(&bob, approve(&id)).await;
}

#[tokio::test]
async fn only_the_recipient_can_answer_a_request_and_only_in_kind() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let (to_end, to_plan) = (t.ask(&t.lead, shutdown("bob")).await, t.ask(&bob, plan("p")).await);
    let (before, denied, field) = (Code::FailedPrecondition, Code::PermissionDenied, "request_id");
    t.refused(t.try_send(&bob, approve(&to_plan)), before, Reason::RequestKindMismatch, field).await;
    let wrong_kind = answer_plan("bob", &to_end, Some(true), "");
    t.refused(t.try_send(&t.lead, wrong_kind), before, Reason::RequestKindMismatch, field).await;
    t.refused(t.try_send(&eve, approve(&to_end)), Code::NotFound, Reason::RequestNotFound, field).await;
    t.refused(t.try_send(&t.lead, approve(&to_end)), denied, Reason::NotRequestTarget, field).await;
    t.refused(t.try_send(&t.operator, in_alpha(approve(&to_end))), denied, Reason::NotRequestTarget, field).await;
    for caller in [&bob, &eve] {
        let own = answer_plan("bob", &to_plan, Some(true), "");
        t.refused(t.try_send(caller, own), denied, Reason::LeadOnly, "").await;
    }
    let misdirected = answer_plan("eve", &to_plan, Some(true), "");
    let bad = Code::InvalidArgument;
    t.refused(t.try_send(&t.lead, misdirected), bad, Reason::RecipientMismatch, "recipient").await;
    let nobody = answer_plan("", &to_plan, Some(true), "");
    t.refused(t.try_send(&t.lead, nobody), bad, Reason::MissingRecipient, "recipient").await;
}

#[tokio::test]
async fn a_decision_is_final() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let before = Code::FailedPrecondition;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, reject(&id, "busy")).await;
    let refusal = t.refused(t.try_send(&bob, approve(&id)), before, Reason::AlreadyDecided, "request_id").await;
    assert_eq!(refusal.metadata["state"], "rejected");
    let id = t.ask(&bob, plan("p")).await;
    t.send(&t.lead, answer_plan("bob", &id, Some(true), "")).await;
    let opposite = answer_plan("bob", &id, Some(false), "no");
    let refusal = t.refused(t.try_send(&t.lead, opposite), before, Reason::AlreadyDecided, "request_id").await;
    assert_eq!(refusal.metadata["state"], "approved");
}

#[tokio::test]
async fn calls_reserved_to_the_lead_or_the_operator_are_refused_to_others() {
    let (t, [bob, _eve]) = Team::of(["bob", "eve"]).await;
    let (denied, only) = (Code::PermissionDenied, Reason::LeadOnly);
    t.refused(t.try_send(&bob, shutdown("eve")), denied, only, "").await;
    t.refused(t.try_force(&bob, "eve"), denied, only, "").await;
    t.refused(t.try_set_lead(&bob, "bob"), denied, only, "").await;
    t.refused(t.try_delete(&bob), denied, only, "").await;
    t.refused(t.coordinator.invite(&bob.who, &v1::InviteRequest::default()), denied, only, "").await;
    t.refused(t.coordinator.create_observer(&bob.who, &Default::default()), denied, only, "").await;
    t.refused(t.coordinator.create_team(&bob.who, &create("gamma")), denied, Reason::OperatorOnly, "").await;
    // Nor does the lead make teams.
    t.refused(t.coordinator.create_team(&t.lead.who, &create("gamma")), denied, Reason::OperatorOnly, "").await;
}

#[tokio::test]
async fn idempotency_keys_are_bounded_and_bound_to_their_payload() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let field = "idempotency_key";
    for key in ["x".repeat(65), "a b".to_owned(), "ä".to_owned()] {
        let call = t.try_send(&bob, keyed(&key, message("lead", "x")));
        t.refused(call, Code::InvalidArgument, Reason::InvalidIdempotencyKey, field).await;
    }
    t.send(&bob, keyed(&"k".repeat(64), message("lead", "x"))).await;
    let reused = t.try_send(&bob, keyed(&"k".repeat(64), message("lead", "y")));
    t.refused(reused, Code::AlreadyExists, Reason::IdempotencyKeyReused, field).await;
}

#[tokio::test]
async fn deadlines_references_and_attachments_are_checked() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let bad = Code::InvalidArgument;
    let mut late = shutdown("bob");
    let Some(Body::ShutdownRequest(ask)) = &mut late.body else { unreachable!() };
    ask.ttl = Some(prost_types::Duration { seconds: 2_592_001, nanos: 0 });
    t.refused(t.try_send(&t.lead, late), bad, Reason::InvalidField, "ttl").await;

    let reply = v1::SendRequest { in_reply_to: "7".to_owned(), ..message("lead", "x") };
    t.refused(t.try_send(&bob, reply), bad, Reason::InvalidMessageId, "in_reply_to").await;

    let file = v1::Attachment { uri: "https://host/x".to_owned(), ..Default::default() };
    let attached = |attachments| t.try_send(&bob, v1::SendRequest { attachments, ..message("lead", "x") });
    let wrong = [
        v1::Attachment::default(),
        v1::Attachment { uri: "host/x".to_owned(), ..file.clone() },
        v1::Attachment { uri: "https://host/a b".to_owned(), ..file.clone() },
        v1::Attachment { media_type: "a\nb".to_owned(), ..file.clone() },
        v1::Attachment { sha256: "AB".repeat(32), ..file.clone() },
    ];
    for wrong in wrong {
        t.refused(attached(vec![wrong]), bad, Reason::InvalidAttachment, "attachments").await;
    }
    t.refused(attached(vec![file.clone(); 17]), bad, Reason::InvalidAttachment, "attachments").await;
    attached(vec![file; 16]).await.unwrap();
    assert_eq!(t.inbox(&t.lead).await.last().unwrap().attachments.len(), 16);
}

#[tokio::test]
async fn a_full_inbox_is_named_in_the_refusal_with_a_retry_delay() {
    let t = Team::with_limits(|limits| limits.inbox_entries_max = 2).await;
    let [bob, eve] = t.join_all(["bob", "Eve"]).await;
    t.send(&bob, message("eve", "1")).await;
    t.send(&bob, message("eve", "2")).await;
    let full = (Code::ResourceExhausted, Reason::InboxFull);
    for request in [message("eve", "3"), broadcast("3")] {
        let refusal = t.refused(t.try_send(&bob, request), full.0, full.1, "").await;
        assert!(refusal.retry_after.is_some());
        assert_eq!(refusal.metadata["member"], "Eve", "as first written");
    }
    assert!(t.inbox(&t.lead).await.is_empty(), "all or nothing: the broadcast reached nobody");
    // An acknowledgement makes room.
    let first = t.inbox(&eve).await.remove(0).id;
    assert_eq!(t.ack(&eve, &[&first]).await, Ok(1));
    t.send(&bob, broadcast("3")).await;
    let contents: Vec<_> = t.deliveries(&eve).await.iter().map(|delivery| delivery.sequence).collect();
    assert_eq!(contents, [2, 3], "never trimmed, never reused");
}

#[tokio::test]
async fn an_inbox_can_be_full_by_bytes() {
    let t = Team::with_limits(|limits| limits.inbox_bytes_max = 1_000).await;
    let [bob] = t.join_all(["bob"]).await;
    let large = "x".repeat(600);
    t.send(&t.lead, message("bob", &large)).await;
    let second = t.try_send(&t.lead, message("bob", &large));
    t.refused(second, Code::ResourceExhausted, Reason::InboxFull, "").await;
    t.send(&t.lead, message("bob", "x")).await;
    assert_eq!(t.inbox(&bob).await.len(), 2);
}

#[tokio::test]
async fn a_full_inbox_does_not_keep_a_request_from_being_answered() {
    let t = Team::with_limits(|limits| limits.inbox_entries_max = 1).await;
    let [bob, eve] = t.join_all(["bob", "eve"]).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&eve, message("lead", "x")).await;
    let full = t.try_send(&eve, message("lead", "y"));
    t.refused(full, Code::ResourceExhausted, Reason::InboxFull, "").await;
    t.send(&bob, approve(&id)).await;
    assert_eq!(t.inbox(&t.lead).await.len(), 2);
}

#[tokio::test]
async fn a_lead_cannot_answer_a_plan_it_submitted_itself() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, plan("p")).await;
    t.try_set_lead(&t.lead, "bob").await.unwrap();
    let own = answer_plan("bob", &id, Some(true), "");
    t.refused(t.try_send(&bob, own), Code::InvalidArgument, Reason::SelfRecipient, "recipient").await;
    // The operator can.
    t.send(&t.operator, in_alpha(answer_plan("bob", &id, Some(true), ""))).await;
}

#[tokio::test]
async fn plans_come_from_teammates_only() {
    let (t, [_bob]) = Team::of(["bob"]).await;
    t.refused(t.try_send(&t.lead, plan("p")), Code::InvalidArgument, Reason::SelfRecipient, "").await;
    let by_operator = t.try_send(&t.operator, in_alpha(plan("p")));
    t.refused(by_operator, Code::PermissionDenied, Reason::NotPermitted, "").await;
}
