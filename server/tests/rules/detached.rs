//! Detached lives: members that no process keeps going.

use std::time::Duration;

use teamwire_proto::{
    Reason,
    name::Name,
    v1::{self, Activity, Liveness, MemberState, NoticeKind, Role, TaskStatus, history_entry::Event},
};
use teamwire_server::store::Namespace;
use tonic::Code;

use crate::team::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A team with an attached lead and a detached teammate.
async fn with_bob() -> (Team, Member) {
    let t = Team::new().await;
    let bob = t.join_detached("bob").await;
    (t, bob)
}

/// Lets time pass in which only the lead calls.
async fn pass(t: &mut Team, time: Duration) {
    let lead = t.lead.clone();
    t.pass_and_run_due(time, &[&lead]).await;
}

#[tokio::test]
async fn a_detached_member_between_calls_is_away_not_lost_and_causes_no_history_or_notices() {
    let (mut t, bob) = with_bob().await;
    let member = t.member("bob").await;
    assert_eq!((member.liveness(), member.state()), (Liveness::Detached, MemberState::Active));
    let before = t.history().await.len();
    for _ in 0..3 {
        pass(&mut t, 29 * SECOND).await;
        assert_eq!(t.member("bob").await.state(), MemberState::Active);
        pass(&mut t, HOUR).await;
        let member = t.member("bob").await;
        assert_eq!((member.state(), member.connected), (MemberState::Away, false));
        // The caller itself is never shown as away: it is calling.
        let own = t.coordinator.list_members(&bob.who, &v1::ListMembersRequest::default()).await.unwrap().members;
        assert_eq!(own.iter().find(|member| member.name == "bob").unwrap().state(), MemberState::Active);
        t.heartbeat(&bob, Activity::Unspecified, "").await;
    }
    assert_eq!(t.member("bob").await.state(), MemberState::Active);
    assert_eq!(t.history().await.len(), before, "{:?}", t.history().await);
    assert!(t.inbox(&t.lead).await.is_empty());
}

#[tokio::test]
async fn a_detached_member_is_active_while_its_session_is_open_and_away_afterwards() {
    let (mut t, bob) = with_bob().await;
    pass(&mut t, HOUR).await;
    let session = t.open(&bob).await;
    for _ in 0..3 {
        let lead = t.lead.clone();
        t.pass_and_run_due(20 * SECOND, &[&lead, &bob]).await;
        let member = t.member("bob").await;
        assert_eq!((member.state(), member.connected), (MemberState::Active, true));
    }
    drop(session);
    pass(&mut t, HOUR).await;
    let member = t.member("bob").await;
    assert_eq!((member.state(), member.connected), (MemberState::Away, false));
    assert!(t.notices(&t.lead, NoticeKind::MemberLost).await.is_empty());
}

#[tokio::test]
async fn a_detached_member_claims_a_task_works_for_two_hours_and_completes_it() {
    let (mut t, bob) = with_bob().await;
    t.add_some(1).await;
    let claim = t.try_claim(&bob, 1).await.unwrap();
    assert!(claim.task.unwrap().claim_expires_at.is_some());
    for _ in 0..4 {
        pass(&mut t, HOUR / 2).await;
        assert_eq!((t.task(1).await.owner.as_str(), t.member("bob").await.state()), ("bob", MemberState::Away));
    }
    let done = t.try_complete(&bob, 1, &claim.token).await.unwrap().task.unwrap();
    assert_eq!((done.status(), done.claim_expires_at), (TaskStatus::Completed, None));
    pass(&mut t, 48 * HOUR).await;
    assert_eq!(t.task(1).await.status(), TaskStatus::Completed, "only claims expire");
}

