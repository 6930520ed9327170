//! One sitting at a terminal: a person starts a team of three makers' programs, answers what they ask, looks over their
//! shoulders, takes one over, and ends the team.

use std::{fs, path::Path};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use teamwire_scripted_model::Rule;

use crate::{
    program::{self, Program},
    setup::{Setup, approval, trouble},
    world::{FreshMachine, Terminal, eventually},
};

const TEAM: &str = r#"
name = "acme"
[[members]]
name = "backend"
profile = "claude"
[[members]]
name = "frontend"
profile = "codex"
[[members]]
name = "reviewer"
profile = "opencode"
"#;

/// Runs a command at the terminal, which must succeed, and returns what it has shown.
#[track_caller]
fn run(terminal: Terminal) -> String {
    let (code, shown) = terminal.ends();
    assert_eq!(code, Some(0), "{shown}");
    shown
}

#[test]
fn a_person_leads_three_agents_from_a_terminal() {
    let Some(setup) = Setup::with("claude") else { return };
    if ["codex", "opencode"].iter().any(|name| Program::installed(name).is_none()) {
        return;
    }
    let machine = FreshMachine::with(program::environment(&setup.model.address()));
    program::configure(machine.path(), &setup.model.address());
    let project = machine.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("team.toml"), TEAM).unwrap();
    let at = |arguments: &[&str]| machine.at_terminal(&project, arguments);
    let trouble = |member: &str| trouble(&machine.member(member));
    let send = |to: &str, text: &str| _ = run(at(&["send", to, text]));

    setup.on_shell("build it", "echo built > made");
    setup.model.add(Rule::when("Make a plan").calls("SubmitPlan", json!({"plan": "1. Think. 2. Do it."})));
    setup.model.add(Rule::when("approved your plan").says("I begin."));
    setup.model.add(Rule::when("xylophone").says("Remembered!"));
    let begun = run(at(&["up"]));
    assert!(begun.contains(" is up. Next:"), "{begun}");

    // A permission and a plan, one key each.
    send("backend", "build it");
    send("frontend", "Make a plan.");
    let pending = || {
        let listed = machine.run(&["requests", "--state", "pending", "--json"]).succeeds().lines();
        Some(listed).filter(|listed| listed.len() == 2)
    };
    eventually("both ask", pending);
    let mut approving = at(&["approve"]);
    let mut shown = String::new();
    for _ in 0..2 {
        shown += &approving.shows("[q]uit: ");
        approving.presses("a");
    }
    approving.shows("Nothing else waits for your answer.");
    assert_eq!(approving.ends().0, Some(0));
    assert!(shown.contains("echo built > made") && shown.contains("1. Think. 2. Do it."), "{shown}");
    eventually("the command has run", || made(&project));
    setup.model.await_request("approved your plan");

    // A budget that is used up, and raised.
    run(at(&["budget", "reviewer", "--set", "5 tokens"]));
    send("reviewer", "review it");
    eventually("it is paused", || trouble("reviewer").starts_with("paused: ").then_some(()));
    run(at(&["budget", "reviewer", "--add", "1M tokens"]));
    eventually("it goes on", || trouble("reviewer").is_empty().then_some(()));

    let transcript = run(at(&["transcript", "backend"]));
    assert!(transcript.contains("echo built > made"), "{transcript}");

    // The person takes the backend over, says something, and closes the terminal.
    let mut terminal = at(&["attach", "backend"]);
    eventually("it is held", || trouble("backend").starts_with("held by lead").then_some(()));
    setup.types(&mut terminal, "remember xylophone", "xylophone");
    terminal.shows("Remembered!");
    terminal.signal(Signal::SIGHUP);
    eventually("it has its session back", || trouble("backend").is_empty().then_some(()));

    for _ in 0..3 {
        setup.model.add(approval());
    }
    let mut ending = at(&["down"]);
    ending.shows("Continue? [y/N]");
    ending.types("y\r");
    let (code, shown) = ending.ends();
    assert!(code == Some(0) && shown.contains("and all its data."), "{code:?} {shown}");
    machine.assert_nothing_is_left();
    let kept: Vec<Value> = fs::read_dir(machine.state().join("archive")).unwrap().flatten().map(archived).collect();
    assert_eq!(kept.len(), 1, "the history stays");
}

fn made(project: &Path) -> Option<()> {
    project.join("made").exists().then_some(())
}

/// Returns the first entry of an archive.
fn archived(file: fs::DirEntry) -> Value {
    let text = fs::read_to_string(file.path()).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}
