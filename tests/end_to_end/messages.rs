//! Messages, from one hand to the other.

use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

scenarios! {
    a_repeated_send_is_carried_out_once,
    a_team_on_separate_machines_talks_in_order_and_once,
}

/// Returns the contents of the texts among messages.
fn texts(messages: &[Value]) -> Vec<String> {
    let is_text = |message: &&Value| message["type"] == "message" || message["type"] == "broadcast";
    messages.iter().filter(is_text).map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn a_team_on_separate_machines_talks_in_order_and_once(world: World) {
    world.create_team("acme");
    let ann = world.run("ann", &[], agents::WILLING).ready();
    let bob = world.run("bob", &[], agents::WILLING).ready();
    world.join("cyd");

    let mut said = Vec::new();
    for number in 1..=3 {
        let content = format!("step {number}");
        world.cli(LEAD, &["send", "ann", &content]).succeeds();
        said.push(content);
    }
    world.cli(LEAD, &["send", "--broadcast", "stop the line"]).succeeds();
    world.cli("cyd", &["send", "ann", "hello from cyd", "-s", "greeting"]).succeeds();
    world.cli(LEAD, &["send", "ann", "the end"]).succeeds();
    let answered = world.cli(LEAD, &["send", "bob", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.lines().last().unwrap()["content"], "pong");
    let plan = world.cli("cyd", &["plan", "submit", "1. look 2. mend", "--json"]).succeeds().json();
    let request = plan["request_id"].as_str().unwrap();
    world.await_inbox(LEAD, "the plan", |message| message["request_id"] == request);
    world.cli(LEAD, &["plan", "approve", request, "-m", "go ahead"]).succeeds();

    ann.await_text("the end");
    let inbox = world.take_inbox("cyd");
    assert_eq!(texts(&inbox), ["stop the line"]);
    assert_eq!((&inbox[1]["type"], &inbox[1]["approve"]), (&"plan_approval_response".into(), &true.into()));
    said.extend(["stop the line", "hello from cyd", "the end"].map(ToOwned::to_owned));
    assert_eq!(texts(&ann.heard()), said);
    assert_eq!(texts(&bob.heard()), ["stop the line", "ping"]);

    let history = eventually("everything is processed", || {
        world.take_inbox(LEAD);
        let history = world.history(LEAD);
        let mut receipts = history.iter().filter_map(|entry| entry["receipts"].as_array()).flatten();
        receipts.all(|receipt| receipt["state"] == "RECEIPT_STATE_PROCESSED").then_some(history)
    });
    let messages: Vec<_> = history.iter().filter(|entry| !entry["message"].is_null()).collect();
    assert!(messages.iter().all(|entry| entry["receipts"].as_array().is_some_and(|all| !all.is_empty())));
    let broadcast = messages.iter().find(|entry| entry["message"]["type"] == "broadcast").unwrap();
    assert_eq!(broadcast["receipts"].as_array().unwrap().len(), 3);
    for kind in ["plan_approval_request", "plan_approval_response"] {
        assert_eq!(messages.iter().filter(|entry| entry["message"]["type"] == kind).count(), 1, "{kind}");
    }
    let sequences: Vec<_> = history.iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
}

fn a_repeated_send_is_carried_out_once(world: World) {
    world.create_team("acme");
    world.join("ann");
    let send = |text: &str| world.cli("ann", &["send", "team-lead", text, "--idempotency-key", "key-1", "--json"]);
    let first = send("the schema is ready").succeeds().json();
    let second = send("the schema is ready").succeeds().json();
    assert_eq!((&second["message_id"], &second["replayed"]), (&first["message_id"], &true.into()));
    assert!(first["replayed"].is_null() || first["replayed"] == false);
    let error = send("something else").exits(1).error();
    assert_eq!(error["reason"], "IDEMPOTENCY_KEY_REUSED");
    let sent = |world: &World| world.history(LEAD).iter().filter(|entry| entry["message"]["from"] == "ann").count();
    assert_eq!(sent(&world), 1);
    assert_eq!(texts(&world.take_inbox(LEAD)), ["the schema is ready"]);
    // The same key of another member is another key.
    world.join("bob");
    world.cli("bob", &["send", "team-lead", "and mine", "--idempotency-key", "key-1"]).succeeds();
    assert_eq!(texts(&world.take_inbox(LEAD)), ["and mine"]);
}
