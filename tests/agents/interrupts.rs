//! The lead ends a turn and says what to do instead.

use teamwire_scripted_model::Rule;

use crate::{
    setup::{BACKEND, Setup},
    world::{LEAD, eventually},
};

scenarios! {
    an_interrupted_turn_ends_and_is_not_begun_again,
    an_agent_that_waits_for_a_permission_can_be_interrupted,
}

fn interrupt(setup: &Setup, text: &str) {
    setup.world.cli(LEAD, &["interrupt", BACKEND, "--with", text]).succeeds();
}

fn an_interrupted_turn_ends_and_is_not_begun_again(setup: Setup) {
    setup.world.join("ann");
    setup.on_shell("build it", "echo ran >> runs; touch running; until [ -e go ]; do sleep 0.05; done");
    setup.model.add(Rule::when("Leave it").says("I left it."));
    setup.model.add(Rule::when("and the docs").says("I read that."));
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("build it");
    setup.await_file("running");
    // Some programs take it in the turn, and others after it. It must not get lost.
    setup.send("and the docs");
    setup.world.cli("ann", &["interrupt", BACKEND]).exits(77);
    interrupt(&setup, "Leave it.");
    setup.await_receipt("Leave it.", "processed");
    setup.await_receipt("build it", "processed");
    setup.await_receipt("and the docs", "processed");
    let reached = |text: &str| setup.model.requests().into_iter().any(|request| request.text.contains(text));
    assert!(reached("Leave it.") && reached("and the docs"), "a message did not reach the model");
    setup.model.add(Rule::when("Are you there").says("Yes."));
    setup.send("Are you there?");
    setup.await_receipt("Are you there?", "processed");
    assert_eq!(std::fs::read_to_string(setup.file("runs")).unwrap(), "ran\n", "it began again");
    assert!(!setup.file("go").exists());
    let shown = setup.world.cli(LEAD, &["transcript", BACKEND]).succeeds().stdout;
    assert!(shown.contains("the lead ended the program's turn"), "{shown}");
    setup.shut_down(backend);
}

fn an_agent_that_waits_for_a_permission_can_be_interrupted(setup: Setup) {
    let (tool, input) = setup.program.shell_that_asks("touch forbidden");
    setup.model.add(Rule::when("try it").calls(tool, input));
    setup.model.add(Rule::when("Never mind").says("All right."));
    let backend = setup.backend(&["--permissions", "ask"]);
    setup.send("try it");
    let request = setup.world.await_inbox(LEAD, "the request", |message| message["type"] == "permission_request");
    interrupt(&setup, "Never mind.");
    setup.await_receipt("Never mind.", "processed");
    setup.await_receipt("try it", "processed");
    let id = request["request_id"].as_str().unwrap();
    eventually("the request is withdrawn", || {
        let shown = setup.world.cli(LEAD, &["requests", "--json"]).succeeds().stdout;
        shown.lines().any(|line| line.contains(id) && line.contains("cancelled")).then_some(())
    });
    assert!(!setup.file("forbidden").exists());
    setup.shut_down(backend);
}