#[tokio::test]
async fn a_claim_of_a_detached_member_expires_and_owner_and_lead_learn_when_and_why() {
    let (mut t, bob) = with_bob().await;
    t.add_some(2).await;
    let token = t.claim(&bob, 1).await;
    pass(&mut t, 13 * HOUR).await;
    t.claim(&bob, 2).await;
    pass(&mut t, 12 * HOUR).await;
    let task = t.task(1).await;
    assert_eq!((task.status(), task.owner.as_str()), (TaskStatus::Pending, ""));
    assert_eq!(task.released_because, "its claim expired after 24 h");
    assert_eq!(task.claim_expires_at, None);
    assert_eq!(t.task(2).await.owner, "bob", "its claim is younger");
    let at = prost_types::Timestamp { nanos: 0, ..task.released_at.unwrap() };
    let why = format!("Task 1 went back to the board at {at}: its claim expired after 24 h.");
    for member in [&bob, &t.lead] {
        let notices = t.notices(member, NoticeKind::TaskLapsed).await;
        assert_eq!(notices.len(), 1);
        assert!(notices[0].text.starts_with(&why), "{}", notices[0].text);
        assert_eq!((notices[0].member.as_str(), notices[0].task.as_ref().unwrap().id), ("bob", 1));
    }
    let lapsed =
        |event: &Option<Event>| matches!(event, Some(Event::Task(task)) if task.kind() == v1::TaskEventKind::Lapsed);
    assert_eq!(t.history().await.iter().filter(|entry| lapsed(&entry.event)).count(), 1);
    let call = t.try_complete(&bob, 1, &token);
    let refusal = t.refused(call, Code::Aborted, Reason::StaleClaim, "claim_token").await;
    assert!(refusal.message.starts_with(&why), "{refusal}");
    assert_eq!(refusal.metadata["released_because"], task.released_because);
    t.claim(&bob, 1).await;
}

#[tokio::test]
async fn a_claim_of_an_attached_member_does_not_expire() {
    let (mut t, [bob]) = Team::of(["bob"]).await;
    t.add_some(1).await;
    let claim = t.try_claim(&bob, 1).await.unwrap();
    assert_eq!(claim.task.unwrap().claim_expires_at, None);
    let lead = t.lead.clone();
    for _ in 0..3 {
        // Renewed, and only then swept.
        t.pass_and_run_due(20 * HOUR, &[&lead, &bob]).await;
    }
    t.try_complete(&bob, 1, &claim.token).await.unwrap();
}

#[tokio::test]
async fn a_claim_ends_with_its_owners_detached_life() {
    let (t, bob) = with_bob().await;
    t.add_some(2).await;
    t.claim(&bob, 1).await;
    let bob = t.rejoin(&bob).await;
    assert_eq!(t.task(1).await.released_because, "its owner has begun a new life");
    t.claim(&bob, 2).await;
    t.try_force(&t.lead, "bob").await.unwrap();
    assert_eq!((t.task(2).await.owner.as_str(), t.task(2).await.claim_expires_at), ("", None));
}

#[tokio::test]
async fn a_new_life_takes_its_liveness_from_its_join() {
    let (mut t, bob) = with_bob().await;
    let bob = t.rejoin(&bob).await;
    assert_eq!(t.member("bob").await.liveness(), Liveness::Attached);
    pass(&mut t, HOUR).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Lost);
    t.coordinator.join(&bob.who, &join_by(true)).await.unwrap();
    pass(&mut t, HOUR).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Away);
    let request = v1::JoinRequest { liveness: 3, ..Default::default() };
    let token = presented(&t.invite("eve").await);
    t.refused(t.try_join(&token, request), Code::InvalidArgument, Reason::InvalidField, "liveness").await;
}

#[tokio::test]
async fn the_name_of_a_member_that_is_away_can_be_joined_only_with_a_token_for_that_name() {
    let (mut t, bob) = with_bob().await;
    let (free, bound) = (presented(&t.invite("").await), presented(&t.invite("bob").await));
    let as_bob = || v1::JoinRequest { name: "bob".to_owned(), ..Default::default() };
    let taken = (Code::AlreadyExists, Reason::MemberExists, "name");
    t.refused(t.try_join(&bound, as_bob()), taken.0, taken.1, taken.2).await;
    pass(&mut t, 31 * SECOND).await;
    let refusal = t.refused(t.try_join(&free, as_bob()), taken.0, taken.1, taken.2).await;
    assert!(refusal.message.contains("a token that the lead issues for this name"), "{refusal}");
    t.try_join(&bound, as_bob()).await.unwrap();
    t.refused(t.try_send(&bob, message("lead", "x")), Code::Aborted, Reason::SessionSuperseded, "").await;
}

