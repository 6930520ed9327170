//! People, and agents that run commands: members that no process keeps going. And callers that wait.

use teamwire_proto::{
    join_string::JoinString,
    v1::{self, request_service_client::RequestServiceClient},
};
use tokio::runtime::Runtime;

use crate::{
    raw::Raw,
    world::{LEAD, World, eventually},
};

/// The shortest lease that a coordinator takes, and no grace.
const SHORT_LEASE: &str =
    "[limits]\nlease_ttl = \"10s\"\nlost_grace = \"0s\"\n[delivery]\nheartbeat_interval = \"5s\"\n";

/// How long calls wait in these tests: longer than the lease.
const WAIT: prost_types::Duration = prost_types::Duration { seconds: 16, nanos: 0 };

/// Returns the states that the history records of a member.
fn states(world: &World, member: &str) -> Vec<String> {
    let events = world.history(LEAD).into_iter().map(|entry| entry["member"].clone());
    let events = events.filter(|event| event["member"] == member);
    events.map(|event| event["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_person_keeps_a_claimed_task_between_commands_and_the_history_shows_only_work() {
    let world = World::configured(SHORT_LEASE);
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["task", "create", "one"]).succeeds();
    world.cli("ann", &["task", "next"]).succeeds();
    let away = eventually("ann is away", || {
        let member = world.member("ann");
        (member["state"] == "away").then_some(member)
    });
    assert_eq!(away["liveness"], "detached");
    assert!(world.cli(LEAD, &["status"]).succeeds().stdout.contains("away"));
    world.cli(LEAD, &["doctor"]).succeeds();
    world.cli("ann", &["task", "complete", "1", "--result", "done"]).succeeds();
    eventually("ann is active", || (world.member("ann")["state"] == "active").then_some(()));
    assert_eq!(states(&world, "ann"), ["joined"]);
    assert_eq!(states(&world, LEAD), ["joined"]);
    assert!(world.take_inbox(LEAD).is_empty());
}

#[test]
fn a_claim_at_the_command_line_expires_and_the_stale_token_says_when_and_why() {
    let world = World::configured("[limits]\nclaim_ttl = \"2s\"\n");
    world.create_team("acme");
    world.join("ann");
    world.cli(LEAD, &["task", "create", "one"]).succeeds();
    let claim = world.cli("ann", &["task", "next", "--json"]).succeeds().json();
    let token = claim["token"].as_str().unwrap();
    for member in ["ann", LEAD] {
        let notice = world.await_inbox(member, "the notice", |message| message["notice"]["kind"] == "task_lapsed");
        assert!(notice["content"].as_str().unwrap().contains("its claim expired after 2 s"), "{notice}");
    }
    let refused = world.cli("ann", &["task", "complete", "1", "--token", token, "--json"]);
    let error = refused.exits(1).error();
    assert_eq!(error["reason"], "STALE_CLAIM");
    let text = error["message"].as_str().unwrap();
    assert!(text.starts_with("Task 1 went back to the board at 20") && text.contains(": its claim expired"), "{text}");
    // Without a token, too.
    for action in ["complete", "release"] {
        let refused = world.cli("ann", &["task", action, "1"]).exits(1).complains_of("STALE_CLAIM");
        refused.complains_of("Task 1 went back to the board at 20").complains_of(": its claim expired after 2 s");
    }
    world.cli(LEAD, &["task", "claim", "1"]).succeeds();
    let refused = world.cli("ann", &["task", "complete", "1"]).exits(1).complains_of("TASK_CLAIMED");
    refused.complains_of(": its claim expired after 2 s. Task 1 is in progress with lead");
    let shown = world.cli("ann", &["task", "show", "1"]).succeeds().stdout;
    assert!(shown.contains("back on the board") && shown.contains(": its claim expired after 2 s"), "{shown}");
}

#[test]
fn a_member_that_only_waits_for_a_reply_is_alive() {
    let world = World::configured(SHORT_LEASE);
    world.create_team("acme");
    Runtime::new().unwrap().block_on(async {
        let (ann, bob) = (attached(&world, "ann").await, attached(&world, "bob").await);
        let asked = world.cli(LEAD, &["shutdown", "ann", "--json"]).succeeds().json();
        let request_id = asked["request_id"].as_str().unwrap().to_owned();
        let decision = async {
            let request = v1::WaitForDecisionRequest { request_id, timeout: Some(WAIT), ..Default::default() };
            let mut requests = RequestServiceClient::new(ann.channel.clone());
            requests.wait_for_decision(ann.request(request)).await.unwrap().into_inner().request.unwrap()
        };
        let claim = async {
            let request = v1::ClaimNextTaskRequest { wait: Some(WAIT), ..Default::default() };
            let mut tasks = bob.tasks();
            tasks.claim_next_task(bob.request(request)).await.unwrap().into_inner().claim
        };
        let (decision, claim) = tokio::join!(decision, claim);
        assert_eq!((decision.state(), claim), (v1::RequestState::Pending, None));
    });
    for member in ["ann", "bob"] {
        assert_eq!(states(&world, member), ["joined"], "{member}");
        let state = world.member(member)["state"].clone();
        assert_ne!(state, "lost", "{member}");
    }
}

/// Joins as a program does that speaks the protocol. Returns the new member's calls.
async fn attached(world: &World, name: &str) -> Raw {
    let token = JoinString::parse(&world.invite(name)).unwrap().token().reveal();
    let joins = Raw::at(&world.coordinator.address(), &token);
    let joined = joins.teams().join(joins.request(v1::JoinRequest::default())).await.unwrap().into_inner();
    assert_eq!(joined.member.unwrap().liveness(), v1::Liveness::Attached);
    Raw { channel: joins.channel, credential: Some(joined.credential) }
}
