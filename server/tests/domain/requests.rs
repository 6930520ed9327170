//! Shutdowns and plans: who may ask, who may answer, and what a decision changes.

use teamwire_proto::{
    Reason,
    id::{REQUEST_ID_CHARS, RequestId},
    v1::{self, CancelCause, RequestKind, RequestState, SenderKind, send_request::Body},
};
use teamwire_server::{
    domain::{
        membership,
        records::{EndCause, Exit, Life, Pending, SessionEnd, SessionRecord, TeamRecord},
        secret::SessionId,
        time::timestamp,
    },
    store::{Bound, Txn, WhenFull, Write},
};

use crate::world::*;

fn send(body: Body) -> v1::SendRequest {
    v1::SendRequest { body: Some(body), ..Default::default() }
}

fn ask_to_shut_down(member: &str) -> v1::SendRequest {
    send(Body::ShutdownRequest(v1::ShutdownRequest { recipient: member.to_owned(), ..Default::default() }))
}

fn answer_shutdown(approve: bool) -> v1::SendRequest {
    let (request_id, approve) = (request_id().to_string(), Some(approve));
    send(Body::ShutdownResponse(v1::ShutdownResponse { request_id, approve, ..Default::default() }))
}

fn submit_plan() -> v1::SendRequest {
    send(Body::PlanApprovalRequest(v1::PlanApprovalRequest { plan: "a plan".to_owned(), ..Default::default() }))
}

fn answer_plan(author: &str, approve: bool) -> v1::SendRequest {
    let (recipient, request_id, approve) = (author.to_owned(), request_id().to_string(), Some(approve));
    send(Body::PlanApprovalResponse(v1::PlanApprovalResponse { recipient, request_id, approve, ..Default::default() }))
}

/// A team in which the lead has asked `ann` to shut down.
fn asked(expires_ms: u64) -> World {
    let pending = Pending { expires_ms, ..Pending::new(request_id(), NOW_MS, 0) };
    World::with(&["lead", "ann", "bob"])
        .member("ann", |ann| ann.pending_shutdown = Some(pending))
        .record(request_id().as_str(), &request(RequestKind::Shutdown, "lead", expires_ms))
}

/// A team in which `ann` has submitted a plan that it needs approved.
fn submitted() -> World {
    let expires_ms = NOW_MS + 60_000;
    World::with(&["lead", "ann", "bob"])
        .member("ann", |ann| {
            ann.plan_mode_required = true;
            ann.pending_plan = Some(Pending { expires_ms, ..Pending::new(request_id(), NOW_MS, 0) });
        })
        .record(request_id().as_str(), &request(RequestKind::PlanApproval, "ann", expires_ms))
}

fn request(kind: RequestKind, requester: &str, expires_ms: u64) -> v1::Request {
    v1::Request {
        id: request_id().to_string(),
        kind: kind.into(),
        state: RequestState::Pending.into(),
        requester: Some(v1::Sender { kind: SenderKind::Member.into(), name: requester.to_owned() }),
        member: "ann".to_owned(),
        incarnation: 1,
        expires_at: Some(timestamp(expires_ms)),
        ..Default::default()
    }
}

fn decided(txn: &Txn) -> v1::Request {
    put(txn, request_id().as_str()).unwrap()
}

#[test]
fn second_shutdown_request_is_refused_while_the_first_is_pending() {
    let refusal = asked(NOW_MS + 1).send(&caller("lead"), &ask_to_shut_down("ann")).unwrap_err();
    assert_eq!(refusal.reason, Reason::ShutdownPending);
    assert_eq!(refusal.metadata.get("request_id"), Some(&request_id().to_string()));
}

/// A recipient that has seen the lost request would acknowledge a message with the same id unseen, and nobody would
/// answer.
#[test]
fn shutdown_request_lost_by_the_store_gets_new_ids_when_sent_again() {
    let mut world = World::with(&["lead", "ann"]);
    let key = uuid::Builder::from_unix_timestamp_millis(NOW_MS, &[1; 10]).into_uuid().to_string();
    let request = v1::SendRequest { idempotency_key: key, ..ask_to_shut_down("ann") };
    let (lost, _) = world.send(&caller("lead"), &request).unwrap();
    world.pass(1);
    let (again, _) = world.send(&caller("lead"), &request).unwrap();
    assert_ne!(lost.request_id, again.request_id);
    assert_ne!(lost.message_id, again.message_id);
}

