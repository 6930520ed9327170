//! `teamwire approve` without a request: a person walks through everything that waits, one key at a time.

use std::{thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::world::{LEAD, Terminal, World};

scenarios! {
    a_person_answers_what_waits_with_one_key_each,
    the_walk_notices_what_others_answer_and_what_arrives,
    a_key_that_was_typed_too_early_or_pasted_answers_nothing,
    the_terminal_is_as_before_however_the_walk_ends,
    an_agents_characters_do_not_reach_the_terminal,
    without_a_terminal_the_requests_are_listed,
}

/// The end of the line that asks for a key.
const ASKS: &str = "[q]uit: ";

/// Asks for permission. Returns the request's id.
fn ask(world: &World, who: &str, detail: &str, seconds: &str) -> String {
    let request = ["permission", "request", "--tool", "Bash", "--summary", "work", "--detail", detail];
    let sent = world.cli(who, &[&request[..], &["--deadline", seconds, "--json"]].concat()).succeeds().json();
    sent["request_id"].as_str().unwrap().to_owned()
}

fn state(world: &World, id: &str) -> Value {
    world.cli(LEAD, &["requests", id, "--json"]).succeeds().json()["state"].clone()
}

fn team(world: &World) {
    world.create_team("acme");
    world.join("ann");
}

fn walk(world: &World) -> Terminal {
    world.at_terminal(LEAD, &["approve"])
}

fn a_person_answers_what_waits_with_one_key_each(world: World) {
    team(&world);
    let last = ask(&world, "ann", "make last", "3000");
    let first = ask(&world, "ann", "make first", "300");
    let second = ask(&world, "ann", "make second", "1000");
    world.cli("ann", &["plan", "submit", "# Move it\n\nThen delete the old one."]).succeeds();
    let mut terminal = walk(&world);
    let shown = terminal.shows(ASKS);
    let places = ["ann asks for permission; 3 more", "Tool: Bash", "make first", "It expires in", "[a]pprove"];
    let places: Vec<usize> = places.iter().map(|text| shown.find(text).expect(text)).collect();
    assert!(places.is_sorted(), "{shown}");
    terminal.presses("a");
    assert!(terminal.shows(ASKS).contains("Approved ann's permission request: Bash: make first"));
    assert_eq!(state(&world, &first), "approved");
    terminal.presses("r");
    terminal.shows("Why?");
    terminal.types("not before the release\n");
    assert!(terminal.shows(ASKS).contains("Rejected ann's permission request: Bash: make second"));
    let rejected = world.cli(LEAD, &["requests", &second, "--json"]).succeeds().json();
    assert_eq!((&rejected["state"], &rejected["reason"]), (&"rejected".into(), &"not before the release".into()));
    terminal.presses("s");
    let shown = terminal.shows(ASKS);
    assert!(shown.contains("ann submits a plan") && shown.contains("    Then delete the old one."), "{shown}");
    assert!(!shown.contains("al[w]ays"), "no rule permits a plan: {shown}");
    terminal.presses("a");
    terminal.shows("You skipped 1 request");
    assert_eq!(terminal.ends().0, Some(0));
    assert_eq!(state(&world, &last), "pending");

    let mut terminal = walk(&world);
    terminal.shows(ASKS);
    terminal.presses("q");
    terminal.shows("Stopped. 1 request not answered");
    assert_eq!(terminal.ends().0, Some(0));
    world.cli(LEAD, &["reject", &last, "--yes"]).succeeds();
    let mut terminal = walk(&world);
    terminal.shows("Nothing else waits for your answer.");
    assert_eq!(terminal.ends().0, Some(0));
}

fn the_walk_notices_what_others_answer_and_what_arrives(world: World) {
    team(&world);
    world.join("bob");
    let request = ["permission", "request", "--tool", "Bash", "--summary", "x", "--approver", "bob", "--json"];
    let sent = world.cli("ann", &request).succeeds().json();
    let mut terminal = walk(&world);
    terminal.shows(ASKS);
    world.cli("bob", &["approve", sent["request_id"].as_str().unwrap()]).succeeds();
    terminal.shows("Meanwhile it is approved by bob");
    terminal.shows("Nothing else waits");
    assert_eq!(terminal.ends().0, Some(0));

    // It expires while the person looks at it, and another one arrives.
    ask(&world, "ann", "make short", "3");
    let mut terminal = walk(&world);
    terminal.shows(ASKS);
    let later = ask(&world, "ann", "make later", "600");
    terminal.shows("Meanwhile it is expired");
    let shown = terminal.shows(ASKS);
    assert!(shown.contains("make later"), "{shown}");
    // Another answer comes while the reason is typed.
    terminal.presses("r");
    terminal.shows("Why?");
    world.cli(LEAD, &["approve", &later, "--yes"]).succeeds();
    terminal.types("no\n");
    terminal.shows("Not answered: The request was approved before; a decision is final.");
    terminal.shows("Nothing else waits");
    assert_eq!(terminal.ends().0, Some(0));
}

fn a_key_that_was_typed_too_early_or_pasted_answers_nothing(world: World) {
    team(&world);
    let id = ask(&world, "ann", "make", "600");
    let mut terminal = walk(&world);
    terminal.types("aaaa");
    terminal.shows(ASKS);
    // An arrow, a paste, and a key that means nothing.
    for keys in ["\u{1b}[A", "approve", "aa", "A", "x", "é"] {
        terminal.presses(keys);
        // The walk reads each separately, and shows nothing for it, so there is no event to await.
        thread::sleep(Duration::from_millis(500));
    }
    terminal.presses("r");
    terminal.shows("Why?");
    // Ctrl+D: not rejected after all.
    terminal.types("\u{4}");
    terminal.shows(ASKS);
    assert_eq!(state(&world, &id), "pending");
    terminal.presses("q");
    assert_eq!(terminal.ends().0, Some(0));
}

fn the_terminal_is_as_before_however_the_walk_ends(world: World) {
    team(&world);
    let id = ask(&world, "ann", "make", "600");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let mut terminal = walk(&world);
        terminal.shows(ASKS);
        crate::world::eventually("it takes keys", || (!terminal.waits_for_enter()).then_some(()));
        terminal.signal(signal);
        let (code, shown) = terminal.ends();
        assert_eq!(code, Some(130), "{signal}: {shown}");
        assert!(shown.contains("Requests that you have not answered still wait"), "{shown}");
    }
    let mut terminal = walk(&world);
    terminal.shows(ASKS);
    // Ctrl+C, and before it Ctrl+Z, which does nothing.
    terminal.presses("\u{1a}");
    // The walk shows nothing for it, so there is no event to await.
    thread::sleep(Duration::from_millis(500));
    terminal.presses("\u{3}");
    assert_eq!(terminal.ends().0, Some(130));
    assert_eq!(state(&world, &id), "pending");
}

