//! Permission requests: the state machine of requests, with several of one member pending.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    v1::{self, CancelCause, NoticeKind, RequestKind, RequestState, message::Body},
};
use tonic::Code;

use crate::{calls::RuleCalls as _, team::*};

const MINUTE: Duration = Duration::from_secs(60);

async fn state(t: &Team, id: &str) -> (RequestState, CancelCause) {
    let request = t.request(id).await;
    (request.state(), request.cancel_cause())
}

#[tokio::test]
async fn the_lead_is_asked_and_its_answer_goes_to_the_member() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let asked = t.send(&bob, permission("")).await;
    assert_eq!(asked.recipients, ["lead"]);
    let message = t.inbox(&t.lead).await.pop().unwrap();
    assert_eq!(message.request_id, asked.request_id);
    let Some(Body::PermissionRequest(body)) = message.body else { panic!("{message:?}") };
    assert_eq!((&*body.recipient, &*body.tool, &*body.detail), ("lead", "Bash", "rm -r target"));
    let pending = t.request(&asked.request_id).await;
    assert_eq!((pending.kind(), pending.state()), (RequestKind::Permission, RequestState::Pending));
    assert_eq!((&*pending.member, pending.incarnation, &*pending.approver), ("bob", 1, ""));
    assert_eq!((&*pending.tool, &*pending.summary, &*pending.content), ("Bash", "clean up", "rm -r target"));
    assert_eq!(t.member("bob").await.pending_permissions, [&*asked.request_id]);

    let before = t.history().await.len();
    let reply = t.send(&t.lead, allow(&asked.request_id, false, "keep it")).await;
    assert_eq!((&*reply.recipients, &reply.request_id), (&["bob".to_owned()][..], &asked.request_id));
    let told = t.inbox(&bob).await.pop().unwrap();
    assert!(
        matches!(told.body, Some(Body::PermissionResponse(b)) if b.approve == Some(false) && b.reason == "keep it")
    );
    let decided = t.request(&asked.request_id).await;
    assert_eq!((decided.state(), &*decided.decided_by.unwrap().name), (RequestState::Rejected, "lead"));
    assert!(t.member("bob").await.pending_permissions.is_empty());
    assert_eq!(t.history().await.len(), before + 2, "the message and the decision");
}

#[tokio::test]
async fn only_the_named_approver_the_lead_and_the_operator_may_answer() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    let answerers: [&dyn Calls; 3] = [&ann, &t.lead, &t.operator];
    for who in answerers {
        let asked = t.send(&bob, permission("ANN")).await;
        assert_eq!(asked.recipients, ["ann"]);
        assert_eq!(t.request(&asked.request_id).await.approver, "ann");
        let answer = allow(&asked.request_id, true, "");
        let by_asker = t.try_send(&bob, answer.clone());
        t.refused(by_asker, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
        let by_stranger = t.try_send(&eve, answer.clone());
        t.refused(by_stranger, Code::NotFound, Reason::RequestNotFound, "request_id").await;
        t.coordinator.send(who.who(), &in_alpha(answer)).await.unwrap();
        assert_eq!(t.request(&asked.request_id).await.state(), RequestState::Approved);
    }
}

#[tokio::test]
async fn the_lead_must_name_another_member_as_the_approver() {
    let (t, [bob]) = Team::of(["bob"]).await;
    for approver in ["", "team-lead", "lead", "LEAD@alpha"] {
        let to_itself = t.try_send(&t.lead, permission(approver));
        let refusal = t.refused(to_itself, Code::InvalidArgument, Reason::SelfRecipient, "recipient").await;
        assert!(refusal.message.contains("name it as the recipient"), "{refusal}");
    }
    let id = t.ask(&t.lead, permission("bob")).await;
    let by_itself = t.try_send(&t.lead, allow(&id, true, ""));
    t.refused(by_itself, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    t.send(&bob, allow(&id, true, "")).await;
}

#[tokio::test]
async fn a_permission_request_needs_a_member_a_tool_and_a_summary() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let with = |change: fn(&mut v1::PermissionRequest)| {
        let mut request = permission("");
        if let Some(v1::send_request::Body::PermissionRequest(body)) = &mut request.body {
            change(body);
        }
        t.try_send(&bob, request)
    };
    let invalid = Code::InvalidArgument;
    t.refused(with(|it| it.tool = " ".to_owned()), invalid, Reason::InvalidField, "tool").await;
    t.refused(with(|it| it.tool = "two\nlines".to_owned()), invalid, Reason::InvalidField, "tool").await;
    t.refused(with(|it| it.tool = "x".repeat(201)), invalid, Reason::InvalidField, "tool").await;
    t.refused(with(|it| it.summary = String::new()), invalid, Reason::MissingSummary, "summary").await;
    t.refused(with(|it| it.summary = "two\nlines".to_owned()), invalid, Reason::InvalidSummary, "summary").await;
    t.refused(with(|it| it.detail = "x".repeat(65_537)), invalid, Reason::ContentTooLarge, "content").await;
    t.refused(with(|it| it.recipient = "*".to_owned()), invalid, Reason::InvalidName, "recipient").await;
    t.refused(with(|it| it.recipient = "zed".to_owned()), Code::NotFound, Reason::AgentNotFound, "recipient").await;
    let by_operator = t.try_send(&t.operator, in_alpha(permission("bob")));
    t.refused(by_operator, Code::PermissionDenied, Reason::NotPermitted, "").await;
}