#[test]
fn shutdown_request_replaces_an_expired_one() {
    let (reply, txn) = asked(NOW_MS).send(&caller("lead"), &ask_to_shut_down("ann")).unwrap();
    assert_eq!(decided(&txn).state(), RequestState::Expired);
    let team: TeamRecord = put(&txn, "").unwrap();
    assert_eq!(team.member(&name("ann")).unwrap().pending_shutdown.as_ref().unwrap().id.as_str(), reply.request_id);
}

#[test]
fn shutdown_requests_and_their_answers_have_room_that_nothing_else_may_fill() {
    let world = asked(NOW_MS + 1);
    let (_, request) =
        World::with(&["lead", "ann"]).send(&caller("lead"), &ask_to_shut_down("ann")).expect("a request");
    let (_, answer) = world.send(&caller("ann"), &answer_shutdown(true)).expect("an answer");
    let (_, plan) = submitted().send(&caller("lead"), &answer_plan("ann", true)).expect("an answer to a plan");
    let limits = &world.ctx.limits;
    let bound = |factor: u64| Bound {
        entries_max: factor * limits.inbox_entries_max,
        weight_max: factor * limits.inbox_bytes_max,
        when_full: WhenFull::Refuse,
    };
    for (txn, inbox, expected) in
        [(&request, "inbox/ann", bound(3)), (&answer, "inbox/lead", bound(3)), (&plan, "inbox/ann", bound(2))]
    {
        let found = txn.writes.iter().find_map(|write| match write {
            Write::Append { stream, bound, .. } if stream == inbox => *bound,
            _ => None,
        });
        assert_eq!(found, Some(expected), "{inbox}");
    }
}

#[test]
fn shutdown_request_wakes_a_session_that_does_not_look_at_its_inbox() {
    let (_, txn) = World::with(&["lead", "ann"]).send(&caller("lead"), &ask_to_shut_down("ann")).unwrap();
    let topics: Vec<_> = txn
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Notify { topic, .. } => Some(topic.as_str()),
            _ => None,
        })
        .collect();
    assert!(topics.contains(&"session/ann"), "{topics:?}");
}

#[test]
fn only_the_lead_may_ask_for_a_shutdown() {
    let refusal = World::with(&["lead", "ann", "bob"]).send(&caller("bob"), &ask_to_shut_down("ann")).unwrap_err();
    assert_eq!(refusal.reason, Reason::LeadOnly);
}

#[test]
fn shutdown_of_a_stopping_or_exited_member_is_refused_with_what_is_left_to_do() {
    let stopping = forced();
    let exited = Life::Exited { exit: Exit::default(), cause: EndCause::NotStarted };
    for (life, text) in [
        (stopping, "ann is stopping. To wait for its exit, use `teamwire shutdown ann --wait`."),
        (exited, "ann has exited. Nothing is left to shut down."),
    ] {
        let world = World::with(&["lead", "ann"]).life("ann", life);
        let refusal = world.send(&caller("lead"), &ask_to_shut_down("ann")).unwrap_err();
        assert_eq!((refusal.reason, refusal.message.as_str()), (Reason::AgentExited, text));
    }
}

#[test]
fn only_the_asked_member_may_answer_a_shutdown() {
    // For a member that may not see the request, there is none.
    for (other, reason) in [("lead", Reason::NotRequestTarget), ("bob", Reason::RequestNotFound)] {
        let refusal = asked(NOW_MS + 1).send(&caller(other), &answer_shutdown(true)).unwrap_err();
        assert_eq!(refusal.reason, reason, "{other}");
    }
}

#[test]
fn expired_request_cannot_be_answered() {
    let refusal = asked(NOW_MS).send(&caller("ann"), &answer_shutdown(true)).unwrap_err();
    assert_eq!(refusal.reason, Reason::RequestExpired);
}