fn an_agents_characters_do_not_reach_the_terminal(world: World) {
    team(&world);
    ask(&world, "ann", "make \u{1b}[2J\u{1b}]0;x\u{7} \u{202e}clean", "600");
    let mut terminal = walk(&world);
    let shown = terminal.shows(ASKS);
    assert!(shown.contains("make \\u{1b}[2J") && shown.contains("\\u{202e}clean"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[2J") && !shown.contains(['\u{7}', '\u{202e}']), "{shown:?}");
    terminal.presses("w");
    let shown = terminal.shows(ASKS);
    assert!(shown.contains("no rule can match it. Answer this request only."), "{shown}");
    terminal.presses("q");
    assert_eq!(terminal.ends().0, Some(0));
}

fn without_a_terminal_the_requests_are_listed(world: World) {
    team(&world);
    let nothing = world.cli(LEAD, &["approve"]).exits(1);
    nothing.complains_of("Nothing waits for your answer.");
    let late = ask(&world, "ann", "make late", "3000");
    let soon = ask(&world, "ann", "make soon", "300");
    let listed = world.cli(LEAD, &["approve"]).exits(64).complains_of("name the request to answer").stderr;
    let place = |text: &str| listed.find(text).expect(text);
    assert!(place(&soon) < place(&late) && place("ann: Bash: make soon") < place("ann: Bash: make late"), "{listed}");
    let error = world.cli(LEAD, &["approve", "--json"]).exits_with_error();
    assert!(error["message"].as_str().unwrap().contains(&soon), "{error}");
    world.cli(LEAD, &["approve", "--yes", "-m", "x"]).exits(64);
    world.cli("ann", &["approve"]).exits(1).complains_of("Nothing waits for your answer.");
    world.cli(LEAD, &["plan", "approve"]).exits(1).complains_of("Nothing waits for your answer.");
}