#[tokio::test]
async fn several_requests_of_a_member_are_pending_and_each_has_its_own_answer() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let ids = [t.ask(&bob, permission("")).await, t.ask(&bob, permission("")).await, t.ask(&bob, permission("")).await];
    assert_eq!(t.member("bob").await.pending_permissions, ids);
    t.send(&t.lead, allow(&ids[1], true, "")).await;
    assert_eq!(t.member("bob").await.pending_permissions, [&*ids[0], &*ids[2]]);
    t.send(&t.lead, allow(&ids[0], false, "no")).await;
    let states = [state(&t, &ids[0]).await.0, state(&t, &ids[1]).await.0, state(&t, &ids[2]).await.0];
    assert_eq!(states, [RequestState::Rejected, RequestState::Approved, RequestState::Pending]);
}

#[tokio::test]
async fn a_member_has_a_bounded_number_of_requests_pending() {
    let mut t = Team::with_limits(|limits| limits.pending_permissions_max = 2).await;
    let [bob, ann] = t.join_all(["bob", "ann"]).await;
    let first = t.ask(&bob, permission("")).await;
    t.ask(&bob, permission("")).await;
    let third = t.try_send(&bob, permission(""));
    let refusal = t.refused(third, Code::ResourceExhausted, Reason::QuotaExceeded, "").await;
    assert!(refusal.message.contains("2 permission requests pending"), "{refusal}");
    t.ask(&ann, permission("")).await;
    t.send(&t.lead, allow(&first, true, "")).await;
    t.ask(&bob, permission("")).await;
    // Overdue requests make room, even before a sweep.
    t.pass(10 * MINUTE).await;
    t.ask(&bob, permission("")).await;
    assert_eq!(t.member("bob").await.pending_permissions.len(), 1);
}

#[tokio::test]
async fn a_decision_is_final_and_the_same_answer_again_is_replayed() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, permission("")).await;
    let first = t.send(&t.lead, allow(&id, false, "no")).await;
    let again = t.send(&t.lead, allow(&id, false, "no, I said")).await;
    assert_eq!((again.replayed, &again.message_id), (true, &first.message_id));
    let opposite = t.try_send(&t.lead, allow(&id, true, ""));
    t.refused(opposite, Code::FailedPrecondition, Reason::AlreadyDecided, "request_id").await;
    assert_eq!(t.send(&bob, permission("")).await.warnings, Vec::<String>::new());
    let id = t.ask(&bob, permission("")).await;
    assert_eq!(t.send(&t.lead, allow(&id, false, "")).await.warnings.len(), 1, "a rejection should have a reason");
}

#[tokio::test]
async fn an_unanswered_permission_request_expires_and_both_sides_get_a_notice() {
    let (mut t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let (of_lead, of_ann) = (t.ask(&bob, permission("")).await, t.ask(&bob, permission("ann")).await);
    t.pass_and_run_due(9 * MINUTE, &[&t.lead.clone(), &ann, &bob]).await;
    assert_eq!(state(&t, &of_lead).await.0, RequestState::Pending);
    t.pass(MINUTE).await;
    let late = t.try_send(&t.lead, allow(&of_lead, true, ""));
    t.refused(late, Code::FailedPrecondition, Reason::RequestExpired, "request_id").await;
    t.run_due().await;
    for id in [&of_lead, &of_ann] {
        assert_eq!(state(&t, id).await.0, RequestState::Expired);
    }
    let about = async |member: &Member| {
        let notices = t.notices(member, NoticeKind::RequestExpired).await;
        notices.into_iter().map(|notice| notice.request_id).collect::<Vec<_>>()
    };
    assert_eq!(about(&bob).await, [&*of_lead, &*of_ann]);
    assert_eq!((about(&t.lead).await, about(&ann).await), (vec![of_lead], vec![of_ann]));
    assert!(t.member("bob").await.pending_permissions.is_empty());
}

#[tokio::test]
async fn a_requester_can_set_the_deadline() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let mut request = permission("");
    if let Some(v1::send_request::Body::PermissionRequest(body)) = &mut request.body {
        body.ttl = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    }
    let id = t.ask(&bob, request).await;
    t.pass_and_run_due(MINUTE, &[&t.lead.clone(), &bob]).await;
    assert_eq!(state(&t, &id).await.0, RequestState::Expired);
}

