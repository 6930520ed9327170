//! A program and a runner that are killed in the middle of a turn.

use std::fs;

use nix::sys::signal::Signal;
use teamwire_scripted_model::Rule;

use crate::{
    program::Can,
    setup::{BACKEND, Setup, family},
    world::{eventually, is_alive, signal},
};

scenarios! {
    a_killed_program_resumes_and_its_message_comes_again_marked,
    a_program_that_is_killed_before_it_has_resumed_still_resumes,
    nothing_survives_a_killed_runner_and_its_successor_takes_over,
}

/// Has the model act on "do it" once, with an effect, and then hang in a tool call. A message that is marked as
/// delivered again gets no second effect.
fn act_and_hang(setup: &Setup) {
    setup.model.add(Rule::when("delivered before(?s:.*)do it").says("It is done already."));
    setup.on_shell(">do it<", "echo effect >> effects; touch running; until [ -e go ]; do sleep 0.05; done");
}

fn assert_done_once(setup: &Setup) {
    setup.await_receipt("do it", "processed");
    assert_eq!(fs::read_to_string(setup.file("effects")).unwrap(), "effect\n");
}

fn a_killed_program_resumes_and_its_message_comes_again_marked(setup: Setup) {
    act_and_hang(&setup);
    let backend = setup.backend(&["--permissions", "allow", "--restart", "on-failure"]);
    setup.send("remember the word xylophone");
    setup.await_receipt("remember the word xylophone", "processed");
    setup.send("do it");
    setup.await_file("running");
    let killed = family(&backend);
    signal(backend.program(), Signal::SIGKILL);
    let shown = setup.model.await_request("delivered before(?s:.*)do it");
    assert!(!killed.contains(&backend.program()), "the program was not restarted");
    eventually("no process of the killed program is left", || (!killed.iter().any(|pid| is_alive(*pid))).then_some(()));
    assert!(
        !setup.program.can(Can::Resume) || shown.text.contains("xylophone"),
        "the conversation is lost: {}",
        shown.text
    );
    assert_done_once(&setup);
    setup.shut_down(backend);
}

fn a_program_that_is_killed_before_it_has_resumed_still_resumes(setup: Setup) {
    setup.model.add(Rule::when("what was it").says("You know."));
    let backend = setup.backend(&["--permissions", "allow", "--restart", "on-failure"]);
    setup.send("remember the word xylophone");
    setup.await_receipt("remember the word xylophone", "processed");
    for _ in 0..2 {
        let killed = backend.program();
        signal(killed, Signal::SIGKILL);
        eventually("the program is restarted", || (backend.program() != killed).then_some(()));
    }
    setup.send("what was it");
    let shown = setup.model.await_request("what was it");
    assert!(
        !setup.program.can(Can::Resume) || shown.text.contains("xylophone"),
        "the conversation is lost: {}",
        shown.text
    );
    setup.await_receipt("what was it", "processed");
    setup.shut_down(backend);
}

fn nothing_survives_a_killed_runner_and_its_successor_takes_over(setup: Setup) {
    act_and_hang(&setup);
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("remember the word xylophone");
    setup.await_receipt("remember the word xylophone", "processed");
    setup.send("do it");
    setup.await_file("running");
    let killed = family(&backend);
    assert!(killed.len() > 1, "the program has no descendants: {killed:?}");
    backend.signal(Signal::SIGKILL);
    eventually("no process of the killed runner is left", || (!killed.iter().any(|pid| is_alive(*pid))).then_some(()));
    backend.exit();
    assert_eq!(setup.receipt("do it"), "delivered");

    let successor = setup.run_again(BACKEND, setup.program, &["--permissions", "allow"]);
    successor.await_log("resuming the program's session");
    let shown = setup.model.await_request("delivered before(?s:.*)do it");
    assert!(
        !setup.program.can(Can::Resume) || shown.text.contains("xylophone"),
        "the conversation is lost: {}",
        shown.text
    );
    assert_done_once(&setup);
    setup.shut_down(successor);

    // A member that has ended leaves no session.
    let another = setup.backend(&[]);
    assert!(!another.log().contains("resuming the program's session"), "{}", another.log());
    setup.shut_down(another);
}
