//! Budgets: a member that has used its own up is paused, asks once, and goes on when there is more.

use serde_json::Value;
use teamwire_scripted_model::Rule;

use crate::{
    program::Can,
    setup::{BACKEND, Setup},
    world::{LEAD, eventually},
};

scenarios! {
    a_member_stops_at_its_budget_and_goes_on_when_it_is_raised,
    a_paused_member_can_be_shut_down,
    a_budget_in_us_dollars_holds_for_programs_that_report_only_tokens,
}

/// Returns the requests for more budget that the lead was sent, the oldest first.
fn asked(setup: &Setup) -> Vec<Value> {
    let messages = setup.world.history(LEAD).into_iter().map(|entry| entry["message"].clone());
    messages.filter(|message| message["type"] == "permission_request" && message["tool"] == "budget").collect()
}

fn budget(setup: &Setup, options: &[&str]) {
    setup.world.cli(LEAD, &[&["budget", BACKEND], options].concat()).succeeds();
}

/// Has the backend use up a budget, and returns the request for more.
fn use_up(setup: &Setup) -> String {
    setup.on_shell("build it", "echo one");
    setup.send("build it");
    eventually("the lead is asked", || asked(setup).first().cloned())["request_id"].as_str().unwrap().to_owned()
}

fn a_member_stops_at_its_budget_and_goes_on_when_it_is_raised(setup: Setup) {
    if !setup.program.can(Can::ReportTokens) {
        return;
    }
    setup.model.add(Rule::when("one").says("Built."));
    let backend = setup.backend(&["--permissions", "allow"]);
    budget(&setup, &["--set", "5 tokens"]);
    let request = use_up(&setup);
    eventually("it is paused", || setup.trouble().starts_with("paused: ").then_some(()));
    let calls = setup.model.requests().len();
    setup.send("and the docs");
    let summary = asked(&setup)[0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.starts_with("the budget of 5 tokens used up: "), "{summary}");
    assert!(setup.world.cli(LEAD, &["budget"]).succeeds().stdout.contains("5 tokens"));
    assert_eq!(setup.model.requests().len(), calls, "the program went on");
    assert_eq!(setup.receipt("and the docs"), "delivered");
    setup.world.cli(LEAD, &["approve", &request, "--add", "1M tokens"]).succeeds();
    setup.await_receipt("and the docs", "processed");
    setup.await_receipt("build it", "processed");
    eventually("it is no longer paused", || setup.trouble().is_empty().then_some(()));
    assert_eq!(asked(&setup).len(), 1);
    assert!(setup.world.cli(LEAD, &["budget"]).succeeds().stdout.contains("1,000,005 tokens"));
    setup.shut_down(backend);
}

fn a_paused_member_can_be_shut_down(setup: Setup) {
    if !setup.program.can(Can::ReportTokens) {
        return;
    }
    let backend = setup.backend(&["--permissions", "allow"]);
    budget(&setup, &["--set", "5 tokens"]);
    let request = use_up(&setup);
    setup.world.cli(LEAD, &["reject", &request, "--reason", "Enough."]).succeeds();
    setup.world.cli(LEAD, &["shutdown", BACKEND, "done", "--wait"]).succeeds();
    assert_eq!(backend.exit(), 0);
}

fn a_budget_in_us_dollars_holds_for_programs_that_report_only_tokens(setup: Setup) {
    if !setup.program.can(Can::ReportTokens) {
        return;
    }
    setup.model.add(Rule::when("one").says("Built."));
    let backend = setup.backend(&["--permissions", "allow"]);
    budget(&setup, &["--set", "0.00001 USD"]);
    let request = use_up(&setup);
    eventually("it is paused", || setup.trouble().starts_with("paused: ").then_some(()));
    assert!(setup.trouble().contains("0.00001 USD"), "{}", setup.trouble());
    let calls = setup.model.requests().len();
    setup.send("and the docs");
    setup.await_receipt("and the docs", "delivered");
    assert_eq!(setup.model.requests().len(), calls, "the program went on");
    setup.world.cli(LEAD, &["approve", &request, "--add", "1 USD"]).succeeds();
    setup.await_receipt("and the docs", "processed");
    setup.await_receipt("build it", "processed");
    assert_eq!(asked(&setup).len(), 1);
    setup.shut_down(backend);
}
