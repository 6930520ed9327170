//! Reports: what an agent writes at the end of a turn and sends to no one.

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    setup::{BACKEND, Setup},
    world::{LEAD, eventually},
};

scenarios! {
    a_report_that_no_one_was_sent_reaches_the_lead,
    an_agent_that_sends_its_report_when_reminded_is_not_repeated,
    a_teammate_gets_a_text_only_if_it_waits_for_a_reply,
}

/// What the model sees when it is reminded.
const REMINDER: &str = "Your last turn sent nothing";

fn report() -> String {
    (1..=40).map(|line| format!("Line {line} of the report.\n")).collect()
}

/// Returns the contents of the messages that the backend has sent, the oldest first.
fn sent(setup: &Setup) -> Vec<Value> {
    let messages = setup.world.history(LEAD).into_iter().map(|entry| entry["message"].clone());
    messages.filter(|message| message["from"] == BACKEND).collect()
}

fn a_report_that_no_one_was_sent_reaches_the_lead(setup: Setup) {
    let report = report();
    setup.model.add(Rule::when("Review the API").says(&report));
    setup.model.add(Rule::when(REMINDER).says("I have nothing to add."));
    let backend = setup.backend(&["--permissions", "allow"]);
    let reply = setup.ask("Review the API.");
    let content = reply["content"].as_str().unwrap();
    assert!(content.starts_with(report.trim()) && content.contains("nothing to add"), "{content}");
    assert_eq!(reply["automatic"], true);
    eventually("the last turn is the one with the reminder", || {
        setup.world.cli(LEAD, &["last", BACKEND]).succeeds().stdout.contains("I have nothing to add.").then_some(())
    });
    assert_eq!(sent(&setup).len(), 1);
    setup.shut_down(backend);
}

fn an_agent_that_sends_its_report_when_reminded_is_not_repeated(setup: Setup) {
    setup.model.add(Rule::when("Review the API").says("All is well."));
    let message = json!({"to": "team-lead", "message": "All is well.", "summary": "the review"});
    setup.model.add(Rule::when(REMINDER).calls("SendMessage", message));
    let backend = setup.backend(&[]);
    setup.send("Review the API.");
    eventually("the report was sent", || (sent(&setup).len() == 1).then_some(()));
    // A further message is answered by the agent, and the runner sends nothing meanwhile.
    let message = json!({"to": "team-lead", "message": "Yes.", "summary": "an answer"});
    setup.model.add(Rule::when("Are you there").calls("SendMessage", message));
    assert_eq!(setup.ask("Are you there?")["content"], "Yes.");
    assert!(sent(&setup).iter().all(|message| message["automatic"].is_null()), "{:?}", sent(&setup));
    setup.shut_down(backend);
}

fn a_teammate_gets_a_text_only_if_it_waits_for_a_reply(setup: Setup) {
    let is_secret = |message: &Value| message["content"].as_str().is_some_and(|text| text.starts_with("A secret."));
    setup.world.join("ann");
    setup.model.add(Rule::when("Tell me").says("A secret.").always());
    setup.model.add(Rule::when(REMINDER).says("Nothing.").always());
    let backend = setup.backend(&[]);
    setup.world.cli("ann", &["send", BACKEND, "Tell me."]).succeeds();
    eventually("the lead has the text", || {
        sent(&setup).iter().any(|message| message["to"] == LEAD && is_secret(message)).then_some(())
    });
    assert_eq!(setup.world.take_inbox("ann").len(), 0, "she did not wait");
    setup.world.cli("ann", &["last", BACKEND]).exits(77);
    let asked = ["send", BACKEND, "Tell me again.", "--wait-reply", "60", "--json"];
    let reply = setup.world.cli("ann", &asked).succeeds().json()["reply"].clone();
    assert!(is_secret(&reply) && reply["automatic"] == true, "{reply}");
    setup.shut_down(backend);
}
