//! Creating and deleting teams.

use std::{collections::HashMap, iter, sync::Arc, time::Duration};

use teamwire_proto::{
    Reason,
    v1::{self, Activity},
};
use teamwire_server::store::{Namespace, Store, embedded::EmbeddedStore};
use tonic::Code;

use crate::{
    calls::RuleCalls as _,
    counting::{Counting, counted},
    team::*,
};

#[tokio::test]
async fn only_the_operator_creates_a_team_and_the_reply_makes_the_caller_its_lead() {
    let t = Team::new().await;
    let request = v1::CreateTeamRequest { lead_name: "Chief".to_owned(), ..create("Beta") };
    let reply = t.coordinator.create_team(&t.operator, &request).await.unwrap();
    let (team, lead) = (reply.team.unwrap(), reply.lead.unwrap());
    assert_eq!((team.name.as_str(), team.lead.as_str(), team.members), ("Beta", "Chief", 1));
    assert_eq!((lead.role(), lead.incarnation), (v1::Role::Lead, 1));
    let chief = Member::new("Chief", &reply.credential);
    t.coordinator.invite(&chief.who, &v1::InviteRequest::default()).await.unwrap();
}

#[tokio::test]
async fn creating_a_team_with_invalid_fields_or_a_taken_name_is_refused() {
    let t = Team::new().await;
    let bad = Code::InvalidArgument;
    let call = |request: v1::CreateTeamRequest| {
        let (coordinator, operator) = (t.coordinator.clone(), t.operator.clone());
        async move { coordinator.create_team(&operator, &request).await }
    };
    for name in ["", "a b", ".a", &"x".repeat(64)] {
        t.refused(call(create(name)), bad, Reason::InvalidName, "name").await;
    }
    let lead_name = "operator".to_owned();
    t.refused(call(v1::CreateTeamRequest { lead_name, ..create("b") }), bad, Reason::InvalidName, "lead_name").await;
    let lead_name = "Team-Lead".to_owned();
    let called = call(v1::CreateTeamRequest { lead_name, ..create("b") });
    let refusal = t.refused(called, bad, Reason::InvalidName, "lead_name").await;
    assert!(refusal.message.contains("always addresses the team's lead"), "{refusal}");
    let request = v1::CreateTeamRequest { lead_liveness: 9, ..create("b") };
    t.refused(call(request), bad, Reason::InvalidField, "lead_liveness").await;
    let description = "x".repeat(1_001);
    let long = v1::CreateTeamRequest { description, ..create("b") };
    t.refused(call(long), bad, Reason::InvalidField, "description").await;
    t.refused(call(create("ALPHA")), Code::AlreadyExists, Reason::TeamExists, "name").await;
    let all = t.coordinator.list_teams(&t.operator, &Default::default()).await.unwrap();
    assert_eq!(all.teams.len(), 1, "it created no team");
}

#[tokio::test]
async fn the_workers_list_any_number_of_teams_with_one_read() {
    let store: Arc<dyn Store> = Arc::new(Counting(EmbeddedStore::in_memory().unwrap()));
    let t = Team::on(store, |_| {}).await;
    let names: Vec<String> = (0..1_100).map(|n| format!("t{n:04}")).collect();
    for name in &names {
        t.coordinator.create_team(&t.operator, &create(name)).await.unwrap();
    }
    let (listed, trips) = counted(t.coordinator.all_namespaces()).await;
    let listed: Vec<Namespace> = listed.unwrap();
    let listed: Vec<&str> = listed.iter().map(Namespace::as_str).collect();
    assert_eq!(listed, iter::once("alpha").chain(names.iter().map(String::as_str)).collect::<Vec<_>>());
    assert_eq!(trips, 1);
}

