//! Plans: rejected with feedback, then approved.

use regex::Regex;
use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    setup::{BACKEND, Setup},
    world::LEAD,
};

scenarios! {
    a_plan_is_rejected_with_feedback_and_the_next_one_is_approved,
}

fn a_plan_is_rejected_with_feedback_and_the_next_one_is_approved(setup: Setup) {
    setup.model.add(Rule::when("Make a plan").calls("SubmitPlan", json!({"plan": "1. Do it."})));
    let better = json!({"plan": "1. Think. 2. Do it."});
    setup.model.add(Rule::when("rejected your plan(?s:.*)Think first").calls("SubmitPlan", better));
    setup.model.add(Rule::when("approved your plan").says("I begin."));
    let backend = setup.backend(&[]);
    setup.send("Make a plan.");
    setup.world.cli(LEAD, &["reject", &await_plan(&setup, "1. Do it."), "--reason", "Think first."]).succeeds();
    setup.world.cli(LEAD, &["approve", &await_plan(&setup, "1. Think. 2. Do it.")]).succeeds();
    setup.model.await_request("approved your plan");
    setup.shut_down(backend);
}

/// Claude Code writes its plan into a file, and leaves its plan mode with a tool that submits the file.
#[test]
fn claude_leaves_its_plan_mode_once_the_lead_has_approved_its_plan() {
    let Some(setup) = Setup::with("claude") else { return };
    let invitation = setup.world.cli(LEAD, &["invite", BACKEND, "--plan"]).succeeds().stdout;
    let backend = setup.run_again(BACKEND, setup.program, &["--join", invitation.trim(), "--permissions", "allow"]);
    let write = |plan: &str| json!({"file_path": "$1", "content": plan});
    setup.model.add(Rule::when("(?s)Make a plan.*?(/[^\\s`]+/plans/[^\\s`]+\\.md)").calls("Write", write("1. Do it.")));
    setup.model.add(Rule::when("created successfully").calls("ExitPlanMode", json!({})));
    setup.send("Make a plan.");
    let rejected = await_plan(&setup, "1. Do it.");
    let path = Regex::new("/[^\\s`]+/plans/[^\\s`]+\\.md").unwrap();
    let shown = setup.model.await_request("Make a plan").text;
    let again = json!({"file_path": path.find(&shown).unwrap().as_str(), "content": "1. Think. 2. Do it."});
    setup.model.add(Rule::when("Think first").calls("Write", again));
    setup.model.add(Rule::when("updated successfully").calls("ExitPlanMode", json!({})));
    setup.on_shell("(?i)approved your plan", "touch begun");
    setup.world.cli(LEAD, &["reject", &rejected, "--reason", "Think first."]).succeeds();
    setup.world.cli(LEAD, &["approve", &await_plan(&setup, "1. Think. 2. Do it.")]).succeeds();
    setup.await_receipt("Make a plan.", "processed");
    setup.await_file("begun");
    setup.shut_down(backend);
}

/// Waits until the lead is asked to approve a plan. Returns the id of the request.
#[track_caller]
fn await_plan(setup: &Setup, plan: &str) -> String {
    let is_it = |message: &Value| message["type"] == "plan_approval_request" && message["content"] == plan;
    let asked = setup.world.await_inbox(LEAD, plan, is_it);
    asked["request_id"].as_str().unwrap().to_owned()
}
