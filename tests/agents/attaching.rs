//! A person takes over an agent's session at a terminal, says something, and gives it back.

use nix::sys::signal::Signal;
use teamwire_scripted_model::Rule;

use crate::{
    program::Can,
    setup::{BACKEND, Setup},
    world::{LEAD, Terminal, eventually, is_alive},
};

scenarios! {
    a_person_takes_over_in_mid_turn_and_gives_the_session_back,
    an_agent_cannot_attach,
}

/// Attaches as the lead, on the machine where the backend runs.
fn attach(setup: &Setup, options: &[&str]) -> Terminal {
    let state = setup.world.home(BACKEND).join("state");
    let home = setup.world.home(BACKEND);
    let environment =
        [("TEAMWIRE_STATE_DIR", state.to_str().unwrap()), ("HOME", home.to_str().unwrap()), ("TERM", "xterm-256color")];
    setup.world.at_terminal_in(LEAD, &[&["attach", BACKEND], options].concat(), &environment)
}

fn a_person_takes_over_in_mid_turn_and_gives_the_session_back(setup: Setup) {
    if !setup.program.can(Can::BeAttached) {
        return;
    }
    setup.on_shell("build it", "touch running; until [ -e go ]; do sleep 0.05; done");
    setup.model.add(Rule::when("xylophone").says("Remembered!"));
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("build it");
    setup.await_file("running");
    let runner_program = backend.program();
    let mut terminal = attach(&setup, &[]);
    eventually("the lead holds the session", || setup.trouble().starts_with("held by lead").then_some(()));
    assert!(!is_alive(runner_program));
    setup.send("and the docs");
    setup.send("and the tests");
    let refused = attach(&setup, &[]);
    let (code, shown) = refused.ends();
    assert!(code == Some(1) && shown.contains("lead has held this session"), "{code:?} {shown}");
    setup.types(&mut terminal, "remember xylophone", "xylophone");
    terminal.shows("Remembered!");
    // The terminal is closed. The messages that came meanwhile arrive once, in order, and the agent knows what was said.
    terminal.signal(Signal::SIGHUP);
    setup.await_receipt("and the tests", "processed");
    let requests = setup.model.requests();
    let last = requests.iter().rev().find(|request| request.text.contains("and the tests")).unwrap();
    assert!(last.text.contains("xylophone"), "the agent does not know what was said: {}", last.text);
    let (docs, tests) = (last.text.find("and the docs").unwrap(), last.text.find("and the tests").unwrap());
    assert!(docs < tests);
    assert_eq!(setup.trouble(), "");
    setup.shut_down(backend);
}

fn an_agent_cannot_attach(setup: Setup) {
    let teamwire = env!("CARGO_BIN_EXE_teamwire");
    let attempt = format!("{teamwire} attach {BACKEND} > attempt 2>&1; echo $? >> attempt");
    setup.on_shell("take over", &attempt);
    let backend = setup.backend(&["--permissions", "allow"]);
    setup.send("take over");
    setup.await_receipt("take over", "processed");
    let said = std::fs::read_to_string(setup.file("attempt")).unwrap();
    assert!(said.contains("An agent cannot take over") && said.trim_end().ends_with("77"), "{said}");
    setup.shut_down(backend);
}
