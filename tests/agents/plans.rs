//! Plans: rejected with feedback, then approved.

use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    setup::Setup,
    world::{LEAD, eventually},
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
    let plan = |text: &str| -> String {
        let is_it = |message: &Value| message["type"] == "plan_approval_request" && message["content"] == text;
        let asked = eventually(text, || setup.world.take_inbox(LEAD).into_iter().find(is_it));
        asked["request_id"].as_str().unwrap().to_owned()
    };
    setup.world.cli(LEAD, &["reject", &plan("1. Do it."), "--reason", "Think first."]).succeeds();
    setup.world.cli(LEAD, &["approve", &plan("1. Think. 2. Do it.")]).succeeds();
    setup.model.await_request("approved your plan");
    setup.shut_down(backend);
}