#[tokio::test]
async fn a_member_that_is_away_does_not_keep_its_team_from_being_deleted() {
    let (mut t, bob) = with_bob().await;
    let call = t.try_delete(&t.lead);
    let refusal = t.refused(call, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    assert_eq!(refusal.metadata["bob"], "active");
    pass(&mut t, HOUR).await;
    t.heartbeat(&bob, Activity::Unspecified, "").await;
    let call = t.try_delete(&t.lead);
    t.refused(call, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    pass(&mut t, HOUR).await;
    t.try_delete(&t.lead).await.unwrap();
}

#[tokio::test]
async fn a_detached_lead_is_away_until_it_calls_and_its_new_team_can_be_deleted_at_once() {
    let t = Team::new().await;
    let detached = || v1::CreateTeamRequest { lead_liveness: Liveness::Detached.into(), ..create("beta") };
    let made = t.coordinator.create_team(&t.operator, &detached()).await.unwrap();
    assert_eq!(made.lead.unwrap().state(), MemberState::Away);
    let request = v1::ListMembersRequest { team: "beta".to_owned(), ..Default::default() };
    let shown = t.coordinator.list_members(&t.operator, &request).await.unwrap().members;
    assert_eq!(shown[0].state(), MemberState::Away);
    t.coordinator.delete_team(&t.operator, "beta").await.unwrap();

    // Once the lead has called, it is at work, and the refusal says that this passes.
    t.coordinator.create_team(&t.operator, &detached()).await.unwrap();
    let (beta, lead) = (Namespace::team(&Name::parse("beta", "name").unwrap()), Name::parse("lead", "name").unwrap());
    t.coordinator.renew(&beta, &[lead]).await.unwrap();
    let call = t.coordinator.delete_team(&t.operator, "beta");
    let refusal = t.refused(call, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    assert!(refusal.message.ends_with("no longer counts once it is away."), "{refusal}");

    // An attached lead has a process, which is on its way.
    t.coordinator.create_team(&t.operator, &create("gamma")).await.unwrap();
    let call = t.coordinator.delete_team(&t.operator, "gamma");
    t.refused(call, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
}

#[tokio::test]
async fn the_operator_appoints_a_lead_while_a_detached_one_is_away() {
    let (mut t, [eve]) = Team::of(["eve"]).await;
    let lead = t.coordinator.join(&t.lead.who, &join_by(true)).await.unwrap();
    t.lead = Member::new("lead", &lead.credential);
    let active = t.try_set_lead(&t.operator, "eve");
    t.refused(active, Code::FailedPrecondition, Reason::LeadActive, "").await;
    t.pass_and_run_due(HOUR, &[&eve]).await;
    t.try_set_lead(&t.operator, "eve").await.unwrap();
    assert_eq!((t.member("eve").await.role(), t.member("lead").await.state()), (Role::Lead, MemberState::Away));
    // It comes back as a teammate.
    let call = t.try_send(&t.lead, shutdown("eve"));
    t.refused(call, Code::PermissionDenied, Reason::LeadOnly, "").await;
}

#[tokio::test]
async fn a_detached_member_that_is_shut_down_exits_soon_without_an_alarm() {
    let (mut t, bob) = with_bob().await;
    t.add_some(1).await;
    let token = t.claim(&bob, 1).await;
    let id = t.ask(&t.lead, shutdown("bob")).await;
    t.send(&bob, approve(&id)).await;
    pass(&mut t, 4 * SECOND).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Stopping);
    t.try_complete(&bob, 1, &token).await.unwrap();
    pass(&mut t, 2 * SECOND).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Exited);
    let notices = t.notices(&t.lead, NoticeKind::MemberExited).await;
    assert_eq!(notices[0].text, "bob approved its shutdown; no process was attached to it.");
    pass(&mut t, HOUR).await;
    assert!(t.notices(&t.lead, NoticeKind::MemberNotExited).await.is_empty());

    t.join_detached("bob").await;
    t.try_force(&t.lead, "bob").await.unwrap();
    pass(&mut t, 6 * SECOND).await;
    assert_eq!(t.member("bob").await.state(), MemberState::Exited);
}
