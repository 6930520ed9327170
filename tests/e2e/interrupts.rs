//! `teamwire interrupt`, of a program that does not end its turn.

use std::fs;

use nix::sys::signal::Signal;

use crate::{
    agents,
    world::{LEAD, World, eventually},
};

#[test]
fn a_program_that_does_not_end_its_turn_is_ended_and_another_one_goes_on() {
    let world = World::embedded();
    world.create_team("acme");
    let options = ["--join", &world.invite("backend"), "--via", "acp"];
    let backend = world.run_program("backend", &options, agents::ACP).ready();
    let prompts = || fs::read_to_string(world.home("backend").join("prompts")).unwrap_or_default();
    world.cli(LEAD, &["send", "backend", "endless work"]).succeeds();
    eventually("the turn begins", || prompts().contains("endless work").then_some(()));
    world.cli(LEAD, &["interrupt", "backend", "--with", "Stop, and write the tests."]).succeeds();
    eventually("the next process reads what comes instead", || {
        prompts().contains("Stop, and write the tests.").then_some(())
    });
    eventually("both are processed", || {
        let messages = world.history(LEAD).into_iter().filter(|entry| entry["message"]["type"] == "message");
        let states: Vec<_> = messages.map(|entry| entry["receipts"][0]["state"].clone()).collect();
        (states == ["processed", "processed"]).then_some(())
    });
    assert_eq!(world.member("backend")["incarnation"], 1, "it is the same life");
    assert_eq!(prompts().matches(">endless work<").count(), 1, "what was interrupted does not begin again");
    let shown = world.cli(LEAD, &["transcript", "backend"]).succeeds().stdout;
    assert!(shown.contains("the program did not end it when it was interrupted"), "{shown}");
    assert!(shown.contains("--- turn 2 of life 1 ---"), "{shown}");
    backend.await_log("it did not end its turn when it was interrupted");
    backend.signal(Signal::SIGTERM);
    backend.exit();
}
