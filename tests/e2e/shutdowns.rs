//! Shutdowns, from the question to the end of the last process.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agents,
    world::{LEAD, World, eventually, is_alive},
};

scenarios! {
    a_shutdown_is_rejected_with_a_reason_and_when_approved_ends_every_process,
    a_pending_shutdown_request_ends_nothing_and_a_second_one_joins_it,
    a_terminated_runner_ends_its_program_and_reports_it,
}

store_scenarios! {
    a_shutdown_request_outlives_a_coordinator_crash,
}

fn a_shutdown_is_rejected_with_a_reason_and_when_approved_ends_every_process(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &["--wrap-up", "1", "--grace", "1"], agents::STUBBORN).ready();
    let pids = eventually("all descendants run", || Some(backend.pids()).filter(|pids| pids.len() == 5));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");

    world.cli(LEAD, &["shutdown", "backend", "are you done?", "--wait"]).exits(3).complains_of("three tests still run");
    let history = world.history(LEAD);
    let rejected = &history.iter().find(|entry| entry["message"]["type"] == "shutdown_response").unwrap()["message"];
    assert_eq!((&rejected["approve"], &rejected["content"]), (&false.into(), &"three tests still run".into()));
    assert!(pids.iter().all(|pid| is_alive(*pid)), "a question has ended a process");
    world
        .cli(LEAD, &["team", "delete", "--yes"])
        .exits(1)
        .complains_of("backend")
        .complains_of("TEAM_HAS_ACTIVE_MEMBERS");

    world.cli(LEAD, &["shutdown", "backend", "and now?", "--wait"]).succeeds();
    let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(left.is_empty(), "{left:?} live on");
    let member = world.member("backend");
    assert_eq!((&member["state"], &member["exit"]["signal"]), (&"exited".into(), &9.into()), "{member}");
    let is_notice = |entry: &Value| {
        let notice = &entry["message"]["notice"];
        notice["kind"] == "member_exited" && notice["member"] == "backend"
    };
    assert!(world.history(LEAD).iter().any(is_notice), "the notice of the exit");
    // The command has shown the answer and the exit.
    let unread = world.take_inbox(LEAD);
    let shown =
        |message: &&Value| message["type"] == "shutdown_response" || message["notice"]["kind"] == "member_exited";
    assert_eq!(unread.iter().filter(shown).count(), 0, "{unread:?}");
    assert_eq!(backend.exit(), 0);
    world.cli(LEAD, &["send", "backend", "still there?"]).exits(1).complains_of("AGENT_EXITED");

    world.cli(LEAD, &["team", "delete", "--yes"]).succeeds();
    assert!(world.cli(LEAD, &["team", "list", "--json"]).succeeds().lines().is_empty());
    world.create_team("acme");
    assert!(world.member("backend").is_null());
    assert!(world.take_inbox(LEAD).is_empty());
    assert!(world.history(LEAD).iter().all(|entry| entry["message"].is_null()), "the old team's history is left");
    assert!(world.cli(LEAD, &["requests", "--json"]).succeeds().lines().is_empty());
}

fn a_shutdown_request_outlives_a_coordinator_crash(mut world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::SLOW).ready();
    let program = backend.program();
    let waiting = world.spawn(LEAD, &["shutdown", "backend", "when you can", "--wait"], "");
    backend.await_heard("the request", |line| line["type"] == "shutdown_request");

    world.coordinator.kill();
    // It answers while nobody listens.
    let home = world.home("backend");
    fs::write(home.join("go"), "").unwrap();
    eventually("the answer", || home.join("answered").exists().then_some(()));
    assert!(is_alive(program), "it ended before its approval was known");
    world.coordinator.restart();

    waiting.output().exits(0);
    assert_eq!(backend.exit(), 0);
    assert!(!is_alive(program));
    let history = world.history(LEAD);
    let decisions: Vec<_> = history.iter().filter(|entry| !entry["decision"].is_null()).collect();
    assert_eq!(decisions.len(), 1, "{decisions:?}");
    assert_eq!(decisions[0]["decision"]["state"], "approved");
    let exits = history.iter().filter(|entry| entry["member"]["state"] == "exited").count();
    assert_eq!(exits, 1);
}

fn a_pending_shutdown_request_ends_nothing_and_a_second_one_joins_it(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &[], agents::SLOW).ready();
    let asked = world.cli(LEAD, &["shutdown", "backend", "--json"]).succeeds().json();
    backend.await_heard("the request", |line| line["type"] == "shutdown_request");
    let pending = world.cli(LEAD, &["shutdown", "backend", "--json"]).exits(1).error();
    assert_eq!(pending["reason"], "SHUTDOWN_PENDING");
    assert_eq!(pending["metadata"]["request_id"], asked["request_id"]);
    assert!(is_alive(backend.program()));
    assert_eq!(world.member("backend")["pending_shutdown"], asked["request_id"]);

    // `--wait` waits for the pending request.
    let waiting = world.spawn(LEAD, &["shutdown", "backend", "--wait"], "");
    waiting.await_said("A request is already pending");
    fs::write(world.home("backend").join("go"), "").unwrap();
    waiting.output().exits(0);
    assert_eq!(backend.exit(), 0);
    let heard = fs::read_to_string(world.home("backend").join("heard")).unwrap();
    assert_eq!(heard.matches(r#""type":"shutdown_request""#).count(), 1, "the program was asked more than once");
}

fn a_terminated_runner_ends_its_program_and_reports_it(world: World) {
    world.create_team("acme");
    let backend = world.run("backend", &["--grace", "1"], agents::STUBBORN).ready();
    let pids = eventually("all descendants run", || Some(backend.pids()).filter(|pids| pids.len() == 5));
    backend.signal(Signal::SIGTERM);
    let code = backend.exit();
    assert_eq!(code, 128 + 9, "the program had to be killed");
    let left: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(left.is_empty(), "{left:?} live on");
    let member = world.member("backend");
    assert_eq!((&member["state"], &member["exit"]["signal"]), (&"exited".into(), &9.into()), "{member}");

    // It was not dismissed: it may come back.
    let back = world.run_again("backend", &[], agents::WILLING).ready();
    let answered = world.cli(LEAD, &["send", "backend", "ping", "--wait-reply", "60", "--json"]).succeeds();
    assert_eq!(answered.json()["reply"]["content"], "pong");
    world.cli(LEAD, &["shutdown", "backend", "--wait"]).succeeds();
    assert_eq!(back.exit(), 0);
    world.cli("backend", &["run", "backend", "--", "true"]).exits(77);
}