#[tokio::test]
async fn all_requests_are_cancelled_when_the_life_of_the_requester_ends() {
    let (t, [bob, eve, ann]) = Team::of(["bob", "eve", "ann"]).await;
    let mut asked = Vec::new();
    for (member, cause) in
        [(&bob, CancelCause::TargetExited), (&eve, CancelCause::Forced), (&ann, CancelCause::TargetReplaced)]
    {
        for _ in 0..3 {
            asked.push((t.ask(member, permission("")).await, cause));
        }
    }
    t.leave(&bob).await;
    t.try_force(&t.lead, "eve").await.unwrap();
    t.rejoin(&ann).await;
    for (id, cause) in &asked {
        assert_eq!(state(&t, id).await, (RequestState::Cancelled, *cause));
        let late = t.try_send(&t.lead, allow(id, true, ""));
        t.refused(late, Code::FailedPrecondition, Reason::RequestCancelled, "request_id").await;
    }
    for name in ["bob", "eve", "ann"] {
        assert!(t.member(name).await.pending_permissions.is_empty(), "{name}");
    }
    assert!(t.notices(&t.lead, NoticeKind::RequestCancelled).await.is_empty());
}

#[tokio::test]
async fn only_the_requester_can_withdraw_a_request_and_a_decision_stands() {
    let (t, [bob, eve]) = Team::of(["bob", "eve"]).await;
    let (withdrawn, kept) = (t.ask(&bob, permission("")).await, t.ask(&bob, permission("")).await);
    let withdraw = |who: &Member, id: &str| {
        let (c, who) = (t.coordinator.clone(), who.who.clone());
        let request = v1::WithdrawRequest { request_id: id.to_owned(), ..Default::default() };
        async move { c.withdraw(&who, &request).await }
    };
    t.refused(withdraw(&t.lead, &withdrawn), Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    t.refused(withdraw(&eve, &withdrawn), Code::NotFound, Reason::RequestNotFound, "request_id").await;
    t.refused(withdraw(&bob, "nonsense"), Code::InvalidArgument, Reason::InvalidRequestId, "request_id").await;
    let plan = t.ask(&bob, plan("p")).await;
    t.refused(withdraw(&bob, &plan), Code::FailedPrecondition, Reason::RequestKindMismatch, "request_id").await;

    let gone = withdraw(&bob, &withdrawn).await.unwrap();
    assert_eq!((gone.state(), gone.cancel_cause()), (RequestState::Cancelled, CancelCause::Withdrawn));
    let history = t.history().await.len();
    assert_eq!(withdraw(&bob, &withdrawn).await.unwrap(), gone, "again");
    assert_eq!(t.history().await.len(), history);
    assert_eq!(t.member("bob").await.pending_permissions, [&*kept]);
    let late = t.try_send(&t.lead, allow(&withdrawn, true, ""));
    t.refused(late, Code::FailedPrecondition, Reason::RequestCancelled, "request_id").await;

    t.send(&t.lead, allow(&kept, true, "go")).await;
    assert_eq!(withdraw(&bob, &kept).await.unwrap(), t.request(&kept).await);
    assert_eq!(state(&t, &kept).await.0, RequestState::Approved);
}

#[tokio::test]
async fn a_request_that_is_overdue_expires_instead_of_being_withdrawn() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, permission("")).await;
    t.pass(10 * MINUTE).await;
    let request = v1::WithdrawRequest { request_id: id.clone(), ..Default::default() };
    assert_eq!(t.coordinator.withdraw(&bob.who, &request).await.unwrap().state(), RequestState::Expired);
    assert_eq!(state(&t, &id).await.0, RequestState::Expired);
}