#[tokio::test]
async fn a_deleted_team_leaves_nothing_behind_and_a_new_one_of_its_name_starts_empty() {
    let (t, [bob]) = Team::of(["bob"]).await;
    t.send(&bob, keyed("k", message("lead", "x"))).await;
    t.send(&t.lead, message("bob", "y")).await;
    let token = presented(&t.invite("").await);
    t.leave(&bob).await;
    let before = t.coordinator.get_team(&t.lead.who, "").await.unwrap();
    t.try_delete(&t.lead).await.unwrap();
    assert!(t.is_gone(&["lead", "bob"]).await);
    let all = t.coordinator.list_teams(&t.operator, &Default::default()).await.unwrap();
    assert!(all.teams.is_empty());
    let unknown = (Code::Unauthenticated, Reason::CredentialInvalid);
    t.refused(t.try_send(&t.lead, message("bob", "x")), unknown.0, unknown.1, "").await;
    let join = v1::JoinRequest { name: "eve".to_owned(), ..Default::default() };
    t.refused(t.try_join(&token, join), unknown.0, unknown.1, "").await;
    t.refused(t.try_delete(&t.operator), Code::NotFound, Reason::TeamNotFound, "team").await;

    let after = t.coordinator.create_team(&t.operator, &create("alpha")).await.unwrap();
    let team = after.team.unwrap();
    assert_ne!(team.id, before.id);
    assert_eq!(team.members, 1);
    let lead = Member::new("lead", &after.credential);
    assert!(t.inbox(&lead).await.is_empty());
    assert_eq!(t.history().await.len(), 2, "its creation, and its lead");
    // The credentials of the old team are not those of the new one.
    for old in [&t.lead, &bob] {
        t.refused(t.try_send(old, message("lead", "x")), unknown.0, unknown.1, "").await;
    }
}

#[tokio::test]
async fn another_coordinator_does_not_recreate_a_deleted_team() {
    let (t, [bob]) = Team::of(["bob"]).await;
    let other = t.another_coordinator().await;
    other.send(&bob.who, &message("lead", "x")).await.unwrap();
    t.leave(&bob).await;
    t.try_delete(&t.lead).await.unwrap();
    let request = message("bob", "x");
    let late = other.send(&t.lead.who, &request);
    t.refused(late, Code::Unauthenticated, Reason::CredentialInvalid, "").await;
    assert!(t.is_gone(&["lead", "bob"]).await);
}

#[tokio::test]
async fn a_repeated_creation_returns_the_same_credential() {
    let t = Team::new().await;
    let request = |model: &str| {
        let labels: HashMap<_, _> = (0..8).map(|n| (format!("k{n}"), n.to_string())).collect();
        let told = v1::MemberAttributes { model: model.to_owned(), labels, ..Default::default() };
        let idempotency_key = "k".to_owned();
        v1::CreateTeamRequest { lead_attributes: Some(told), idempotency_key, ..create("beta") }
    };
    let first = t.coordinator.create_team(&t.operator, &request("m")).await.unwrap();
    for coordinator in [&t.coordinator, &t.another_coordinator().await] {
        for _ in 0..4 {
            assert_eq!(coordinator.create_team(&t.operator, &request("m")).await.unwrap(), first);
        }
    }
    let changed = request("n");
    let other = t.coordinator.create_team(&t.operator, &changed);
    t.refused(other, Code::AlreadyExists, Reason::IdempotencyKeyReused, "idempotency_key").await;
}

#[tokio::test]
async fn a_refused_deletion_names_some_of_many_live_members_and_counts_the_rest() {
    let t = Team::new().await;
    for number in 0..20 {
        t.join(&format!("member-{number}")).await;
    }
    let call = t.try_delete(&t.lead);
    let refusal = t.refused(call, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    assert_eq!(refusal.metadata.len(), 12);
    assert!(refusal.message.contains(" and 8 more. Ask"), "{refusal}");
}

#[tokio::test]
async fn a_team_with_live_members_is_not_deleted_and_the_refusal_names_each_with_its_state() {
    let (mut t, [a, b, c, d, e, f]) = Team::of(["A", "b", "c", "d", "e", "f"]).await;
    t.heartbeat(&b, Activity::Active, "").await;
    t.heartbeat(&c, Activity::Idle, "").await;
    let id = t.ask(&t.lead, shutdown("d")).await;
    t.send(&d, approve(&id)).await;
    t.leave(&e).await;
    t.pass_and_run_due(Duration::from_secs(46), &[&t.lead.clone(), &a, &b, &c, &d]).await;
    assert_eq!(t.member("f").await.state(), v1::MemberState::Lost);

    let refusal = t.try_delete(&t.lead);
    let refusal = t.refused(refusal, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    let named: Vec<_> = refusal.metadata.iter().map(|(name, state)| (name.as_str(), state.as_str())).collect();
    assert_eq!(named, [("A", "joined"), ("b", "active"), ("c", "idle"), ("d", "stopping")]);
    for text in ["A (joined)", "b (active)", "c (idle)", "d (stopping)"] {
        assert!(refusal.message.contains(text), "{refusal}");
    }
    let by_operator = t.try_delete(&t.operator);
    let refusal = t.refused(by_operator, Code::FailedPrecondition, Reason::TeamHasActiveMembers, "").await;
    assert!(refusal.metadata.contains_key("lead"), "the operator is not a member");
    let _ = f;
}
