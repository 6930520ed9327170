//! Outages: of the model's API, and of the coordinator.

use serde_json::{Value, json};
use teamwire_scripted_model::{Request, Rule};

use crate::{
    program::Can,
    setup::{Setup, approval},
    world::{LEAD, eventually},
};

scenarios! {
    a_turn_outlasts_an_outage_of_the_model,
    a_turn_outlasts_the_coordinator,
    a_session_that_the_model_refuses_for_good_is_replaced_by_a_new_one,
    a_message_that_every_session_fails_on_becomes_a_dead_letter,
}

fn a_turn_outlasts_an_outage_of_the_model(setup: Setup) {
    let reply = json!({"to": "team-lead", "message": "At last.", "summary": "done"});
    setup.model.add(Rule::when("Are you there").calls("SendMessage", reply));
    let backend = setup.backend(&[]);
    setup.model.fail(503);
    setup.send("Are you there?");
    let attempts = |requests: &[Request]| {
        let attempts = requests.iter().filter(|request| request.text.contains("Are you there?")).count();
        (attempts > 1).then_some(())
    };
    setup.model.await_requests("again", attempts);
    assert_ne!(setup.receipt("Are you there?"), "processed", "a failed turn acknowledges its message");
    setup.model.recover();
    setup.await_receipt("Are you there?", "processed");
    let history = setup.world.history("lead");
    let replies = history.iter().filter(|entry| entry["message"]["content"] == "At last.").count();
    assert_eq!(replies, 1);
    setup.shut_down(backend);
}

fn a_turn_outlasts_the_coordinator(mut setup: Setup) {
    setup.on_shell("start now", "touch running; until [ -e go ]; do sleep 0.05; done; echo finished");
    let reply = json!({"to": "team-lead", "message": "Finished.", "summary": "finished"});
    setup.model.add(Rule::when("finished").calls("SendMessage", reply));
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("start now");
    setup.await_file("running");
    let program = backend.program();
    setup.world.coordinator.kill();
    setup.create("go");
    // The model has replied with the call, which now waits for the coordinator.
    setup.model.await_request("finished");
    setup.world.coordinator.restart();
    setup.world.await_inbox("lead", "the reply", |message| message["content"] == "Finished.");
    setup.await_receipt("start now", "processed");
    assert_eq!(backend.program(), program, "the program was restarted");
    setup.shut_down(backend);
}

fn a_session_that_the_model_refuses_for_good_is_replaced_by_a_new_one(setup: Setup) {
    if !setup.program.can(Can::FailTurns) {
        return;
    }
    let backend = setup.backend(&[]);
    setup.send("Remember this.");
    setup.await_receipt("Remember this.", "processed");
    let program = backend.program();
    setup.model.fail(400);
    setup.send("Are you there?");
    let notice =
        setup.world.await_inbox(LEAD, "the notice", |message: &Value| message["notice"]["kind"] == "work_failed");
    assert!(notice["content"].as_str().unwrap().contains("begins a new session"), "{notice}");
    setup.model.recover();
    setup.await_receipt("Are you there?", "processed");
    assert_ne!(backend.program(), program);
    let asked = |requests: &[Request]| requests.iter().rfind(|it| it.text.contains("Are you there?")).cloned();
    let last = setup.model.await_requests("the new session", asked);
    assert!(!last.text.contains("Remember this."), "the session is the one that was refused: {}", last.text);
    setup.shut_down(backend);
}

fn a_message_that_every_session_fails_on_becomes_a_dead_letter(setup: Setup) {
    if setup.program.can(Can::CompactRefusedSessions) || !setup.program.can(Can::FailTurns) {
        return;
    }
    // Ahead of the rule that fails: a failed turn stays in the session, so the model reads both.
    setup.model.add(approval());
    setup.model.add(Rule::when("a poisoned message").fails(400).always());
    let backend = setup.backend(&[]);
    setup.send("a poisoned message");
    let notice =
        setup.world.await_inbox(LEAD, "the notice", |message: &Value| message["notice"]["kind"] == "work_failed");
    let history = setup.world.history(LEAD);
    let sent = history.iter().find(|entry| entry["message"]["content"] == "a poisoned message").unwrap();
    assert_eq!(notice["notice"]["message_id"], sent["message"]["id"], "{notice}");
    assert_eq!(notice["notice"]["member"], "backend");
    let text = notice["content"].as_str().unwrap();
    let id = sent["message"]["id"].as_str().unwrap();
    let begins = format!("backend's program failed 3 times on message {id} (");
    assert!(text.starts_with(&begins) && text.lines().count() == 1, "{text}");
    let error = text[begins.len()..].split("). Its runner").next().unwrap();
    let is_said = ["400", "the script says so", "too long"].iter().any(|said| error.contains(said));
    assert!(is_said, "the notice does not say what failed: {text}");
    // Five sessions fail, and the sixth has nothing to do.
    eventually("the third session", || (backend.log().matches("started process").count() >= 3).then_some(()));
    setup.await_receipt("a poisoned message", "dead_lettered");
    setup.shut_down(backend);
}