#[tokio::test]
async fn only_one_of_a_concurrent_answer_and_withdrawal_wins() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let other = t.another_coordinator().await;
    for _ in 0..8 {
        let id = t.ask(&bob, permission("")).await;
        let (yes, back) = (allow(&id, true, ""), v1::WithdrawRequest { request_id: id.clone(), ..Default::default() });
        let (answered, withdrawn) =
            tokio::join!(t.coordinator.send(&t.lead.who, &yes), other.withdraw(&bob.who, &back));
        let (withdrawn, now) = (withdrawn.unwrap(), t.request(&id).await);
        assert_eq!(withdrawn, now, "a withdrawal returns what stands");
        match answered {
            Ok(_) => assert_eq!(now.state(), RequestState::Approved),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::RequestCancelled);
                assert_eq!(now.cancel_cause(), CancelCause::Withdrawn);
            }
        }
        assert!(t.member("bob").await.pending_permissions.is_empty());
    }
}

#[tokio::test]
async fn concurrent_permission_requests_never_exceed_the_bound() {
    let t = Team::with_limits(|limits| limits.pending_permissions_max = 4).await;
    let bob = t.join("bob").await;
    let other = t.another_coordinator().await;
    let ask = permission("");
    let calls = (0..10).map(|n| match n % 2 {
        0 => t.coordinator.send(&bob.who, &ask),
        _ => other.send(&bob.who, &ask),
    });
    let replies = futures::future::join_all(calls).await;
    assert_eq!(replies.iter().filter(|reply| reply.is_ok()).count(), 4);
    assert!(replies.iter().flat_map(|reply| reply.as_ref().err()).all(|it| it.reason == Reason::QuotaExceeded));
    assert_eq!(t.member("bob").await.pending_permissions.len(), 4);
}

#[tokio::test]
async fn a_call_can_wait_until_a_request_is_withdrawn() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, permission("")).await;
    let wait = v1::WaitForDecisionRequest { request_id: id.clone(), ..Default::default() };
    let back = v1::WithdrawRequest { request_id: id, ..Default::default() };
    let (seen, withdrawn) =
        tokio::join!(t.coordinator.wait_for_decision(&t.lead.who, &wait), t.coordinator.withdraw(&bob.who, &back));
    assert_eq!(seen.unwrap(), withdrawn.unwrap());
}

#[tokio::test]
async fn a_request_reaches_an_approver_whose_inbox_is_full() {
    let t = Team::with_limits(|limits| limits.inbox_entries_max = 2).await;
    let bob = t.join("bob").await;
    for content in ["one", "two"] {
        t.send(&bob, message("lead", content)).await;
    }
    let third = t.try_send(&bob, message("lead", "three"));
    t.refused(third, Code::ResourceExhausted, Reason::InboxFull, "").await;
    let id = t.ask(&bob, permission("")).await;
    assert_eq!(t.inbox(&t.lead).await.pop().unwrap().request_id, id);
}

#[tokio::test]
async fn a_new_lead_gets_the_requests_that_await_the_lead_and_may_answer_them() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    let (of_lead, of_ann) = (t.ask(&bob, permission("team-lead")).await, t.ask(&bob, permission("ann")).await);
    t.try_set_lead(&t.lead, "ann").await.unwrap();
    let handed: Vec<_> = t.inbox(&ann).await.into_iter().filter(|it| it.request_id == of_lead).collect();
    let [v1::Message { body: Some(Body::PermissionRequest(body)), sender: Some(sender), .. }] = &handed[..] else {
        panic!("{handed:?}")
    };
    assert_eq!((&*body.recipient, &*body.tool, &*body.detail, &*sender.name), ("ann", "Bash", "rm -r target", "bob"));
    let by_old = t.try_send(&t.lead, allow(&of_lead, true, ""));
    t.refused(by_old, Code::NotFound, Reason::RequestNotFound, "request_id").await;
    t.send(&ann, allow(&of_lead, true, "")).await;
    t.send(&ann, allow(&of_ann, true, "")).await;
}