#[test]
fn approval_stops_the_member_ends_its_session_and_answers_in_one_transaction() {
    let session = SessionRecord {
        epoch: 1,
        session_id: SessionId::presented("1-x").unwrap(),
        incarnation: 1,
        ..Default::default()
    };
    let world = asked(NOW_MS + 1).record("ann", &session);
    let (_, txn) = world.send(&caller("ann"), &answer_shutdown(true)).unwrap();
    let team: TeamRecord = put(&txn, "").unwrap();
    let ann = team.member(&name("ann")).unwrap();
    assert_eq!(ann.life, stopping(EndCause::Approved(request_id())));
    assert_eq!(ann.pending_shutdown, None);
    assert_eq!(decided(&txn).state(), RequestState::Approved);
    let session: SessionRecord = put(&txn, "ann").unwrap();
    assert_eq!(session.ended, Some(SessionEnd::ShutdownApproved(request_id())));
    assert!(appended(&txn).contains(&"inbox/lead"));
}

#[test]
fn rejection_leaves_the_member_live() {
    let (reply, txn) = asked(NOW_MS + 1).send(&caller("ann"), &answer_shutdown(false)).unwrap();
    let team: TeamRecord = put(&txn, "").unwrap();
    assert_eq!(team.member(&name("ann")).unwrap().life, Life::Live);
    assert_eq!(decided(&txn).state(), RequestState::Rejected);
    assert_eq!(reply.warnings.len(), 1, "a rejection should have a reason");
}

#[test]
fn same_answer_again_is_accepted_and_the_opposite_is_refused() {
    let mut world = asked(NOW_MS + 1);
    let (first, txn) = world.send(&caller("ann"), &answer_shutdown(true)).unwrap();
    world.apply(&txn);
    let (again, txn) = world.send(&caller("ann"), &answer_shutdown(true)).unwrap();
    assert_eq!((again.message_id, again.replayed, txn.writes), (first.message_id, true, vec![]));
    let refusal = world.send(&caller("ann"), &answer_shutdown(false)).unwrap_err();
    assert_eq!(refusal.reason, Reason::AlreadyDecided);
}

#[test]
fn approved_plan_lets_its_author_work() {
    let (_, txn) = submitted().send(&caller("lead"), &answer_plan("ann", true)).unwrap();
    let team: TeamRecord = put(&txn, "").unwrap();
    assert!(!team.member(&name("ann")).unwrap().plan_required());
    assert_eq!(decided(&txn).state(), RequestState::Approved);
}

#[test]
fn plan_answer_must_name_the_author() {
    let refusal = submitted().send(&caller("lead"), &answer_plan("bob", true)).unwrap_err();
    assert_eq!(refusal.reason, Reason::RecipientMismatch);
}

#[test]
fn newer_plan_cancels_the_older_one() {
    let (reply, txn) = submitted().send(&caller("ann"), &submit_plan()).unwrap();
    let older = decided(&txn);
    assert_eq!((older.state(), older.cancel_cause()), (RequestState::Cancelled, CancelCause::NewerPlan));
    assert_ne!(reply.request_id, request_id().to_string());
}

#[test]
fn approval_renews_the_lease_so_that_the_member_does_not_count_as_exited_at_once() {
    let (_, txn) = asked(NOW_MS + 1).life("ann", Life::Lost).send(&caller("ann"), &answer_shutdown(true)).unwrap();
    assert!(txn.writes.iter().any(|write| matches!(write, Write::Lease { name, .. } if name == "ann")));
}

#[test]
fn requests_that_name_an_approver_do_not_count_against_those_that_a_new_lead_receives() {
    let pending =
        |approver: Option<&str>| Pending { approver: approver.map(name), ..Pending::new(request_id(), NOW_MS, 1) };
    // Those that name an approver have no records: reading one would fail.
    let named = Pending { id: RequestId::from_random([1; REQUEST_ID_CHARS]), ..pending(Some("bob")) };
    let world = World::with(&["lead", "ann", "bob", "eve"])
        .member("bob", |bob| bob.pending_permissions = vec![named; 300])
        .member("eve", |eve| eve.pending_permissions = vec![pending(None)])
        .record(request_id().as_str(), &request(RequestKind::Permission, "ann", NOW_MS + 1));
    let to_ann = v1::SetLeadRequest { member: "ann".to_owned(), ..Default::default() };
    let (_, txn) =
        world.run(|tx| membership::set_lead(tx, &caller("lead"), &to_ann, &Default::default())).expect("a new lead");
    // The request, and the notice that the lead has changed.
    assert_eq!(
        txn.writes
            .iter()
            .filter(|write| matches!(write, Write::Append { stream, .. } if stream == "inbox/ann"))
            .count(),
        2
    );
}
