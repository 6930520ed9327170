//! Shutdowns: refused by the model, then approved.

use teamwire_scripted_model::Rule;

use crate::{
    program::Can,
    setup::{Setup, approval, assert_gone, family, refusal},
    world::{LEAD, is_alive},
};

scenarios! {
    a_shutdown_is_refused_with_a_reason_and_when_approved_leaves_nothing,
    an_agent_that_ignores_a_shutdown_request_is_reminded_of_it,
}

fn a_shutdown_is_refused_with_a_reason_and_when_approved_leaves_nothing(setup: Setup) {
    setup.model.add(refusal());
    setup.model.add(approval());
    let backend = setup.backend(&[]);
    let family = family(&backend);
    // The input that the text shows has "why" as its reason.
    let refused = setup.world.cli(LEAD, &["shutdown", "backend", "are you done?", "--wait"]).exits(3);
    refused.complains_of("why");
    assert!(is_alive(backend.program()), "a refused shutdown has ended the program");

    let ended = setup.world.cli(LEAD, &["shutdown", "backend", "and now?", "--wait"]).succeeds();
    let (how, action) = match setup.program.can(Can::EndWithItsInput) {
        true => ("approved its shutdown and ended with code 0", "none"),
        false => ("approved its shutdown; its runner ended it with SIGTERM (exit code 0)", "sigterm"),
    };
    assert!(ended.stdout.contains(&format!("backend exited: {how}")), "{}", ended.stdout);
    assert_gone(&family);
    let exit = &setup.world.member("backend")["exit"];
    assert_eq!((&exit["code"], &exit["runner_action"]), (&0.into(), &action.into()), "{exit}");
    let history = setup.world.history(LEAD);
    let is_notified = history.iter().any(|entry| {
        entry["message"]["notice"]["kind"] == "member_exited"
            && entry["message"]["content"] == format!("backend {how}.")
    });
    assert!(is_notified, "the lead has no notice of the exit");
    assert_eq!(backend.exit(), 0);
}

fn an_agent_that_ignores_a_shutdown_request_is_reminded_of_it(setup: Setup) {
    setup.model.add(Rule::when("asks you to shut down").says("All right. Goodbye."));
    let answer =
        "You have not answered(?s:.*)To approve, call SendMessage with (\\{\"type\":\"shutdown_response\".*\\})";
    setup.model.add(Rule::when(answer).calls("SendMessage", "$1"));
    let backend = setup.backend(&[]);
    let ended = setup.world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert!(ended.stdout.contains("approved its shutdown"), "{}", ended.stdout);
    assert_eq!(backend.log().matches("reminded of shutdown request").count(), 1, "{}", backend.log());
    assert_eq!(backend.exit(), 0);
}