#[tokio::test]
async fn requests_that_await_an_approver_go_to_the_lead_when_it_exits() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    let [first, second] = [t.ask(&bob, permission("ann")).await, t.ask(&eve, permission("ann")).await];
    let of_lead = t.ask(&t.lead, permission("ann")).await;
    let of_eve = t.ask(&bob, permission("eve")).await;
    t.leave(&ann).await;
    let handed: Vec<_> = t.inbox(&t.lead).await.into_iter().filter(|it| !it.request_id.is_empty()).collect();
    let ids: Vec<&str> = handed.iter().map(|message| message.request_id.as_str()).collect();
    assert_eq!(ids, [&first, &second]);
    let Some(Body::PermissionRequest(body)) = &handed[0].body else { panic!("{handed:?}") };
    let sender = handed[0].sender.as_ref().map(|sender| sender.name.as_str());
    assert_eq!((&*body.recipient, &*body.tool, &*body.detail, sender), ("lead", "Bash", "rm -r target", Some("bob")));
    let told = t.notices(&t.lead, NoticeKind::MemberExited).await;
    assert!(told[0].text.contains("2 permission requests that it did not answer are yours now"), "{}", told[0].text);
    assert!(told[0].important);

    let approvers =
        [t.request(&first).await.approver, t.request(&of_eve).await.approver, t.request(&of_lead).await.approver];
    assert_eq!(approvers, ["", "eve", "ann"]);
    assert_eq!(state(&t, &of_lead).await.0, RequestState::Pending);
    t.send(&t.operator, in_alpha(allow(&of_lead, true, ""))).await;

    // From now on, they are the lead's like any other: a new lead gets them, and a decision is final.
    t.send(&t.lead, allow(&second, false, "no")).await;
    t.try_set_lead(&t.lead, "eve").await.unwrap();
    assert!(t.inbox(&eve).await.iter().any(|message| message.request_id == first));
    t.send(&eve, allow(&first, true, "")).await;
    let returned = t.rejoin(&ann).await;
    let late = t.try_send(&returned, allow(&first, false, ""));
    t.refused(late, Code::NotFound, Reason::RequestNotFound, "request_id").await;
}

#[tokio::test]
async fn the_lead_is_asked_in_place_of_an_approver_that_has_exited() {
    let (t, [ann, bob]) = Team::of(["ann", "bob"]).await;
    t.leave(&ann).await;
    let asked = t.send(&bob, permission("ann")).await;
    assert_eq!(
        (&*asked.recipients, &*asked.warnings),
        (&["lead".to_owned()][..], &["ann has exited, so lead is asked instead.".to_owned()][..])
    );
    assert_eq!(t.request(&asked.request_id).await.approver, "");
    let by_lead = t.try_send(&t.lead, permission("ann"));
    let refusal = t.refused(by_lead, Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
    assert!(refusal.message.contains("Name another member as the approver"), "{refusal}");
    let lead = t.lead.clone();
    t.leave(&lead).await;
    let to_no_one = t.try_send(&bob, permission("ann"));
    t.refused(to_no_one, Code::FailedPrecondition, Reason::AgentExited, "recipient").await;
}

#[tokio::test]
async fn requests_to_an_approver_stopped_by_force_go_to_the_lead_even_without_an_exit_report() {
    let (mut t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    let (first, second) = (t.ask(&bob, permission("ann")).await, t.ask(&bob, permission("eve")).await);
    t.try_force(&t.lead, "ann").await.unwrap();
    let meanwhile = t.send(&bob, permission("ann")).await;
    assert_eq!(meanwhile.warnings, ["ann is stopping, so lead is asked instead."]);
    t.pass_and_run_due(MINUTE, &[&t.lead.clone(), &bob]).await;
    assert_eq!(t.request(&first).await.approver, "", "its lease has run out");
    assert_eq!(t.request(&second).await.approver, "eve", "it is lost, and may come back");
    drop((ann, eve));
}

#[tokio::test]
async fn a_member_that_has_become_the_lead_cannot_grant_its_own_request() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, permission("")).await;
    t.try_set_lead(&t.lead, "bob").await.unwrap();
    let own = t.try_send(&bob, allow(&id, true, ""));
    t.refused(own, Code::PermissionDenied, Reason::NotRequestTarget, "request_id").await;
    t.send(&t.operator, in_alpha(allow(&id, true, ""))).await;
}

#[tokio::test]
async fn a_request_is_listed_for_its_approver_its_requester_and_the_lead() {
    let (t, [ann, bob, eve]) = Team::of(["ann", "bob", "eve"]).await;
    let id = t.ask(&bob, permission("ann")).await;
    for (who, expected) in [(&ann, vec![id.clone()]), (&bob, vec![id.clone()]), (&t.lead, vec![id]), (&eve, vec![])] {
        let kind = RequestKind::Permission.into();
        let list = v1::ListRequestsRequest { kind, ..Default::default() };
        let found = t.coordinator.list_requests(&who.who, &list).await.unwrap().requests;
        assert_eq!(found.into_iter().map(|request| request.id).collect::<Vec<_>>(), expected, "{}", who.name);
    }
}

#[tokio::test]
async fn an_answer_of_another_kind_names_the_right_one() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let id = t.ask(&bob, permission("")).await;
    for wrong in [approve(&id), answer_plan("bob", &id, Some(true), "")] {
        let call = t.try_send(&t.lead, wrong);
        let refusal = t.refused(call, Code::FailedPrecondition, Reason::RequestKindMismatch, "request_id").await;
        assert!(refusal.message.contains("permission_response"), "{refusal}");
    }
}
