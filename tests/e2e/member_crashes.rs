//! Members whose process dies.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_successor_never_sees_its_predecessors_shutdown_request_and_the_requester_gets_a_notice,
    a_program_that_dies_is_started_again_in_a_new_life,
}

store_scenarios! {
    a_message_that_a_dead_teammate_has_not_acknowledged_comes_again_to_its_successor,
}

fn a_message_that_a_dead_teammate_has_not_acknowledged_comes_again_to_its_successor(world: World) {
    world.create_team("acme");
    let first = world.run("backend", &[], agents::SILENT).ready();
    world.cli(LEAD, &["send", "backend", "the schema is ready"]).succeeds();
    assert_eq!(first.await_text("the schema is ready")["delivery_count"], 1);
    first.kill();

    let second = world.run_again("backend", &[], agents::WILLING).ready();
    let again = second.await_heard("the message again", |line| line["delivery_count"] == 2);
    assert_eq!(again["content"], "the schema is ready");
    eventually("the message is processed", || (world.member("backend")["inbox_depth"].is_null()).then_some(()));
    let both: Vec<_> = second.heard().into_iter().filter(|line| line["content"] == "the schema is ready").collect();
    assert_eq!(both.len(), 2);
    assert_eq!(both[0]["id"], both[1]["id"]);
    assert_eq!(world.member("backend")["incarnation"], 2);
}

fn a_successor_never_sees_its_predecessors_shutdown_request_and_the_requester_gets_a_notice(world: World) {
    world.create_team("acme");
    let first = world.run("backend", &[], agents::SILENT).ready();
    let asked = world.cli(LEAD, &["shutdown", "backend", "please", "--json"]).succeeds().json();
    let request_id = asked["request_id"].as_str().unwrap();
    first.await_heard("the request", |line| line["request_id"] == request_id);
    first.kill();

    let second = world.run_again("backend", &[], agents::WILLING).ready();
    world.cli(LEAD, &["send", "backend", "good morning"]).succeeds();
    second.await_text("good morning");
    let seen = second.heard().iter().filter(|line| line["type"] == "shutdown_request").count();
    assert_eq!(seen, 1, "the second life was shown a request to the first");
    let request = world.cli(LEAD, &["requests", request_id, "--json"]).succeeds().json();
    assert_eq!(request["state"], "cancelled");
    assert_eq!(request["cancel_cause"], "target_replaced");
    let is_notice = |message: &Value| {
        message["notice"]["kind"] == "request_cancelled" && message["notice"]["request_id"] == request_id
    };
    assert!(
        world.history(LEAD).iter().any(|entry| is_notice(&entry["message"])),
        "the notice of the cancelled request"
    );
    world.cli(LEAD, &["requests", request_id, "--wait"]).exits(4);
    assert!(!world.take_inbox(LEAD).iter().any(is_notice), "the command has shown it");
    // A new question is a new request, and reaches the new life.
    world.cli(LEAD, &["shutdown", "backend", "and you?", "--wait"]).succeeds();
    assert_eq!(second.exit(), 0);
}

fn a_program_that_dies_is_started_again_in_a_new_life(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &["--restart", "on-failure"], agents::WILLING).ready();
    backend.await_heard("the first welcome", |line| line["type"] == "welcome");
    let first = backend.program();
    crate::world::signal(first, Signal::SIGKILL);
    let second = eventually("another program", || Some(backend.program()).filter(|pid| *pid != first));
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
    assert_eq!(backend.program(), second);
    let welcomes: Vec<Value> = backend.heard().into_iter().filter(|line| line["type"] == "welcome").collect();
    let lives: Vec<_> = welcomes.iter().map(|welcome| welcome["incarnation"].as_u64()).collect();
    assert_eq!(lives, [Some(1), Some(2)]);
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}
